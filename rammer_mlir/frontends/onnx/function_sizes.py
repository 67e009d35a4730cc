"""Checks that a model's functions are not recursive and do not expand to too many nodes."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import onnx

from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx.limits import MOST_NESTED_CALLS, require_few_nodes
from rammer_mlir.frontends.onnx.tensors import label
from rammer_mlir.frontends.onnx.traversal import nodes_within

FunctionKey = tuple[str, str, str]
"""Identity of a model's function: domain, name, overload."""


def key_of_call(node: onnx.NodeProto) -> FunctionKey:
    """Return the identity of the function that a node calls: domain, name, overload."""
    return node.domain, node.op_type, node.overload


def key_of_function(function: onnx.FunctionProto) -> FunctionKey:
    """Return a function's identity: domain, name, overload."""
    return function.domain, function.name, function.overload


def check_functions(proto: onnx.ModelProto, name: str) -> None:
    """Check that functions are not recursive, and do not expand to too many nodes.

    ``name`` is the model's name in messages.

    Raises:
        ModelError: if a function calls itself, directly or indirectly.
        UnsupportedError: if calls are nested too deeply, or expand to too many nodes.
    """
    functions = {key_of_function(function): function for function in proto.functions}
    sizes: dict[FunctionKey, int] = {}
    depths: dict[FunctionKey, int] = {}
    for key in _callees_first(functions, name):
        calls = [key_of_call(node) for node in nodes_within(functions[key].node)]
        sizes[key] = sum(sizes.get(call, 1) for call in calls)
        depths[key] = 1 + max((depths.get(call, 0) for call in calls), default=0)
        if depths[key] > MOST_NESTED_CALLS:
            raise UnsupportedError(
                f"{name}: function '{key[1]}' calls functions within functions: expected at most "
                f"{MOST_NESTED_CALLS} levels, found {depths[key]}; inline some of them"
            )
    total = 0
    for node in nodes_within(proto.graph.node) if functions else ():
        total += sizes.get(key_of_call(node), 1)
        require_few_nodes(label(node), total)


def _callees_first(
    functions: dict[FunctionKey, onnx.FunctionProto], name: str
) -> Iterable[FunctionKey]:
    calls = {
        key: {key_of_call(node) for node in nodes_within(function.node)} & functions.keys()
        for key, function in functions.items()
    }
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        names = " -> ".join(f"'{key[0]}::{key[1]}'" for key in error.args[1])
        raise ModelError(
            f"{name}: expected functions that do not call themselves, found {names}"
        ) from error
