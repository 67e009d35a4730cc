"""Splits an index into a dynamic and a constant summand: ``i * 4 + 12`` into ``i * 4`` and 12."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.ir_walk import constant_integer, producer

_ADD, _SUBTRACT, _MULTIPLY = "arith.addi", "arith.subi", "arith.muli"
_SUMS = {_ADD: 1, _SUBTRACT: -1}


@dataclass(frozen=True)
class IndexParts:
    """An index as the sum of a dynamic and a constant part.

    Attributes:
        rest: the dynamic part, a value of type index; None for zero.
        constant: the constant part.
    """

    rest: ir.Value | None
    constant: int


class IndexSplitter:
    """Splits indices into a dynamic and a constant part; memoizes the results.

    New operations are inserted before the operation that defines the index. Indices do not overflow
    (``index_width``), so their sums and products are those of mathematical integers, and may be
    rearranged.
    """

    def __init__(self) -> None:
        self._known: dict[ir.Value, IndexParts] = {}

    def split(self, index: ir.Value) -> IndexParts:
        """Return the dynamic and constant parts of a value of type index."""
        if index not in self._known:
            self._known[index] = self._find(index)
        return self._known[index]

    def _find(self, index: ir.Value) -> IndexParts:
        known = constant_integer(index)
        if known is not None:
            return IndexParts(None, known)
        name = producer(index)
        if isinstance(index.owner, ir.Block) or (name not in _SUMS and name != _MULTIPLY):
            return IndexParts(index, 0)
        left, right = (self.split(operand) for operand in index.owner.operands)
        with ir.InsertionPoint(index.owner), index.owner.location:
            found = _product(left, right) if name == _MULTIPLY else _sum(left, right, _SUMS[name])
        return found if found is not None and found.constant else IndexParts(index, 0)


def _sum(left: IndexParts, right: IndexParts, sign: int) -> IndexParts | None:
    constant = left.constant + sign * right.constant
    if not constant:
        return None
    if right.rest is None:
        return IndexParts(left.rest, constant)
    if left.rest is None and sign == 1:
        return IndexParts(right.rest, constant)
    if left.rest is None:
        return None
    emit = arith.addi if sign == 1 else arith.subi
    return IndexParts(emit(left.rest, right.rest), constant)


def _product(left: IndexParts, right: IndexParts) -> IndexParts | None:
    if left.rest is None:
        left, right = right, left
    if right.rest is not None or not left.constant:
        return None
    return scaled(left, right.constant)


def scaled(parts: IndexParts, factor: int) -> IndexParts:
    """Emit the multiplication of a split index by a constant; return the product, also split."""
    rest = parts.rest
    if rest is not None and factor != 1:
        rest = arith.muli(rest, arith.constant(rest.type, factor)) if factor else None
    return IndexParts(rest, parts.constant * factor)


def total(parts: list[IndexParts]) -> IndexParts:
    """Emit the addition of split indices; return the sum, also split."""
    rest: ir.Value | None = None
    for part in parts:
        if part.rest is not None:
            rest = part.rest if rest is None else arith.addi(rest, part.rest)
    return IndexParts(rest, sum(part.constant for part in parts))
