"""Multiplies a constant matrix by a vector in few operations, on numbers or emitted values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Protocol, TypeVar

Rows = Sequence[Sequence[float]]

_Number = TypeVar("_Number")


class Arithmetic(Protocol[_Number]):
    """The operations that ``linear_map`` applies to its values.

    An implementation computes on numbers, or emits operations on values of the IR.
    """

    def add(self, left: _Number, right: _Number) -> _Number:
        """Return ``left + right``."""
        ...

    def subtract(self, left: _Number, right: _Number) -> _Number:
        """Return ``left - right``."""
        ...

    def scale(self, factor: float, value: _Number) -> _Number:
        """Return ``factor * value``."""
        ...

    def multiply_add(self, factor: float, value: _Number, addend: _Number) -> _Number:
        """Return ``factor * value + addend``."""
        ...


def linear_map(
    matrix: Rows, values: Sequence[_Number], arithmetic: Arithmetic[_Number]
) -> list[_Number]:
    """Return ``matrix @ values``, without multiplications by 0 or 1.

    Two columns, or two rows, share their multiplications if their elements are equal at some
    positions and opposite at all other positions: the shared products are computed once, and sums
    and differences replace the second multiplications. The matrices of Winograd's minimal filtering
    consist of such pairs.
    """
    matrix, values = _share_columns(matrix, values, arithmetic)
    results: dict[int, _Number] = {}
    left = list(range(len(matrix)))
    for first, second in combinations(range(len(matrix)), 2):
        equal, opposite = _compare(matrix[first], matrix[second])
        if {first, second} <= set(left) and len(equal) + len(opposite) > 2 and equal and opposite:
            even = _sum(matrix[first], values, equal, arithmetic)
            odd = _sum(matrix[first], values, opposite, arithmetic)
            results[first] = arithmetic.add(even, odd)
            results[second] = arithmetic.subtract(even, odd)
            left = [row for row in left if row not in (first, second)]
    for row in left:
        results[row] = _sum(matrix[row], values, range(len(values)), arithmetic)
    return [results[row] for row in range(len(matrix))]


def _share_columns(
    matrix: Rows, values: Sequence[_Number], arithmetic: Arithmetic[_Number]
) -> tuple[Rows, Sequence[_Number]]:
    """Replace pairs of values by their sum and difference where that makes the matrix sparser.

    A pair of values is replaced under these conditions: the two columns of ``matrix`` that
    multiply the pair are equal in some rows and opposite in all other rows, and both columns are
    nonzero in at least three rows. Returns the new matrix and the new values; their product is
    ``matrix @ values``.
    """
    columns = [list(column) for column in zip(*matrix, strict=True)]
    values = list(values)
    for first, second in combinations(range(len(columns)), 2):
        equal, opposite = _compare(columns[first], columns[second])
        if len(equal) + len(opposite) > 2 and equal and opposite:
            one, other = values[first], values[second]
            values[first] = arithmetic.add(one, other)
            values[second] = arithmetic.subtract(one, other)
            both = columns[first]
            columns[first] = [c if row in equal else 0.0 for row, c in enumerate(both)]
            columns[second] = [c if row in opposite else 0.0 for row, c in enumerate(both)]
    return [list(row) for row in zip(*columns, strict=True)], values


def _compare(left: Sequence[float], right: Sequence[float]) -> tuple[list[int], list[int]]:
    """Compare two columns or rows; return the positions of equal and of opposite elements.

    Positions at which both elements are zero are left out. Both lists are empty if the elements at
    any position are neither equal nor opposite.
    """
    pairs = list(enumerate(zip(left, right, strict=True)))
    if any(a not in (b, -b) for _, (a, b) in pairs):
        return [], []
    equal = [n for n, (a, b) in pairs if a == b != 0]
    return equal, [n for n, (a, b) in pairs if a == -b != 0]


def _sum(
    row: Sequence[float],
    values: Sequence[_Number],
    places: Sequence[int],
    arithmetic: Arithmetic[_Number],
) -> _Number:
    """Return the sum of ``row[n] * values[n]`` over the positions ``n`` in ``places``.

    Zeros of ``row`` are skipped; at least one ``row[n]`` must be nonzero.
    """
    terms = [(row[n], values[n]) for n in places if row[n]]
    first = next((n for n, (factor, _) in enumerate(terms) if factor == 1), 0)
    factor, value = terms.pop(first)
    total = value if factor == 1 else arithmetic.scale(factor, value)
    for factor, value in terms:
        if abs(factor) == 1:
            total = (arithmetic.add if factor == 1 else arithmetic.subtract)(total, value)
        else:
            total = arithmetic.multiply_add(factor, value, total)
    return total
