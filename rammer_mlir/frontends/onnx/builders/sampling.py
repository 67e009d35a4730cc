"""Builds GridSample, RoiAlign and MaxRoiPool, which read images at computed coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

from rammer_mlir.bindings import ir, math
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.repetition import Step, repeated
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
    pointwise,
    structured,
    transpose,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
    empty,
    full,
)
from rammer_mlir.passes.ir.scalar import INT64, DType, Scalar, literal, lowest

_FAR = 2.0**30
"""Largest absolute value of a coordinate that is converted to an integer."""


@dataclass(frozen=True)
class _Tap:
    """A position on one axis of an image, with the weight of the elements there in a sample.

    Attributes:
        index: a valid index of the axis.
        weight: factor of the elements in the interpolated sample; None for 1.
        exists: whether the position is inside of the image; if false, the elements count as 0. None
            if the position is always inside.
    """

    index: Scalar
    weight: Scalar | None
    exists: Scalar | None


def _floor(x: Scalar) -> Scalar:
    return x.apply(math.FloorOp)


@dataclass(frozen=True)
class _Axis:
    """A sampled axis of an image.

    Attributes:
        size: extent of the axis in elements.
        padding: GridSample's ``padding_mode``: ``zeros``, ``border`` or ``reflection``.
        corners: GridSample's ``align_corners``: whether the normalized coordinates -1 and 1 are the
            centers of the first and last element, instead of the outer edges of these elements.
    """

    size: int
    padding: str
    corners: bool

    @property
    def border(self) -> tuple[float, float]:
        """Coordinates of the image's two edges along the axis; element ``i`` is centered at ``i``.

        If ``corners``, the edges are the centers of the first and last element; else they are half
        an element farther out.
        """
        return (0.0, self.size - 1.0) if self.corners else (-0.5, self.size - 0.5)

    def place(self, normalized: Scalar) -> Scalar:
        """Convert a normalized coordinate to a (possibly fractional) index of the axis.

        Normalized coordinates are GridSample's: -1 and 1 are the two edges of the image.
        """
        shifted = normalized + 1.0
        if self.corners:
            return shifted * 0.5 * float(self.size - 1)
        return (shifted * float(self.size) - 1.0) * 0.5

    def limit(self, x: Scalar) -> Scalar:
        """Emit the coordinate ``x`` moved into the image, according to the padding mode.

        Mode ``zeros`` does not change the coordinate.
        """
        if self.padding == "border":
            return x.clamp(0.0, self.size - 1.0)
        return self.reflect(x) if self.padding == "reflection" else x

    def reflect(self, x: Scalar) -> Scalar:
        """Emit a coordinate reflected at the edges until it is inside of the image."""
        low, high = self.border
        if low == high:
            return literal(low, x.dtype)
        period = 2 * (high - low)
        phase = x - low
        phase = phase - _floor(phase / period) * period
        folded = (phase - period / 2).compare("gt", 0.0).select(_minus(period, phase), phase) + low
        inside = x.compare("ge", low) & x.compare("le", high)
        return inside.select(x, folded)

    def tap(self, x: Scalar, weight: Scalar | None) -> _Tap:
        """Return the tap at the integral coordinate ``x``, with the factor ``weight`` (None for 1).

        If ``x`` is outside of the image, the tap has the index of an element in the image, so that
        the read is valid; with padding mode ``zeros``, ``exists`` is then false.
        """
        if self.padding == "reflection":
            x = self.reflect(x)
        # These comparisons are false for NaN, which thereby gets a valid index.
        usable = x.compare("ge", -_FAR) & x.compare("le", _FAR)
        index = usable.select(x, literal(-_FAR, x.dtype)).cast(INT64)
        exists = None
        if self.padding == "zeros":
            exists = index.compare("ge", 0) & index.compare("lt", self.size)
        return _Tap(index.clamp(0, self.size - 1), weight, exists)


def _minus(left: float, right: Scalar) -> Scalar:
    return literal(left, right.dtype) - right


def _nearest(axis: _Axis, x: Scalar) -> list[_Tap]:
    return [axis.tap(axis.limit(x.apply(math.RoundEvenOp)), None)]


def _linear(axis: _Axis, x: Scalar) -> list[_Tap]:
    x = axis.limit(x)
    low = _floor(x)
    ratio = x - low
    return [axis.tap(low, _minus(1.0, ratio)), axis.tap(low + 1.0, ratio)]


def _cubic(axis: _Axis, x: Scalar) -> list[_Tap]:
    # As in ONNX Runtime and PyTorch, a border extends the image: the kernel stays centered at x.
    if axis.padding != "border":
        x = axis.limit(x)
    low = _floor(x)
    ratio = x - low
    weights = [
        _keys(ratio + 1.0),
        _keys(ratio),
        _keys(_minus(1.0, ratio)),
        _keys(_minus(2.0, ratio)),
    ]
    return [axis.tap(low + float(k - 1), weight) for k, weight in enumerate(weights)]


def _keys(t: Scalar, a: float = -0.75) -> Scalar:
    """Emit the weight of an element at distance ``t`` < 2 in cubic convolution (Keys, 1981).

    ``a`` is the parameter of the family of kernels; GridSample always uses -0.75.
    """
    near = ((t * (a + 2) - (a + 3)) * t) * t + 1.0
    far = ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
    return t.compare("le", 1.0).select(near, far)


_MODES: dict[str, Callable[[_Axis, Scalar], list[_Tap]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "bilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
}


def grid_sample(node: Node) -> Tensor:
    """Emit GridSample, for any number of spatial axes."""
    x, grid = node.tensor(0), node.tensor(1)
    axes = [
        _Axis(
            size, node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
        )
        for size in x.shape[2:]
    ]
    taps_of = _MODES[node.attribute("mode", "linear")]
    images, channels, *pooled = node.out().shape
    kind = computing_type(x.dtype)
    image = _channels_last(x)
    last = x.rank - 1
    # The grid's first coordinate is that of the last axis.
    inputs: list[tuple[Tensor, list[Expr]]] = [
        (grid, [*range(last), ir.AffineExpr.get_constant(number)])
        for number in reversed(range(len(axes)))
    ]

    def body(*coordinates: Scalar) -> Scalar:
        taps = [
            taps_of(axis, axis.place(c.cast(kind)))
            for axis, c in zip(axes, coordinates, strict=True)
        ]
        return _weighted_sum(image, here(0), taps, here(last), kind)

    shape = (images, *pooled, channels)
    found = structured(shape, 0, inputs, (empty(shape, x.dtype), range(x.rank)), body)
    return _channels_second(found)


def _channels_last(x: Tensor) -> Tensor:
    """Emit images with their channels as the last dimension instead of the second.

    At each sample position, all channels have the same coordinates and weights. With the channels
    as innermost loop, coordinates and weights are computed once, and memory is read contiguously.
    """
    return transpose(x, [0, *range(2, x.rank), 1])


def _channels_second(x: Tensor) -> Tensor:
    """Emit ``x`` with its last dimension, the channels, moved to the second place."""
    return transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def _weighted_sum(
    image: Tensor, number: Scalar, taps: Sequence[Sequence[_Tap]], channel: Scalar, kind: DType
) -> Scalar:
    """Emit a weighted sum of image elements, over all combinations of taps.

    A tap is a position on an axis, with a weight. A combination has one tap for each spatial axis:
    the positions select an element, whose weight is the product of the taps' weights.

    Args:
        image: the images, with their channels last.
        number: index of an image.
        taps: taps of each spatial axis.
        channel: index of a channel.
        kind: dtype of the arithmetic; the result has the dtype of ``image``.
    """
    total: Scalar | None = None
    for choice in product(*taps):
        value = fetch(image, [number, *(tap.index for tap in choice), channel])
        for tap in choice:
            if tap.exists is not None:
                value = tap.exists.select(value, literal(0, image.dtype))
        if choice[0].weight is None:
            return value
        term = value.cast(kind)
        for tap in choice:
            assert tap.weight is not None
            term = term * tap.weight
        total = term if total is None else total + term
    assert total is not None
    return total.cast(image.dtype)


def roi_align(node: Node) -> Tensor:
    """Emit RoiAlign: each bin of each region is the mean or maximum of a grid of samples.

    The attribute ``sampling_ratio`` is the number of samples of a bin along each axis; if it is 0,
    this number is the bin's extent in pixels, rounded up.
    """
    x, regions, batches = node.tensor(0), node.tensor(1), node.tensor(2)
    pooled = (node.attribute("output_height", 1), node.attribute("output_width", 1))
    maximum = node.attribute("mode", "avg") == "max"
    kind = computing_type(x.dtype)
    grid = _RegionGrid(
        pooled,
        node.attribute("sampling_ratio", 0),
        node.attribute("spatial_scale", 1.0),
        node.attribute(
            "coordinate_transformation_mode",
            "half_pixel" if node.opset >= 16 else "output_half_pixel",
        )
        == "half_pixel",
    )
    corners: list[tuple[Tensor, list[Expr]]] = [
        (regions, [0, ir.AffineExpr.get_constant(number)]) for number in range(4)
    ]

    image = _channels_last(x)

    neutral = lowest(kind) if maximum else 0.0

    def sampled(axes: Sequence[_BinAxis], batch: Scalar) -> Step:
        """Return a function that combines a sample with the running sum or maximum of a bin."""
        number, channel = batch.cast(INT64).clamp(0, x.shape[0] - 1), here(3)

        def add(total: Scalar, places: Sequence[Scalar]) -> Scalar:
            taps = [axis.taps(place) for axis, place in zip(axes, places, strict=True)]
            terms = [
                fetch(image, [number, down.index, right.index, channel]).cast(kind)
                * _product(down.weight, right.weight)
                for down, right in product(*taps)
            ]
            if not maximum:
                return total + (terms[0] + terms[1] + terms[2] + terms[3])
            return reduce(Scalar.maximum, terms, total)

        return add

    def axes_of(region: Sequence[Scalar]) -> list[_BinAxis]:
        corners = [value.cast(kind) for value in region]
        return [grid.axis(axis, corners, x.shape[2 + axis]) for axis in (0, 1)]

    def with_sample(batch: Scalar, *values: Scalar) -> Scalar:
        *region, total = values
        return sampled(axes_of(region), batch)(total, [here(4), here(5)])

    def with_all_samples(batch: Scalar, *region: Scalar) -> Scalar:
        axes = axes_of(region)
        counts = [axis.count for axis in axes]
        total = repeated(literal(neutral, kind), counts, sampled(axes, batch))
        count = counts[0] * counts[1]
        if maximum:  # a region without samples
            return count.compare("eq", 0).select(literal(0, kind), total)
        return total / count.maximum(1).cast(kind)

    shape, samples = (regions.shape[0], *pooled, x.shape[1]), grid.samples
    inputs = [(batches, [0]), *corners]
    if samples:
        out = (full(shape, neutral, kind), range(4))
        found = structured((*shape, samples, samples), 2, inputs, out, with_sample)
    else:
        found = structured(shape, 0, inputs, (empty(shape, kind), range(4)), with_all_samples)
    divisor = samples * samples if samples and not maximum else 1
    found = pointwise(lambda v: (v / float(divisor)).cast(x.dtype), found, dtype=x.dtype)
    return _channels_second(found)


def _product(left: Scalar | None, right: Scalar | None) -> Scalar:
    assert left is not None and right is not None
    return left * right


@dataclass(frozen=True)
class _RegionGrid:
    """RoiAlign's grid of sample positions in a region, emitted inside a loop nest.

    Loops 1 and 2 of the nest are the bins of the region.

    Attributes:
        pooled: number of bins along each axis.
        samples: number of samples of a bin along each axis; 0 if it depends on the bin's size.
        scale: factor from a region's coordinates to the image's.
        half_pixel: whether the centers of pixels have the coordinates 0.5, 1.5, and so on.
    """

    pooled: tuple[int, int]
    samples: int
    scale: float
    half_pixel: bool

    def axis(self, axis: int, region: Sequence[Scalar], size: int) -> _BinAxis:
        """Emit an axis of the current bin.

        Args:
            axis: 0 for the vertical axis, 1 for the horizontal axis.
            region: the corners of the region, in the region's coordinates: x and y of the start, x
                and y of the end.
            size: extent of the image along the axis.
        """
        # A region is (x, y) of its start, then of its end.
        offset = 0.5 if self.half_pixel else 0.0
        start, end = (region[2 * k + 1 - axis] * self.scale - offset for k in (0, 1))
        extent = end - start
        if not self.half_pixel:
            extent = extent.maximum(1.0)
        width = extent / float(self.pooled[axis])
        begin = start + here(1 + axis).cast(start.dtype) * width
        count = literal(self.samples, INT64)
        if not self.samples:
            pixels = width.apply(math.CeilOp)
            # Regions have no NaN and no bins larger than an image; others must not run forever.
            count = pixels.maximum(0.0).minimum(_MOST_SAMPLES).cast(INT64)
        return _BinAxis(begin, width, count, size)


_MOST_SAMPLES = float(1 << 16)
"""Largest number of samples of a bin of RoiAlign along an axis."""


@dataclass(frozen=True)
class _BinAxis:
    """An axis of a bin of RoiAlign.

    Attributes:
        begin: coordinate of the bin's edge.
        width: extent of the bin.
        count: number of samples, as int64.
        size: extent of the image.
    """

    begin: Scalar
    width: Scalar
    count: Scalar
    size: int

    def taps(self, sample: Scalar) -> list[_Tap]:
        """Return the taps of the two image elements next to a sample.

        If the sample is outside of the image, both taps have weight 0. ``sample`` is its index.
        """
        kind = self.begin.dtype
        step = (sample.cast(kind) + 0.5) * self.width / self.count.cast(kind)
        place = self.begin + step
        inside = place.compare("ge", -1.0) & place.compare("le", float(self.size))
        place = inside.select(place, literal(0, kind)).maximum(0.0)
        low = place.cast(INT64).minimum(self.size - 1)
        ratio = (place - low.cast(kind)).minimum(1.0)
        ratio = low.compare("ge", self.size - 1).select(literal(0, kind), ratio)
        zero = literal(0, kind)
        weights = [inside.select(weight, zero) for weight in (_minus(1.0, ratio), ratio)]
        high = (low + 1).minimum(self.size - 1)
        return [_Tap(low, weights[0], None), _Tap(high, weights[1], None)]


def max_roi_pool(node: Node) -> Tensor:
    """Emit MaxRoiPool: the maxima of the pixels of each bin of each region; 0 for an empty bin."""
    x, regions = node.tensor(0), node.tensor(1)
    pooled, scale = node.attribute("pooled_shape"), node.attribute("spatial_scale", 1.0)
    kind = computing_type(x.dtype)
    columns: list[tuple[Tensor, list[Expr]]] = [
        (regions, [0, ir.AffineExpr.get_constant(number)]) for number in range(5)
    ]

    def bin_of(axis: int, region: Sequence[Scalar]) -> tuple[Scalar, Scalar]:
        """Emit the first pixel of the current bin, and the number of its pixels, as int64."""
        size = x.shape[2 + axis]
        # Half away from zero, as std::round in ONNX Runtime; a region is (x, y), twice.
        ends = [_rounded(region[2 * k + 1 - axis].cast(kind) * scale) for k in (0, 1)]
        width = (ends[1] - ends[0] + 1.0).maximum(1.0) / float(pooled[axis])
        number = here(2 + axis).cast(kind)
        first = _floor(number * width) + ends[0]
        last = ((number + 1.0) * width).apply(math.CeilOp) + ends[0]
        first, last = (edge.clamp(0.0, float(size)).cast(INT64) for edge in (first, last))
        return first.minimum(size - 1), last - first

    def body(image: Scalar, *region: Scalar) -> Scalar:
        number, channel = image.cast(INT64).clamp(0, x.shape[0] - 1), here(1)
        (top, rows), (left, width) = (bin_of(axis, region) for axis in (0, 1))

        def add(total: Scalar, places: Sequence[Scalar]) -> Scalar:
            pixel = [number, channel, top + places[0], left + places[1]]
            return total.maximum(fetch(x, pixel))

        found = repeated(literal(lowest(x.dtype), x.dtype), [rows, width], add)
        is_empty = rows.compare("le", 0) | width.compare("le", 0)
        return is_empty.select(literal(0, x.dtype), found)

    shape = (regions.shape[0], x.shape[1], *pooled)
    return structured(shape, 0, columns, (empty(shape, x.dtype), range(4)), body)


def _rounded(x: Scalar) -> Scalar:
    away = _floor(x.apply(math.AbsFOp) + 0.5)
    return x.compare("lt", 0.0).select(-away, away)


BUILDERS: dict[str, Builder] = {
    "GridSample": grid_sample,
    "MaxRoiPool": max_roi_pool,
    "RoiAlign": roi_align,
}
