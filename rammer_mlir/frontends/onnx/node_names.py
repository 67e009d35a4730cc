"""Names the nodes that a model leaves unnamed, and keeps new names apart from the model's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

from rammer_mlir.frontends.onnx.tensors import NAME_IN_MODEL
from rammer_mlir.frontends.onnx.traversal import nodes_within, subgraphs


def name_nodes(graph: onnx.GraphProto) -> None:
    """Name the unnamed nodes of a graph and of its subgraphs, for messages and timelines.

    A new name consists of the node's operator and the name of its first result.
    """
    for node in nodes_within(graph.node):
        node.name = name_of(node)


def name_of(node: onnx.NodeProto) -> str:
    """Return a node's name; for an unnamed node, the operator and the name of the first result."""
    return node.name or f"{node.op_type}:{next(filter(None, node.output), '')}"


def separate_nodes(graph: onnx.GraphProto) -> None:
    """Rename nodes of a graph and of its subgraphs, in place, so that names made of theirs are new.

    The names of the nodes and values that replace a node begin with its name and a slash. A node
    gets a number after its name if another name of the model begins so, or if an earlier node of
    the same graph has the same name. Its metadata then have the old name, for messages.
    """
    _separate(graph, Prefixes(graph))


def _separate(graph: onnx.GraphProto, prefixes: Prefixes) -> None:
    given = {node.name for node in graph.node}
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    for node in graph.node:
        name = name_of(node)
        if name in seen or name in prefixes:
            numbers[name] += 1
            while (new := f"{name}_{numbers[name]}") in given or new in prefixes:
                numbers[name] += 1
            node.name = new
            node.metadata_props.add(key=NAME_IN_MODEL, value=name)
        seen.add(name)
        for subgraph in subgraphs(node):
            _separate(subgraph, prefixes)


class Prefixes:
    """The texts before the slashes in the names of a graph's values and nodes.

    Those of "a/b/c" are "a" and "a/b". A part with a colon does not count, as in "a/b/c:0", the
    name of a weight in models of TensorFlow: the compiler appends no such part to a name.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Collect the prefixes of the names of ``graph`` and of its subgraphs."""
        self._found: set[str] = set()
        for name in set(names_of_graph(graph)):
            self._add(name)

    def _add(self, name: str) -> None:
        while "/" in name:
            name, _, last = name.rpartition("/")
            if name in self._found:
                return  # shorter prefixes were added with it
            if ":" not in last:
                self._found.add(name)

    def __contains__(self, name: object) -> bool:
        """Whether a name of the graph begins with ``name`` and a slash."""
        return name in self._found

    def unused(self, name: str) -> str:
        """Return ``name``, with underscores after it if names of the graph begin with it.

        The result is one of the prefixes from now on.
        """
        while name in self._found:
            name += "_"
        self._found.add(name)
        return name


def names_of_graph(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the nodes of a graph and of its subgraphs, and of all values there.

    Captured values of other graphs are included. Names may be repeated.
    """
    for item in (*graph.input, *graph.initializer, *graph.output):
        yield item.name
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for inner in subgraphs(node):
            yield from names_of_graph(inner)
