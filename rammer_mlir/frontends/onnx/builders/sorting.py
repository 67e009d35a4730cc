"""Builds TopK: the largest or smallest elements along an axis, in order."""

from __future__ import annotations

from collections.abc import Callable

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.selection import largest_positions, sort_keys
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
    pointwise,
    structured,
    transpose,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    empty,
    full,
)
from rammer_mlir.frontends.onnx.limits import MOST_SELECTED, RANK_BY_COUNTING
from rammer_mlir.passes.ir.scalar import BOOL, INT64, Scalar, is_float

_LEAST_COMPARED = 1 << 15
"""Number of pairs, per byte of an element, above which selection by bits is faster.

The alternative compares all pairs of elements. The number of steps of a selection is proportional
to the width of an element.
"""


def top_k(node: Node) -> list[Tensor | None]:
    """Emit TopK; return values and indices. Equal elements are ordered by ascending index."""
    x = node.tensor(0)
    axis = node.axis("axis", -1, x.rank)
    counts = node.integers(1) if node.opset >= 10 else [node.attribute("k")]
    if counts is None:
        raise node.unsupported("k is missing")
    order = [*(i for i in range(x.rank) if i != axis), axis]
    rows = transpose(x, order)
    largest = bool(node.attribute("largest", 1))
    indices = _indices(node, rows, counts[0], largest)
    loops = range(rows.rank)

    def value(index: Scalar) -> Scalar:
        return fetch(rows, [*(here(i) for i in loops[:-1]), index])

    shape = indices.shape
    values = structured(shape, 0, [(indices, loops)], (empty(shape, x.dtype), loops), value)
    back = [order.index(i) for i in range(x.rank)]
    return [transpose(values, back), transpose(indices, back)]


def _indices(node: Node, rows: Tensor, count: int, largest: bool) -> Tensor:
    """Emit the positions of the first ``count`` elements of each row in sorted order.

    The order is descending if ``largest``, else ascending.
    """
    length = rows.shape[-1]
    if count > MOST_SELECTED or not _is_worth_selecting(rows, count):
        if length > RANK_BY_COUNTING:
            raise node.unsupported(
                f"k is {count} of {length} elements: expected at most {MOST_SELECTED} of more than "
                f"{RANK_BY_COUNTING} in one static program; rammer-compile or rammer_mlir.compile "
                "let the host sort"
            )
        return _by_counting(rows, count, largest)
    return _of_selected(rows, count, largest)


def _is_worth_selecting(rows: Tensor, count: int) -> bool:
    """Return whether radix selection of ``count`` elements is faster than comparing all pairs."""
    length = rows.shape[-1]
    compared = rows.size * length
    return 0 < count < length and compared > _LEAST_COMPARED * rows.dtype.itemsize


def _of_selected(rows: Tensor, count: int, largest: bool) -> Tensor:
    """Emit the positions of the first ``count`` elements of each row in sorted order.

    Radix selection finds these elements; only they are sorted. The order is descending if
    ``largest``, else ascending.
    """
    keys, bits = sort_keys(rows, largest)
    positions = largest_positions(keys, bits, count)
    batch = range(rows.rank - 1)

    def at(source: Tensor) -> Callable[[Scalar], Scalar]:
        return lambda index: fetch(source, [*(here(number) for number in batch), index])

    selected = pointwise(at(keys), positions, dtype=keys.dtype)
    return pointwise(at(positions), _by_counting(selected, count, largest=True))


def _before(a: Scalar, b: Scalar, largest: bool) -> Scalar:
    """Emit whether ``a`` > ``b`` if ``largest``, else ``a`` < ``b``; NaN exceeds all numbers."""
    if not largest:
        a, b = b, a
    above = a.compare("gt", b)
    if is_float(a.dtype):
        above = above | (_is_nan(a) & ~_is_nan(b))
    return above


def _is_nan(x: Scalar) -> Scalar:
    return Scalar(math.IsNaNOp(x.value).result, BOOL)


def _precedes(a: Scalar, i: Scalar, b: Scalar, j: Scalar, largest: bool) -> Scalar:
    """Emit whether the element ``a`` at position ``i`` precedes ``b`` at ``j`` in sorted order.

    The order is descending if ``largest``, else ascending. Of equal elements, the one at the lower
    position comes first.
    """
    tie = ~_before(b, a, largest) & i.compare("lt", j)
    return _before(a, b, largest) | tie


def _by_counting(rows: Tensor, count: int, largest: bool) -> Tensor:
    """Emit the positions of the first ``count`` elements of each row in sorted order.

    The order is descending if ``largest``, else ascending. An element's place in the order is the
    number of elements that precede it. All pairs of elements are compared in parallel.
    """
    *lead, length = rows.shape
    last = len(lead)
    batch = list(range(last))

    def add(x: Scalar, other: Scalar, total: Scalar) -> Scalar:
        first = _precedes(other, here(last + 1), x, here(last), largest)
        return total + first.cast(INT64)

    start = (full(rows.shape, 0, INT64), range(rows.rank))
    reads = [(rows, [*batch, last]), (rows, [*batch, last + 1])]
    places = structured([*lead, length, length], 1, reads, start, add)

    def find(place: Scalar, found: Scalar) -> Scalar:
        return place.compare("eq", here(last)).select(here(last + 1), found)

    out = (full([*lead, count], 0, INT64), range(rows.rank))
    return structured([*lead, count, length], 1, [(places, [*batch, last + 1])], out, find)


BUILDERS: dict[str, Builder] = {"TopK": top_k}
