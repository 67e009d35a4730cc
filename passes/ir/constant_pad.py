"""Matches ``tensor.pad`` with a constant value, and emits zero padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.ir.structured import constant_value, is_constant, shape_of

PAD = "tensor.pad"
"""The operation that surrounds a tensor by a border of padding."""


@dataclass(frozen=True)
class ConstantPad:
    """A ``tensor.pad`` with static, non-negative widths and a constant value.

    Attributes:
        source: the padded tensor.
        low, high: the number of padding elements before and after the tensor in each dimension.
        border: the scalar value of the padding elements.
    """

    source: ir.Value
    low: list[int]
    high: list[int]
    border: ir.Value

    @property
    def is_zero(self) -> bool:
        """Whether the padding value is the floating-point zero; False for integers."""
        return constant_value(self.border) == 0.0


def find_constant_pad(op: ir.OpView) -> ConstantPad | None:
    """Return the constant padding that ``op`` computes; None if ``op`` is no such padding.

    A constant padding is a ``tensor.pad`` with static, non-negative widths and a constant value.
    """
    operation = op.operation
    if operation.name != PAD or len(operation.operands) != 1:
        return None
    border = list(operation.regions[0].blocks[0].operations)[-1].operation.operands[0]
    low, high = (
        list(ir.DenseI64ArrayAttr(operation.attributes[name]))
        for name in ("static_low", "static_high")
    )
    if not is_constant(border) or min((*low, *high), default=0) < 0:
        return None
    return ConstantPad(operation.operands[0], low, high, border)


def padding_of(value: ir.Value) -> ConstantPad | None:
    """Return the ``tensor.pad`` that computes ``value`` from constant padding elements.

    Return None if ``value`` is computed in any other way.
    """
    owner = value.owner
    return None if isinstance(owner, ir.Block) else find_constant_pad(owner.opview)


def pad_with_zeros(source: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """Emit a zero padding of a tensor of floats or integers, and return its result.

    ``low`` and ``high`` are the numbers of elements before and after the tensor, by dimension.
    """
    element = ir.RankedTensorType(source.type).element_type
    shape = [a + b + c for a, b, c in zip(low, shape_of(source), high, strict=True)]
    zero = arith.constant(element, 0 if isinstance(element, ir.IntegerType) else 0.0)
    kind = ir.RankedTensorType.get(shape, element)
    op = tensor.PadOp(kind, source, [], [], list(low), list(high))
    body = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(body):
        tensor.YieldOp(zero)
    return op.result


@dataclass(frozen=True)
class _Side:
    """The two strips of padding on both sides of one padded dimension.

    Attributes:
        dim: the padded dimension.
        low: the shape of the strip before the tensor along ``dim``; None if it would be empty.
        high: the shape of the strip after the tensor along ``dim``; None if it would be empty.
    """

    dim: int
    low: list[int] | None
    high: list[int] | None


def _sides(pad: ConstantPad) -> list[_Side]:
    """Return the strips of padding for each padded dimension, the innermost dimension first.

    The strips of dimension ``dim`` have the padded sizes of all later (inner) dimensions, and the
    unpadded sizes of all earlier (outer) dimensions.
    """
    shape = shape_of(pad.source)
    sides: list[_Side] = []
    for dim in reversed(range(len(shape))):

        def strip(width: int, dim: int = dim) -> list[int] | None:
            return [*shape[:dim], width, *shape[dim + 1 :]] if width else None

        low, high = pad.low[dim], pad.high[dim]
        if low or high:
            sides.append(_Side(dim, strip(low), strip(high)))
        shape[dim] += low + high
    return sides


def strips_of(pad: ConstantPad) -> list[list[int]]:
    """Return the shapes of the strips of padding around a tensor.

    A strip is a tensor of padding elements before or after the tensor along one dimension. The
    innermost padded dimension is first, and its strip before the tensor precedes its strip after
    the tensor. ``surrounded`` takes the strips in this order.
    """
    return [strip for side in _sides(pad) for strip in (side.low, side.high) if strip is not None]


def surrounded(pad: ConstantPad, source: ir.Value, strips: Sequence[ir.Value]) -> ir.Value:
    """Emit the concatenation of ``source`` with strips of padding; return the padded tensor.

    Args:
        pad: the padding.
        source: a tensor with the shape of ``pad.source``.
        strips: the strips, in the order and with the shapes that ``strips_of`` returns.
    """
    rest = iter(strips)
    for side in _sides(pad):
        parts = [next(rest)] if side.low is not None else []
        parts.append(source)
        if side.high is not None:
            parts.append(next(rest))
        kind = ir.RankedTensorType(source.type)
        shape = list(kind.shape)
        shape[side.dim] = sum(shape_of(part)[side.dim] for part in parts)
        result = ir.RankedTensorType.get(shape, kind.element_type)
        source = tensor.ConcatOp(result, side.dim, parts).result
    return source
