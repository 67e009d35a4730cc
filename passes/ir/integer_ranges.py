"""Bounds the integers and indices that operations on tensors compute.

Sums, products, minima, maxima and remainders are bounded by interval arithmetic, from constants,
the extents of loops and the widths of types.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured

Range = tuple[int, int]
"""The least and the largest value, both included."""

_OTHER_INDEX: Range = (-(1 << 30), 1 << 30)
"""The range of loop counters, sizes of dimensions and loop indices without a static extent."""

_INDEX_BITS = 64


class IntegerRanges:
    """The ranges of integers and indices; a range is None if 64 bits are its only bound."""

    def __init__(self) -> None:
        """Start without a known range."""
        self._found: dict[ir.Value, Range | None] = {}

    def fits(self, value: ir.Value, bits: int, *, allow_negative: bool = True) -> bool:
        """Return whether all values in the range of ``value`` are signed integers of ``bits``.

        Unless ``allow_negative`` is True, they must also be at least 0.
        """
        found = self.of(value)
        return found is not None and _fits(found, bits) and (allow_negative or found[0] >= 0)

    def of(self, value: ir.Value) -> Range | None:
        """Return the range of ``value``, an integer or an index."""
        if value not in self._found:
            found = self._computed(value)
            is_exact = found is not None and _fits(found, _width(value.type))
            self._found[value] = found if is_exact else _range_of_type(value.type)
        return self._found[value]

    def _computed(self, value: ir.Value) -> Range | None:
        if isinstance(value.owner, ir.Block):
            return _OTHER_INDEX if _is_counter(ir.BlockArgument(value)) else None
        operation = value.owner.operation
        if operation.name == "arith.constant":
            constant = operation.attributes["value"]
            is_integer = isinstance(constant, ir.IntegerAttr)
            return (constant.value, constant.value) if is_integer else None
        if operation.name == "linalg.index":
            return _loop_range(operation)
        if operation.name == "tensor.dim":
            return _OTHER_INDEX
        if operation.name in ("affine.apply", "affine.min", "affine.max"):
            return self._of_map(operation)
        rule = _RULES.get(operation.name)
        if rule is None:
            return None
        # The condition of a selection is no part of its result.
        given = list(operation.operands)[operation.name == "arith.select" :]
        operands = [self.of(operand) for operand in given]
        known = [operand for operand in operands if operand is not None]
        if len(known) == len(operands):
            return rule(known)
        return _clamped(operation.name, operands)

    def _of_map(self, operation: ir.Operation) -> Range | None:
        """Return the range of all results of an affine operation's map."""
        operands = [self.of(operand) for operand in operation.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None
        map_ = ir.AffineMapAttr(operation.attributes["map"]).value
        return _hull([_of_expression(expr, known, map_.n_dims) for expr in map_.results])


def _of_expression(expr: ir.AffineExpr, operands: Sequence[Range], num_dims: int) -> Range:
    """Return the range of an affine expression; ``operands`` are those of dims, then of symbols."""
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value, expr.value
    if isinstance(expr, ir.AffineDimExpr):
        return operands[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return operands[num_dims + expr.position]
    assert isinstance(expr, ir.AffineBinaryExpr)
    low, high = _of_expression(expr.lhs, operands, num_dims)
    right = _of_expression(expr.rhs, operands, num_dims)
    if isinstance(expr, ir.AffineAddExpr):
        return low + right[0], high + right[1]
    if isinstance(expr, ir.AffineMulExpr):
        return _corners(operator.mul)([(low, high), right])
    divisor = right[0]  # divisors are positive constants
    if isinstance(expr, ir.AffineModExpr):
        return 0, divisor - 1
    if isinstance(expr, ir.AffineFloorDivExpr):
        return low // divisor, high // divisor
    return -(-low // divisor), -(-high // divisor)


def _fits(found: Range, bits: int) -> bool:
    return -(1 << (bits - 1)) <= found[0] and found[1] < 1 << (bits - 1)


def _width(kind: ir.Type) -> int:
    return kind.width if isinstance(kind, ir.IntegerType) else _INDEX_BITS


def _range_of_type(kind: ir.Type) -> Range | None:
    bits = _width(kind)
    return None if bits >= _INDEX_BITS else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _is_counter(argument: ir.BlockArgument) -> bool:
    """Whether a block argument is the counter of an ``scf.for``."""
    return argument.owner.owner.name == "scf.for" and argument.arg_number == 0


def _loop_range(index: ir.Operation) -> Range:
    assert index.parent is not None
    extent = Structured(index.parent.opview).extents[ir.IntegerAttr(index.attributes["dim"]).value]
    return _OTHER_INDEX if extent < 0 else (0, max(extent - 1, 0))


def _clamped(name: str, operands: Sequence[Range | None]) -> Range | None:
    """Return the range of a minimum or maximum of which an operand is not known."""
    known = [operand for operand in operands if operand is not None]
    if not known or name not in ("arith.minsi", "arith.maxsi"):
        return None
    largest = (1 << (_INDEX_BITS - 1)) - 1
    low, high = known[0]
    return (-largest - 1, high) if name == "arith.minsi" else (low, largest)


def _hull(operands: Sequence[Range]) -> Range:
    return min(low for low, _ in operands), max(high for _, high in operands)


def _corners(combine: Callable[[int, int], int]) -> Callable[[Sequence[Range]], Range]:
    """Return the rule of an operation that is monotonic in each operand."""

    def rule(operands: Sequence[Range]) -> Range:
        found = [combine(first, second) for first, second in product(*operands)]
        return min(found), max(found)

    return rule


def _remainder(operands: Sequence[Range]) -> Range | None:
    (low, high), divisor = operands
    most = max(abs(divisor[0]), abs(divisor[1])) - 1
    return (-most if low < 0 else 0, min(high, most) if low >= 0 else most)


def _unsigned_remainder(operands: Sequence[Range]) -> Range | None:
    return (0, operands[1][1] - 1) if operands[1][0] > 0 else None


def _quotient(operands: Sequence[Range]) -> Range | None:
    """Return the range of a signed quotient, which is no larger than the dividend."""
    most = max(map(abs, operands[0]))
    return (-most, most)


def _unsigned_quotient(operands: Sequence[Range]) -> Range | None:
    return (0, operands[0][1]) if operands[0][0] >= 0 else None


def _first(operands: Sequence[Range]) -> Range:
    return operands[0]


def _masked(operands: Sequence[Range]) -> Range | None:
    """Return the range of a bitwise AND, which is at most its least non-negative operand."""
    limits = [high for low, high in operands if low >= 0]
    return (0, min(limits)) if limits else None


def _joined_bits(operands: Sequence[Range]) -> Range | None:
    """Return the range of a bitwise OR or XOR of non-negative operands."""
    if min(low for low, _ in operands) < 0:
        return None
    return (0, (1 << max(high for _, high in operands).bit_length()) - 1)


def _unsigned_extreme(operands: Sequence[Range]) -> Range | None:
    return _hull(operands) if min(low for low, _ in operands) >= 0 else None


def _first_if_positive(operands: Sequence[Range]) -> Range | None:
    return operands[0] if operands[0][0] >= 0 else None


_RULES: dict[str, Callable[[Sequence[Range]], Range | None]] = {
    "arith.addi": _corners(operator.add),
    "arith.subi": _corners(operator.sub),
    "arith.muli": _corners(operator.mul),
    "arith.minsi": _corners(min),
    "arith.maxsi": _corners(max),
    "arith.select": _hull,
    "arith.remsi": _remainder,
    "arith.remui": _unsigned_remainder,
    "arith.divsi": _quotient,
    "arith.divui": _unsigned_quotient,
    "arith.floordivsi": _quotient,
    "arith.ceildivsi": _quotient,
    "arith.ceildivui": _unsigned_quotient,
    "arith.andi": _masked,
    "arith.ori": _joined_bits,
    "arith.xori": _joined_bits,
    "arith.shrui": _unsigned_quotient,
    "arith.minui": _unsigned_extreme,
    "arith.maxui": _unsigned_extreme,
    "arith.index_cast": _first,
    "arith.index_castui": _first_if_positive,
    "arith.extsi": _first,
    "arith.extui": _first_if_positive,
}
"""The range of a result, by operation, from known ranges of all operands."""
