"""Which nodes the host runs, and which operands have to be known before a part is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.evaluators.host_table import HOST_EVALUATORS
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.demand import SHAPE_INPUTS
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS

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
"""Inputs by operator that have to be constants of a static program."""

_DECISIONS: Mapping[str, tuple[int, ...]] = {"If": (0,), "Loop": (0, 1)}

_HEAVY = ("Gemm", "MatMul", "DequantizeLinear", "QuantizeLinear")
"""Operators with an evaluator that parts compute nevertheless: there is work to schedule."""


def is_control_flow(node: onnx.NodeProto) -> bool:
    """Whether a node chooses or repeats subgraphs."""
    return node.domain in ONNX_DOMAINS and node.op_type in CONTROL_FLOW


def is_host_operator(node: onnx.NodeProto) -> bool:
    """Whether nothing but the host runs an operator."""
    return is_control_flow(node) or (
        node.domain in ONNX_DOMAINS and node.op_type in HOST_EVALUATORS
    )


def is_light(node: onnx.NodeProto) -> bool:
    """Whether the host may evaluate a node: its evaluator costs about what copying would."""
    return node.domain in ONNX_DOMAINS and node.op_type in EVALUATORS and node.op_type not in _HEAVY


def fixed_operands(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the operands whose values have to be known before a node is compiled."""
    if node.domain in ONNX_DOMAINS:
        yield from _inputs(node, _FIXED_INPUTS.get(node.op_type, ()))


def decisions(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the operands that decide what control flow does."""
    if node.domain in ONNX_DOMAINS:
        yield from _inputs(node, _DECISIONS.get(node.op_type, ()))


def _inputs(node: onnx.NodeProto, numbers: tuple[int, ...]) -> Iterator[str]:
    yield from (node.input[n] for n in numbers if n < len(node.input) and node.input[n])
