"""Recognizes initial tensors: empty tensors, and tensors filled with a number."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, constant_value, is_generic
from rammer_mlir.passes.ir.traversal import constant_integer


def is_fresh(value: ir.Value) -> bool:
    """Whether a value is an empty tensor, or a tensor filled with a scalar."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    return owner.name == "tensor.empty" or filling(value) is not None


def filling(value: ir.Value) -> ir.Value | None:
    """Return the scalar that a ``linalg.fill``, or an equivalent generic, stores in all elements.

    Return None if ``value`` is computed by any other operation.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "linalg.fill":
        return owner.operands[0]
    if not is_generic(owner.opview):
        return None
    op = Structured(owner.opview)
    block = owner.regions[0].blocks[0]
    operations = list(block.operations)
    if len(operations) > 1 or len(op.outputs) > 1:
        return None
    (given,) = operations[0].operation.operands
    if given.owner != block:
        return given
    number = ir.BlockArgument(given).arg_number
    source = owner.operands[number]
    is_scalar = number < len(op.inputs) and not isinstance(source.type, ir.ShapedType)
    return source if is_scalar else None


def starts_at_zero(op: Structured) -> bool:
    """Whether an operation's first result is initialized with zeros."""
    scalar = filling(op.outputs[0])
    if scalar is None:
        return False
    return constant_value(scalar) == 0.0 or constant_integer(scalar) == 0
