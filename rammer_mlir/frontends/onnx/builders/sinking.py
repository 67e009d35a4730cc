"""Moves elementwise operations and reductions before reshapes of their operands.

``f(reshape(x))`` becomes ``reshape(f(x))``. A matrix product and its bias, or a grouped convolution
and its activation, can then be fused into one rOperator, which a reshape between them would
prevent. Reductions are moved too, so that all operations of a softmax that follows a matrix product
have the product's shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.frontends.onnx.builders.values import ZERO, Expr, Tensor
from rammer_mlir.frontends.onnx.builders.views import reassociation, reshape
from rammer_mlir.passes.ir.reshapes import RESHAPES

Access = tuple[Tensor, Sequence[Expr]]
"""A tensor with an index expression for each dimension."""


@dataclass(frozen=True)
class Sunk:
    """An elementwise operation moved before a reshape.

    Attributes:
        operands: the moved operation's operands: tensors with their index expressions.
        shape: shape of the moved operation's result, before the reshape.
    """

    operands: list[Access]
    shape: tuple[int, ...]


def sink(operands: Sequence[Access], shape: Sequence[int]) -> Sunk | None:
    """Return an elementwise operation moved before the reshape that produces one of its operands.

    For example ``reshape(x) + y -> reshape(x + y')``, where y' is y reshaped. Return None if no
    reshape produces an operand, or if another operand cannot be reshaped to match ``x``.

    Args:
        operands: tensors with their index expressions in the loops of the operation.
        shape: shape of the operation's result.
    """
    for tensor, exprs in operands:
        source = _source(tensor) if list(exprs) == list(range(len(shape))) else None
        if source is None or not source.size or not source.rank or not shape:
            continue
        groups = reassociation(source.shape, shape)
        moved = [_before(operand, groups, source.shape, shape) for operand in operands]
        if all(operand is not None for operand in moved):
            return Sunk([operand for operand in moved if operand is not None], source.shape)
    return None


@dataclass(frozen=True)
class SunkReduction:
    """A reduction moved before a reshape.

    Attributes:
        source: the moved reduction's operand, which was the operand of the reshape.
        axes: the dimensions of ``source`` to reduce.
    """

    source: Tensor
    axes: list[int]


def sink_reduction(tensor: Tensor, axes: Sequence[int]) -> SunkReduction | None:
    """Return the reduction of ``tensor`` along ``axes``, moved before a reshape.

    The reshape is the operation that produces ``tensor``. Return None if no reshape produces it, if
    the reshape merges dimensions, or if it splits a dimension into several of which only some are
    reduced.
    """
    source = _source(tensor)
    if source is None or not source.size or not source.rank or not tensor.rank:
        return None
    before: list[int] = []
    for old, new in reassociation(source.shape, tensor.shape):
        reduced = {dim in axes for dim in new}
        if len(old) != 1 or len(reduced) != 1:
            return None
        if reduced == {True}:
            before.extend(old)
    return SunkReduction(source, before)


def _source(tensor: Tensor) -> Tensor | None:
    """Return the operand of the reshape whose result is ``tensor``.

    Return None if ``tensor`` is not the result of a reshape, or if the operand is not the result of
    a linalg operation.
    """
    value = _reshaped(tensor.value)
    if value is None:
        return None
    # A reshape may consist of a collapse and an expand operation.
    value = _reshaped(value) or value
    owner = value.owner
    if isinstance(owner, ir.Block) or not owner.operation.name.startswith("linalg."):
        return None
    return Tensor(value, tensor.dtype)


def _reshaped(value: ir.Value) -> ir.Value | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in RESHAPES:
        return None
    return owner.operation.operands[0]


def _before(
    operand: Access,
    groups: Sequence[tuple[Sequence[int], Sequence[int]]],
    old: Sequence[int],
    new: Sequence[int],
) -> Access | None:
    """Return an operand of an elementwise operation, reshaped for moving the operation.

    The operation moves before the reshape of its operand x: ``f(reshape(x), y)`` becomes
    ``reshape(f(x, y'))``. This function makes y' from y. The loops of the operation are the
    dimensions of ``new``, and become those of ``old``.

    Args:
        operand: a tensor with its index expressions in the loops of the operation.
        groups: pairs of dimensions of ``old`` and dimensions of ``new`` with equal numbers of
            elements, such as ([0], [0, 1]) for a dimension that the reshape splits.
        old: shape of the operand of the reshape.
        new: shape of the result of the reshape.

    Returns:
        The reshaped tensor with its new index expressions. None if the operand cannot be reshaped,
            for example because it has some but not all dimensions of ``new`` in a group.
    """
    tensor, exprs = operand
    sizes = {expr: size for expr, size in zip(exprs, tensor.shape, strict=True) if expr != ZERO}
    if not all(isinstance(expr, int) for expr in exprs) or list(sizes) != sorted(sizes, key=_loop):
        return None
    shape: list[int] = []
    dims: list[Expr] = []
    for before, after in groups:
        size, whole = prod(sizes.get(dim, 1) for dim in after), prod(new[dim] for dim in after)
        if size == 1 and (whole != 1 or not sizes.keys() & set(after)):
            continue
        if size != whole:
            return None
        dims.extend(before)
        shape.extend(old[dim] for dim in before)
    return reshape(tensor, shape), dims


def _loop(expr: Expr) -> int:
    return expr if isinstance(expr, int) else ZERO
