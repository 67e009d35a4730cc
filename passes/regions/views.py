"""Recognizes operations that only move elements: reshapes, slices, concatenations, paddings."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.regions.expressions import scalar_constant
from rammer_mlir.passes.regions.reading import Attribute, Reading
from rammer_mlir.passes.regions.weights import Weights, operand_of


def read_view(op: ir.OpView, weights: Weights) -> Reading | None:
    """Recognize a reshape, slice, concatenation or padding.

    Return its description, or None for any other operation. ``weights`` count as constants.
    """
    operation = op.operation
    if operation.name in RESHAPES and len(operation.operands) == 1:
        return _moved(operation, "reshape", {}, weights)
    if operation.name == "tensor.extract_slice":
        return _read_slice(operation, weights)
    if operation.name == "tensor.concat":
        axis = ir.IntegerAttr(operation.attributes["dim"]).value
        return _moved(operation, "concat", {"axis": axis}, weights)
    pad = find_constant_pad(op)
    value = None if pad is None else scalar_constant(pad.border)
    if pad is None or value is None:
        return None
    attributes: dict[str, Attribute] = {
        "low": tuple(pad.low), "high": tuple(pad.high), "value": value
    }  # fmt: skip
    return _moved(operation, "pad", attributes, weights)


def _moved(
    op: ir.Operation, kind: str, attributes: dict[str, Attribute], weights: Weights
) -> Reading:
    inputs = tuple(operand_of(value, weights) for value in op.operands)
    return Reading(kind, inputs, operand_of(op.results[0], weights), attributes, (op,))


def _read_slice(op: ir.Operation, weights: Weights) -> Reading | None:
    """Recognize a slice with static offsets, maybe rank-reducing; return its ``Reading`` or None.

    ``weights`` count as constants.
    """
    if len(op.operands) != 1:
        return None
    attributes: dict[str, Attribute] = {
        name: tuple(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"]))
        for name in ("offsets", "sizes", "strides")
    }
    return _moved(op, "slice", attributes, weights)
