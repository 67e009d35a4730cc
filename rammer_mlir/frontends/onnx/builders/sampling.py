"""Builds GridSample and RoiAlign: interpolation at computed coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from rammer_mlir.bindings import ir, math
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
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
    """Emit RoiAlign: each bin of each region is the mean or maximum of a fixed grid of samples.

    Raises:
        UnsupportedError: if the number of samples depends on the regions' sizes.
    """
    samples = node.attribute("sampling_ratio", 0)
    if samples <= 0:
        raise node.unsupported("expected a positive sampling_ratio")
    x, regions, batches = node.tensor(0), node.tensor(1), node.tensor(2)
    pooled = (node.attribute("output_height", 1), node.attribute("output_width", 1))
    maximum = node.attribute("mode", "avg") == "max"
    grid = _RegionGrid(
        pooled,
        samples,
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

    def body(batch: Scalar, *values: Scalar) -> Scalar:
        *region, total = values
        taps = [grid.taps(axis, region, x.shape[2 + axis]) for axis in (0, 1)]
        number, channel = batch.cast(INT64).clamp(0, x.shape[0] - 1), here(3)
        terms = [
            fetch(image, [number, down.index, right.index, channel])
            * _product(down.weight, right.weight)
            for down, right in product(*taps)
        ]
        if maximum:
            for term in terms:
                total = total.maximum(term)
            return total
        return total + (terms[0] + terms[1] + terms[2] + terms[3]) / float(samples * samples)

    shape = (regions.shape[0], *pooled, x.shape[1])
    start = full(shape, lowest(x.dtype) if maximum else 0, x.dtype)
    inputs = [(batches, [0]), *corners]
    domain = (*shape, samples, samples)
    return _channels_second(structured(domain, 2, inputs, (start, range(4)), body))


def _product(left: Scalar | None, right: Scalar | None) -> Scalar:
    assert left is not None and right is not None
    return left * right


@dataclass(frozen=True)
class _RegionGrid:
    """RoiAlign's grid of sample positions in a region, emitted inside a loop nest.

    Loops 1 and 2 of the nest are the bins of the region, loops 4 and 5 the samples of a bin.

    Attributes:
        pooled: number of bins along each axis.
        samples: number of samples of a bin along each axis.
        scale: factor from a region's coordinates to the image's.
        half_pixel: whether the centers of pixels have the coordinates 0.5, 1.5, and so on.
    """

    pooled: tuple[int, int]
    samples: int
    scale: float
    half_pixel: bool

    def taps(self, axis: int, region: Sequence[Scalar], size: int) -> list[_Tap]:
        """Return the taps of the two image elements next to the current sample along an axis.

        If the sample is outside of the image, both taps have weight 0.

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
        kind = start.dtype
        width = extent / float(self.pooled[axis])
        step = (here(4 + axis).cast(kind) + 0.5) * width / float(self.samples)
        place = start + here(1 + axis).cast(kind) * width + step
        inside = place.compare("ge", -1.0) & place.compare("le", float(size))
        place = inside.select(place, literal(0, kind)).maximum(0.0)
        low = place.cast(INT64).minimum(size - 1)
        ratio = (place - low.cast(kind)).minimum(1.0)
        ratio = low.compare("ge", size - 1).select(literal(0, kind), ratio)
        zero = literal(0, kind)
        weights = [inside.select(weight, zero) for weight in (_minus(1.0, ratio), ratio)]
        high = (low + 1).minimum(size - 1)
        return [_Tap(low, weights[0], None), _Tap(high, weights[1], None)]


BUILDERS: dict[str, Builder] = {"GridSample": grid_sample, "RoiAlign": roi_align}
