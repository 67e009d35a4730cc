"""Tells which operators the host executes, and which operands must be known to compile a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.evaluators.host_table import HOST_EVALUATORS
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.demand import SHAPE_INPUTS
from rammer_mlir.frontends.onnx.limits import MOST_SELECTED, RANK_BY_COUNTING
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, static_shape

CONTROL_FLOW = ("If", "Loop", "Scan")

_FIXED_INPUTS: Mapping[str, tuple[int, ...]] = {
    **SHAPE_INPUTS,
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Trilu": (1,),
}
"""By operator: the indices of the inputs that must be constants in a static program."""

_DECISIONS: Mapping[str, tuple[int, ...]] = {"If": (0,), "Loop": (0, 1)}

_HEAVY = ("Gemm", "MatMul", "DequantizeLinear", "QuantizeLinear")
"""Operators with an evaluator that are still compiled in parts, because their work is large."""


def is_control_flow(node: onnx.NodeProto) -> bool:
    """Return whether a node is an If, Loop or Scan, that is, executes subgraphs."""
    return node.domain in ONNX_DOMAINS and node.op_type in CONTROL_FLOW


def is_host_operator(node: onnx.NodeProto) -> bool:
    """Whether only the host can execute a node: control flow, sequences, data-dependent shapes."""
    return is_control_flow(node) or (
        node.domain in ONNX_DOMAINS and node.op_type in HOST_EVALUATORS
    )


def is_long_sort(node: onnx.NodeProto, types: Mapping[str, onnx.ValueInfoProto]) -> bool:
    """Whether a node is a TopK that selects too many elements for a static program.

    A static program cannot select more than MOST_SELECTED elements along an axis of more than
    RANK_BY_COUNTING elements.

    Args:
        node: any node.
        types: known types of the graph's values, by name.
    """
    if node.op_type != "TopK" or node.domain not in ONNX_DOMAINS:
        return False
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), -1)
    found = next(filter(None, node.output), "")
    length, count = (_extent(types.get(name), axis) for name in (node.input[0], found))
    return length > RANK_BY_COUNTING and count > MOST_SELECTED


def _extent(value: onnx.ValueInfoProto | None, axis: int) -> int:
    """Return the size of a value's dimension ``axis``; 0 if unknown."""
    shape = None if value is None else static_shape(value)
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else 0


def is_light(node: onnx.NodeProto) -> bool:
    """Whether the host may evaluate a node: its operator has an evaluator and does little work."""
    return node.domain in ONNX_DOMAINS and node.op_type in EVALUATORS and node.op_type not in _HEAVY


def fixed_operands(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the operands whose values must be known before the node is compiled."""
    if node.domain in ONNX_DOMAINS:
        yield from _inputs(node, _FIXED_INPUTS.get(node.op_type, ()))


def decisions(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the operands of If and Loop that are conditions or trip counts."""
    if node.domain in ONNX_DOMAINS:
        yield from _inputs(node, _DECISIONS.get(node.op_type, ()))


def _inputs(node: onnx.NodeProto, numbers: tuple[int, ...]) -> Iterator[str]:
    yield from (node.input[n] for n in numbers if n < len(node.input) and node.input[n])
