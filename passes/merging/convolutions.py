"""Merges convolutions of the same image (IOS section 3, operator merge)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.convolution import Convolution
from rammer_mlir.passes.ir.constant_pad import pad_with_zeros
from rammer_mlir.passes.ir.generics import sum_of_products
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.merging.results import finish_merging
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.merged import WeightPart


@dataclass(frozen=True)
class Window:
    """The window of a merged convolution, in pixels as (rows, columns).

    ``low`` is the zero padding (above, left) of the image, ``size`` the window's (height, width).
    """

    low: tuple[int, int]
    size: tuple[int, int]

    @staticmethod
    def around(members: Sequence[Convolution]) -> Window:
        """Return the smallest window that contains the windows of all ``members``."""
        low = tuple(max(m.low[d] for m in members) for d in range(2))
        size = tuple(max(low[d] - m.low[d] + m.window[d] for m in members) for d in range(2))
        return Window((low[0], low[1]), (size[0], size[1]))

    def work(self, members: Sequence[Convolution]) -> int:
        """Return the merged convolution's multiplications per output pixel and input channel."""
        return sum(m.filters for m in members) * self.size[0] * self.size[1]


def merge_convolutions(group: Sequence[Convolution], weights: DerivedWeights) -> None:
    """Replace convolutions of the same image by a single convolution with all of their filters.

    Slices of the new result replace the old results. ``weights`` are the module's weights, to which
    the concatenated filters are added.
    """
    first = group[0]
    window = Window.around(group)
    # Before the first: the image dominates it, and it dominates all readers; weights are
    # arguments, and constants stand at the function's beginning.
    with ir.InsertionPoint(first.op), first.op.operation.location:
        image = _padded(first, window)
        kernel = weights.join([_part(member, window) for member in group])
        finish_merging(group, _convolve(first, image, kernel, window), weights)


def _part(member: Convolution, window: Window) -> WeightPart:
    low = [a - b for a, b in zip(window.low, member.low, strict=True)]
    return WeightPart(
        member.weight,
        [member.filters, member.channels, *member.window],
        [0, 0, *low],
        [member.filters, member.channels, *window.size],
    )


def _padded(first: Convolution, window: Window) -> ir.Value:
    """Emit and return the image of a merged convolution, with the zero padding for its window.

    ``window`` is the window of the merged convolution, ``first`` any of the convolutions to merge.
    """
    shape = shape_of(first.image)
    reach = [(n - 1) * s + k for n, s, k in zip(first.out, first.strides, window.size, strict=True)]
    high = [max(0, r - a - n) for r, a, n in zip(reach, window.low, shape[2:], strict=True)]
    if not any((*window.low, *high)):
        return first.image
    return pad_with_zeros(first.image, [0, 0, *window.low], [0, 0, *high])


def _convolve(first: Convolution, image: ir.Value, kernel: ir.Value, window: Window) -> ir.Value:
    dims = [ir.AffineDimExpr.get(number) for number in range(7)]
    n, f, h, w, c, i, j = dims
    rows, columns = h * first.strides[0] + i, w * first.strides[1] + j
    maps = [ir.AffineMap.get(7, 0, e) for e in ([n, c, rows, columns], [f, c, i, j], [n, f, h, w])]
    parallel = [dim < 4 for dim in range(7)]
    shape = [first.batch, shape_of(kernel)[0], *first.out]
    return sum_of_products([image, kernel], maps, parallel, shape)
