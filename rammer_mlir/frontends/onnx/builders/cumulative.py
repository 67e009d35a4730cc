"""Builds cumulative sums and products along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.products import converted
from rammer_mlir.frontends.onnx.builders.structured import pointwise
from rammer_mlir.frontends.onnx.builders.values import Tensor
from rammer_mlir.frontends.onnx.builders.views import concat, pad, part, reshape
from rammer_mlir.passes.ir.scalar import Scalar, is_float

Combine = Callable[[Scalar, Scalar], Scalar]
"""An associative function of two elements."""

_SHIFTS = 8
"""The largest number of elements that a step combines."""

_LEAST_ACROSS = 8
"""Fewest elements in the dimensions after the axis for which vectors lie across the axis."""

_MOST_IN_BLOCK = 16
"""The largest number of elements that one kernel scans sequentially."""


def _sum(x: Scalar, y: Scalar) -> Scalar:
    return x + y


def _product(x: Scalar, y: Scalar) -> Scalar:
    return x * y


def _cumulative(node: Node, combine: Combine, neutral: float) -> Tensor:
    """Emit the prefix scan of a node's input by ``combine``, a binary function.

    The scan is along the node's axis. ``neutral`` is the neutral element of ``combine``. 16-bit
    floats are accumulated in f32.
    """
    given = node.tensor(0)
    x = converted(given, computing_type(given.dtype)) if is_float(given.dtype) else given
    axes = node.integers(1)
    if axes is None:
        raise node.unsupported("its axis is missing")
    axis = axes[0] % x.rank
    backward = bool(node.attribute("reverse", 0))
    if node.attribute("exclusive", 0):
        (x,) = _shifted(x, axis, [1], backward, neutral)
    return converted(scan(x, axis, combine, neutral, backward=backward), given.dtype)


def scan(
    x: Tensor, axis: int, combine: Combine, neutral: float, *, backward: bool = False
) -> Tensor:
    """Emit the inclusive prefix scan of a tensor along an axis.

    If the dimensions after the axis have at least ``_LEAST_ACROSS`` elements, code is vectorized
    over these dimensions, and the axis is cut into blocks that are scanned sequentially. Otherwise,
    the scan takes a logarithmic number of elementwise steps (Hillis and Steele, "Data parallel
    algorithms", 1986). Except for 16-bit types, a step combines ``_SHIFTS`` elements instead of
    two, so that fewer steps read and write the tensor.

    Args:
        x: the tensor.
        axis: index of the dimension along which the scan goes.
        combine: the function that combines two elements.
        neutral: the neutral element of ``combine``.
        backward: whether the scan begins at the last element.
    """
    if x.shape[axis] > 1 and prod(x.shape[axis + 1 :]) >= _LEAST_ACROSS:
        return _blocked(x, axis, combine, neutral, backward)

    def combine_all(*elements: Scalar) -> Scalar:
        return functools.reduce(combine, elements)

    # LLVM takes several times longer to compile eight unaligned vectors of 16-bit floats.
    shifts = _SHIFTS if x.dtype.itemsize >= 4 else 2
    distance = 1
    while distance < x.shape[axis]:
        taken = range(0, min(shifts * distance, x.shape[axis]), distance)
        x = pointwise(combine_all, *_shifted(x, axis, taken, backward, neutral))
        distance *= shifts
    return x


def _blocked(x: Tensor, axis: int, combine: Combine, neutral: float, backward: bool) -> Tensor:
    """Emit the scan of a tensor: each block is scanned sequentially, all blocks in parallel.

    The results of whole blocks are scanned too. All elements of a block are then combined with the
    result for all blocks before it. The arguments are those of ``scan``.
    """
    length = x.shape[axis]
    size = _block_size(length)
    count = -(-length // size)
    none, border = [0] * x.rank, [0] * x.rank
    border[axis] = count * size - length
    padded = x
    if border[axis]:
        padded = pad(x, border, none, neutral) if backward else pad(x, none, border, neutral)
    lead, inner = x.shape[:axis], x.shape[axis + 1 :]
    blocks = reshape(padded, (*lead, count, size, *inner))
    starts, row = [0] * blocks.rank, (*lead, count, 1, *inner)
    rows: list[Tensor] = []
    for number in reversed(range(size)) if backward else range(size):
        starts[axis + 1] = number
        element = part(blocks, starts, row)
        rows.append(pointwise(combine, rows[-1], element) if rows else element)
    found = concat(rows[::-1] if backward else rows, axis + 1)
    if count > 1:
        whole = reshape(rows[-1], (*lead, count, *inner))
        (before,) = _shifted(whole, axis, [1], backward, neutral)
        before = scan(before, axis, combine, neutral, backward=backward)
        found = pointwise(combine, reshape(before, row), found)
    starts = list(none)
    starts[axis] = border[axis] if backward else 0
    return part(reshape(found, padded.shape), starts, x.shape)


def _block_size(length: int) -> int:
    """Return the number of elements of a block, for the scan of an axis of ``length`` elements.

    An axis of at most ``_MOST_IN_BLOCK`` elements is one block. The blocks of a longer axis have
    the largest suitable size that divides ``length``, so that no block is padded. If no suitable
    size divides ``length``, blocks have ``_MOST_IN_BLOCK // 2`` elements, and one block is padded.
    """
    if length <= _MOST_IN_BLOCK:
        return length
    sizes = range(_MOST_IN_BLOCK, _MOST_IN_BLOCK // 4, -1)
    return next((size for size in sizes if length % size == 0), _MOST_IN_BLOCK // 2)


def _shifted(
    x: Tensor, axis: int, shifts: Sequence[int], backward: bool, value: float
) -> list[Tensor]:
    """Emit copies of ``x`` that are shifted along an axis by the counts of positions in ``shifts``.

    Elements move to higher positions, or to lower positions if ``backward``; ``value`` fills the
    gaps. The last of ``shifts`` is the largest. The copies are views of one padded tensor.
    """
    none, border = [0] * x.rank, [0] * x.rank
    border[axis] = shifts[-1]
    padded = pad(x, none, border, value) if backward else pad(x, border, none, value)
    views: list[Tensor] = []
    for shift in shifts:
        starts = list(none)
        starts[axis] = shift if backward else shifts[-1] - shift
        views.append(part(padded, starts, x.shape))
    return views


def _cumulative_sum(node: Node) -> Tensor:
    return _cumulative(node, _sum, 0)


def _cumulative_product(node: Node) -> Tensor:
    return _cumulative(node, _product, 1)


BUILDERS: dict[str, Builder] = {
    "CumProd": _cumulative_product,
    "CumSum": _cumulative_sum,
}
