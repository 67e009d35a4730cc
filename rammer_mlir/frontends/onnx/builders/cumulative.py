"""Builds cumulative sums and products along an axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import pointwise
from rammer_mlir.frontends.onnx.builders.values import Tensor
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

    The scan is along the node's axis. ``neutral`` is the neutral element of ``combine``.
    """
    x = node.tensor(0)
    axes = node.integers(1)
    if axes is None:
        raise node.unsupported("its axis is missing")
    axis = axes[0] % x.rank
    backward = bool(node.attribute("reverse", 0))
    if node.attribute("exclusive", 0):
        (x,) = _shifted(x, axis, [1], backward, neutral)
    return scan(x, axis, combine, neutral, backward=backward)


def scan(
    x: Tensor, axis: int, combine: Combine, neutral: float, *, backward: bool = False
) -> Tensor:
    """Emit the inclusive prefix scan of a tensor along an axis.

    The parallel scan takes a logarithmic number of elementwise steps instead of a sequential loop
    (Hillis and Steele, "Data parallel algorithms", 1986); each step combines ``_SHIFTS`` elements
    instead of two, so that fewer steps read and write the tensor.

    Args:
        x: the tensor.
        axis: index of the dimension along which the scan goes.
        combine: the function that combines two elements.
        neutral: the neutral element of ``combine``.
        backward: whether the scan begins at the last element.
    """

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


def _shifted(
    x: Tensor, axis: int, shifts: Sequence[int], backward: bool, value: float
) -> list[Tensor]:
    """Emit a copy of ``x`` for each number of positions by which it is shifted along an axis.

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
