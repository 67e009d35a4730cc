"""Inlines a model's local functions.

ONNX's inliner is unsuitable. It loses default values of attributes, and results of a function that
are also its arguments. It skips a function that imports another version of an opset than the model,
even if both versions define the used operators equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from rammer_mlir.frontends.onnx.function_sizes import FunctionKey, key_of_call, key_of_function
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_copier import copy_function
from rammer_mlir.frontends.onnx.node_names import names_of_graph
from rammer_mlir.frontends.onnx.traversal import subgraphs


def inline_local_functions(model: Model) -> None:
    """Inline all calls of a model's local functions, also in subgraphs and functions, in place.

    Expansion ends, because loading the model has checked that no function is recursive.
    """
    functions = {key_of_function(f): f for f in model.proto.functions}
    inliner = _Inliner(functions)
    # Expand one level of calls per round, so that new names are known to be unique.
    while inliner.calls(model.graph.node):
        inliner.reserve_names(model.graph)
        model.set_nodes(inliner.expand(model.graph.node))
    _import_opsets(model.proto)
    del model.proto.functions[:]


class _Inliner:
    def __init__(self, functions: dict[FunctionKey, onnx.FunctionProto]) -> None:
        self._functions = functions
        self._folders: set[str] = set()

    def calls(self, nodes: Iterable[onnx.NodeProto]) -> bool:
        """Whether any of the nodes, or a node in their nested subgraphs, calls a local function."""
        return any(
            key_of_call(node) in self._functions or any(self.calls(g.node) for g in subgraphs(node))
            for node in nodes
        )

    def reserve_names(self, graph: onnx.GraphProto) -> None:
        """Reserve the prefixes of a graph's names; names of copied nodes get other prefixes.

        The prefixes of "a/b/c" are "a/" and "a/b/".
        """
        for name in set(names_of_graph(graph)):
            parts = name.split("/")
            self._folders.update("/".join(parts[:end]) + "/" for end in range(1, len(parts)))

    def expand(self, nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        """Yield the nodes, with each call replaced by copies of the called function's nodes.

        Calls in subgraphs of the yielded nodes are replaced in place.
        """
        for node in nodes:
            function = self._functions.get(key_of_call(node))
            if function is not None:
                defaults = {a.name: a for a in function.attribute_proto}
                yield from copy_function(function, node, defaults, self._fresh_prefix(node))
                continue
            for graph in subgraphs(node):
                copies = [
                    onnx.NodeProto.FromString(inner.SerializeToString())
                    for inner in self.expand(graph.node)
                ]
                del graph.node[:]
                graph.node.extend(copies)
            yield node

    def _fresh_prefix(self, node: onnx.NodeProto) -> str:
        name = node.name or next(filter(None, node.output), node.op_type)
        while f"{name}/" in self._folders:
            name += "_"
        self._folders.add(f"{name}/")
        return f"{name}/"


def _import_opsets(model: onnx.ModelProto) -> None:
    """Add to the model's opset imports each operator set that only its functions import.

    If the model and a function import different versions of an operator set, the model's version
    remains: ONNX's checker has verified that both versions define the used operators equally.
    """
    known = {opset.domain for opset in model.opset_import}
    for function in model.functions:
        for opset in function.opset_import:
            if opset.domain not in known:
                known.add(opset.domain)
                model.opset_import.append(opset)
