"""Builds cumulative sums and products along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import pointwise
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    full,
)
from rammer_mlir.frontends.onnx.builders.views import (
    pad,
    part,
)
from rammer_mlir.passes.ir.scalar import Scalar

Combine = Callable[[Scalar, Scalar], Scalar]
"""An associative function of two elements."""

_SHIFTS = 8
"""The largest number of elements that a step combines."""


def _sum(x: Scalar, y: Scalar) -> Scalar:
    return x + y


def _product(x: Scalar, y: Scalar) -> Scalar:
    return x * y


def _cumulative(node: Node, combine: Combine, neutral: float) -> Tensor:
    """Emit the prefix scan of a node's input by ``combine``, a binary function.

    The scan is along the node's axis. ``neutral`` is the neutral element of ``combine``. The
    parallel scan takes a logarithmic number of elementwise steps instead of a sequential loop
    (Hillis and Steele, "Data parallel algorithms", 1986); each step combines ``_SHIFTS`` elements
    instead of two, so that fewer steps read and write the tensor.
    """
    x = node.tensor(0)
    axes = node.integers(1)
    if axes is None:
        raise node.unsupported("its axis is missing")
    axis = axes[0] % x.rank
    backward = bool(node.attribute("reverse", 0))
    if node.attribute("exclusive", 0):
        x = shifted(x, axis, 1, backward, neutral)
    # LLVM takes several times longer to compile eight unaligned vectors of 16-bit floats.
    shifts = _SHIFTS if x.dtype.itemsize >= 4 else 2
    distance = 1
    while distance < x.shape[axis]:
        taken = range(0, min(shifts * distance, x.shape[axis]), distance)
        x = _combined(x, axis, taken, backward, combine, neutral)
        distance *= shifts
    return x


def _combined(
    x: Tensor, axis: int, shifts: Sequence[int], backward: bool, combine: Combine, neutral: float
) -> Tensor:
    """Emit the combination of copies of ``x`` that are shifted along an axis.

    The first copy is not shifted, and the last is shifted most. ``shifted`` describes the
    direction of shifts; ``neutral`` fills the gaps.
    """
    none, border = [0] * x.rank, [0] * x.rank
    border[axis] = shifts[-1]
    padded = pad(x, none, border, neutral) if backward else pad(x, border, none, neutral)
    views: list[Tensor] = []
    for shift in shifts:
        starts = list(none)
        starts[axis] = shift if backward else shifts[-1] - shift
        views.append(part(padded, starts, x.shape))

    def body(*elements: Scalar) -> Scalar:
        return functools.reduce(combine, elements)

    return pointwise(body, *views)


def shifted(x: Tensor, axis: int, distance: int, backward: bool, value: float) -> Tensor:
    """Emit ``x`` shifted by ``distance`` positions along an axis; ``value`` fills the gap.

    Elements move to higher positions, or to lower positions if ``backward``.
    """
    if distance >= x.shape[axis]:
        return full(x.shape, value, x.dtype)
    starts, sizes, border = [0] * x.rank, list(x.shape), [0] * x.rank
    sizes[axis] -= distance
    border[axis] = distance
    none = [0] * x.rank
    if backward:
        starts[axis] = distance
        return pad(part(x, starts, sizes), none, border, value)
    return pad(part(x, starts, sizes), border, none, value)


def _cumulative_sum(node: Node) -> Tensor:
    return _cumulative(node, _sum, 0)


def _cumulative_product(node: Node) -> Tensor:
    return _cumulative(node, _product, 1)


BUILDERS: dict[str, Builder] = {
    "CumProd": _cumulative_product,
    "CumSum": _cumulative_sum,
}
