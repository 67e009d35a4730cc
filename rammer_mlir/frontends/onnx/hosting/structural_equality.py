"""Identifies equal model parts, independent of the names of values and nodes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.hosting.parts import Part
from rammer_mlir.frontends.onnx.tensors import Array, small_constants

Names = dict[str, object]


def identity(part: Part) -> bytes:
    """Return a digest of a part; equal digests mean that the parts compute the same function.

    The digest depends on the nodes, constants, opsets, input types and shape values of the part,
    and on its attributes ``is_repeated`` and ``is_eager``. It does not depend on the names of
    values and nodes.
    """
    graph = part.model.graph
    names: Names = {value.name: number for number, value in enumerate(part.model.inputs)}
    shape_values = [names[name] for name in part.shape_values]
    found = hashlib.sha256(repr((part.is_repeated, part.is_eager, shape_values)).encode())
    found.update(repr([(o.domain, o.version) for o in part.model.proto.opset_import]).encode())
    for value in part.model.inputs:
        found.update(value.type.SerializeToString(deterministic=True))
    numbers = itertools.count(len(names))
    for item in _of_graph(graph, names, part.model.constants(), numbers):
        found.update(repr(item).encode())
    return found.digest()


def _of_graph(
    graph: onnx.GraphProto,
    names: Names,
    constants: Mapping[str, Array],
    numbers: Iterator[int],
) -> Iterator[object]:
    """Yield a description of each node of a graph, then of the graph's outputs, without names.

    A description identifies a value by its index in ``names``, or a constant by its content in
    ``constants``. The function adds the nodes' results to ``names``.
    """
    for node in graph.node:
        yield node.op_type, node.domain, node.overload
        yield [_name(name, names, constants) for name in node.input]
        yield [bool(name) for name in node.output]  # an absent result moves those after it
        for attribute in sorted(node.attribute, key=lambda each: each.name):
            is_graph = attribute.type == onnx.AttributeProto.GRAPH
            graphs = [attribute.g] if is_graph else attribute.graphs
            for inner in graphs:
                yield attribute.name, *_of_subgraph(inner, names, constants, numbers)
            if not graphs:
                yield attribute.SerializeToString(deterministic=True)
        for name in node.output:
            names[name] = next(numbers) if name else None
    yield [_name(value.name, names, constants) for value in graph.output]


def _of_subgraph(
    graph: onnx.GraphProto,
    names: Names,
    constants: Mapping[str, Array],
    numbers: Iterator[int],
) -> Iterator[object]:
    inner = dict(names)
    inner.update((value.name, next(numbers)) for value in graph.input)
    yield [value.type.SerializeToString(deterministic=True) for value in graph.input]
    own = small_constants(graph)
    for name in own:
        inner.pop(name, None)
    yield from _of_graph(graph, inner, {**constants, **own}, numbers)


def _name(name: str, names: Names, constants: Mapping[str, Array]) -> object:
    """Return the index of value ``name`` in ``names``, or the content of the constant ``name``.

    Return None if ``name`` is neither. ``constants`` has the constants by name; the content of a
    constant is its dtype, its shape and the hash of its elements.
    """
    if name not in names:
        value = constants.get(name)
        names[name] = None if value is None else _content(value)
    return names[name]


def _content(value: Array) -> tuple[str, tuple[int, ...], bytes]:
    content = np.ascontiguousarray(value).tobytes()
    return str(value.dtype), value.shape, hashlib.sha256(content).digest()
