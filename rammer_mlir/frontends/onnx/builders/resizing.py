"""Builds Resize, axis by axis, from tables of indices and weights computed at compile time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.indexing import here, take
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
    pointwise,
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    constant,
    empty,
)
from rammer_mlir.frontends.onnx.builders.views import (
    part,
    reshape,
)
from rammer_mlir.passes.ir.scalar import (
    DType,
    Scalar,
    highest,
    is_float,
    literal,
    lowest,
)

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class _Axis:
    """How Resize changes an axis.

    Attributes:
        number: index of the axis.
        before: extent of the axis in the input.
        after: extent of the axis in the result.
        scale: ratio of the result's extent to the input's extent, before rounding to the integer
            ``after``.
        region: start and end of the region of interest, as fractions of the input.
    """

    number: int
    before: int
    after: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def is_identity(self) -> bool:
        return self.before == self.after and self.scale == 1 and self.region == (0, 1)


def _half_pixel(axis: _Axis, y: Floats) -> Floats:
    return (y + 0.5) / axis.scale - 0.5


def _pytorch_half_pixel(axis: _Axis, y: Floats) -> Floats:
    # A result of one element samples the first one, as in ONNX's specification; its reference
    # implementation uses -0.5.
    return _half_pixel(axis, y) if axis.scale * axis.before != 1 else y * 0


def _half_pixel_symmetric(axis: _Axis, y: Floats) -> Floats:
    lost = 1 - axis.after / (axis.scale * axis.before)
    # Keep the specification's order of operations: other roundings choose other neighbors.
    return axis.before / 2 * lost + (y + 0.5) / axis.scale - 0.5


def _shifted_half_pixel(axis: _Axis, y: Floats) -> Floats:
    return (y + 0.5) / axis.scale


def _asymmetric(axis: _Axis, y: Floats) -> Floats:
    return y / axis.scale


def _align_corners(axis: _Axis, y: Floats) -> Floats:
    extent = axis.scale * axis.before
    return y * 0 if extent == 1 else y * (axis.before - 1) / (extent - 1)


def _crop(axis: _Axis, y: Floats) -> Floats:
    start, end = axis.region
    last, extent = axis.before - 1, axis.scale * axis.before
    if extent == 1:
        return y * 0 + (start + end) * last / 2
    return start * last + y * (end - start) * last / (extent - 1)


_COORDINATES: dict[str, Callable[[_Axis, Floats], Floats]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": _shifted_half_pixel,
}
"""Functions from positions in the result to coordinates in the input, by ONNX's names of modes."""

_NEAREST: dict[str, Callable[[Floats], Floats]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def _triangle(distance: Floats) -> Floats:
    return np.maximum(0, 1 - distance)


def _keys(a: float) -> Callable[[Floats], Floats]:
    """Return the kernel of cubic convolution with parameter ``a`` (Keys, 1981).

    The kernel maps the distance between a coordinate and an element, in elements, to the element's
    weight.
    """

    def kernel(t: Floats) -> Floats:
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0))

    return kernel


@dataclass(frozen=True)
class _Taps:
    """The input elements from which each element of a result is interpolated along an axis.

    ``indices`` and ``weights`` have a row for each position of the result, with a column for each
    input element that contributes to this position.
    """

    indices: Integers
    weights: Floats


def _taps(x: Floats, kernel: Callable[[Floats], Floats], radius: int) -> _Taps:
    """Return the input elements, and their weights, for each position of the result along an axis.

    Args:
        x: the input coordinate of each position of the result.
        kernel: maps the distances of elements from a coordinate to weights.
        radius: distance at and beyond which the kernel is 0; at most 2 * ``radius`` elements
            contribute to a position.
    """
    first = np.ceil(x).astype(np.int64) - radius
    indices = first[:, None] + np.arange(2 * radius)
    weights = kernel(np.abs(x[:, None] - indices))
    # Drop taps that no position uses, for example if the ratio is an integer.
    used = np.abs(weights).max(axis=0) > 0
    return _Taps(indices[:, used], weights[:, used])


def resize(node: Node) -> Tensor:
    """Emit Resize, axis by axis; axes that keep their size are not interpolated."""
    x = node.tensor(0)
    if 0 in node.out().shape:
        return empty(node.out().shape, x.dtype)
    mode = node.attribute("mode", "nearest")
    coordinates = node.attribute("coordinate_transformation_mode", "half_pixel")
    axes = [axis for axis in _axes(node, x, coordinates) if not axis.is_identity]
    kind = computing_type(x.dtype)
    result = x
    repeats: dict[int, int] = {}
    outside: list[tuple[int, NDArray[np.bool_]]] = []
    for axis in axes:
        # In float32, like the scales and ONNX Runtime: `ceil` moves one element on for any excess.
        exact = np.float32 if mode == "nearest" else np.float64
        places = _COORDINATES[coordinates](axis, np.arange(axis.after, dtype=exact))
        if coordinates == "tf_crop_and_resize":
            outside.append((axis.number, (places < 0) | (places > axis.before - 1)))
        if mode == "nearest":
            indices = _NEAREST[node.attribute("nearest_mode", "round_prefer_floor")](places)
            indices = indices.astype(np.int64).clip(0, axis.before - 1)
            if count := _repeats(axis, indices):
                repeats |= {axis.number: count} if count > 1 else {}
            else:
                result = _select(result, axis, indices)
        else:
            result = _interpolate(result, axis, _weighted(node, mode, axis, places), kind)
    if repeats:
        result = _repeat(result, repeats)
    return _extrapolate(_rounded(result, x.dtype), outside, node)


def _axes(node: Node, x: Tensor, coordinates: str) -> list[_Axis]:
    numbers = [axis % x.rank for axis in node.attribute("axes", range(x.rank))]
    after = node.out().shape
    sizes, scales = node.integers(3), _floats(node, 2)
    if sizes:
        ratios = [size / x.shape[n] for n, size in zip(numbers, sizes, strict=True)]
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(ratios)
    elif scales:
        ratios = scales
    else:
        raise node.unsupported("expected constant sizes or scales")
    count = len(numbers)
    region = _floats(node, 1) if coordinates == "tf_crop_and_resize" else None
    ends = region or [0.0] * count + [1.0] * count
    return [
        _Axis(n, x.shape[n], after[n], ratio, (ends[i], ends[count + i]))
        for i, (n, ratio) in enumerate(zip(numbers, ratios, strict=True))
    ]


def _floats(node: Node, number: int, attribute: str = "") -> list[float] | None:
    if attribute in node.attributes:
        return list(node.attributes[attribute])
    if not node.has(number):
        return None
    value = node.constant(number)
    if value is None:
        raise node.unsupported(f"input {number} must be constant")
    return [float(item) for item in value.astype(np.float64).reshape(-1)]


def _weighted(node: Node, mode: str, axis: _Axis, places: Floats) -> _Taps:
    kernel = _triangle if mode == "linear" else _keys(node.attribute("cubic_coeff_a", -0.75))
    radius = 1 if mode == "linear" else 2
    if node.attribute("antialias", 0) and axis.scale < 1:
        taps = _taps(places, lambda t: kernel(t * axis.scale), ceil(radius / axis.scale))
        # Antialiasing widens the kernel, so the weights no longer sum to 1.
        taps = _Taps(taps.indices, taps.weights / taps.weights.sum(axis=1, keepdims=True))
    else:
        taps = _taps(places, kernel, radius)
    if node.attribute("exclude_outside", 0):
        inside = (taps.indices >= 0) & (taps.indices < axis.before)
        weights = np.where(inside, taps.weights, 0)
        total = weights.sum(axis=1, keepdims=True)
        # Positions far outside have no weights; avoid dividing by their sum.
        taps = _Taps(taps.indices, weights / np.where(total == 0, 1, total))
    return _Taps(taps.indices.clip(0, axis.before - 1), taps.weights)


def _repeats(axis: _Axis, indices: Integers) -> int:
    """Return how often ``indices`` has each index of an axis, if it repeats all of them equally.

    For example, the result is 2 for indices [0, 0, 1, 1] and an axis of extent 2. The result is 0
    if ``indices`` is not of this form: all indices of the axis, in order, each equally often.
    """
    count = axis.after // max(axis.before, 1)
    is_repeated = np.array_equal(indices, np.repeat(np.arange(axis.before), count))
    return count if is_repeated else 0


def _select(x: Tensor, axis: _Axis, indices: Integers) -> Tensor:
    """Emit ``x`` with the elements at ``indices`` along an axis.

    Emits a strided slice if the indices grow by equal steps, else a gather.
    """
    steps = np.diff(indices)
    if indices.size > 1 and (steps == steps[0]).all() and steps[0] > 0:
        starts, sizes, strides = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis.number], sizes[axis.number] = int(indices[0]), axis.after
        strides[axis.number] = int(steps[0])
        return part(x, starts, sizes, strides)
    return take(x, constant(indices.astype(np.int32)), axis.number, is_checked=True)


def _repeat(x: Tensor, counts: Mapping[int, int]) -> Tensor:
    """Emit ``x`` with each element repeated; ``counts`` has the count of repetitions by axis.

    For example, [a, b] becomes [a, a, b, b]. A single loop nest repeats along all axes, so that no
    intermediate result is stored.
    """
    shape: list[int] = []
    kept: list[int] = []
    for axis, size in enumerate(x.shape):
        kept.append(len(shape))
        shape += [size, counts[axis]] if axis in counts else [size]
    out = (empty(shape, x.dtype), range(len(shape)))
    wide = structured(shape, 0, [(x, kept)], out, lambda v: v)
    return reshape(wide, [size * counts.get(axis, 1) for axis, size in enumerate(x.shape)])


def _interpolate(x: Tensor, axis: _Axis, taps: _Taps, kind: DType) -> Tensor:
    """Emit the interpolation of ``x`` along an axis, computed in dtype ``kind``.

    Each element of the result is the weighted sum of the elements of ``x`` that ``taps`` gives for
    its position.
    """
    shape = [axis.after if i == axis.number else size for i, size in enumerate(x.shape)]
    count = taps.indices.shape[1]
    columns = [constant(column.astype(np.int32)) for column in taps.indices.T]
    columns += [constant(column.astype(kind)) for column in taps.weights.T]

    def body(*values: Scalar) -> Scalar:
        total: Scalar | None = None
        for index, weight in zip(values[:count], values[count:], strict=True):
            place = [index if i == axis.number else here(i) for i in range(x.rank)]
            term = fetch(x, place).cast(kind) * weight
            total = term if total is None else total + term
        assert total is not None
        return total

    inputs = [(column, [axis.number]) for column in columns]
    return structured(shape, 0, inputs, (empty(shape, kind), range(x.rank)), body)


def _rounded(x: Tensor, dtype: DType) -> Tensor:
    """Emit ``x`` in ``dtype``; integers are rounded to nearest even and saturated."""
    if x.dtype == dtype:
        return x
    if is_float(dtype):
        return pointwise(lambda v: v.cast(dtype), x, dtype=dtype)
    low, high = lowest(dtype), highest(dtype)
    # The conversion to integers truncates and overflows, so round and clamp before.
    return pointwise(
        lambda v: v.apply(math.RoundEvenOp).clamp(low, high).cast(dtype), x, dtype=dtype
    )


def _extrapolate(x: Tensor, outside: Sequence[tuple[int, NDArray[np.bool_]]], node: Node) -> Tensor:
    """Emit ``x`` with ``extrapolation_value``, an attribute of ``node``, outside of the input.

    ``outside`` has pairs of an axis and a mask. The mask has a boolean for each position of ``x``
    along the axis: whether the input coordinate of this position is outside of the input.
    """
    masks = [(number, mask) for number, mask in outside if mask.any()]
    if not masks:
        return x
    value = node.attribute("extrapolation_value", 0.0)
    inputs = [(constant(mask), [number]) for number, mask in masks]

    def body(v: Scalar, *flags: Scalar) -> Scalar:
        for flag in flags:
            v = flag.select(literal(value, x.dtype), v)
        return v

    loops = range(x.rank)
    out = (empty(x.shape, x.dtype), loops)
    return structured(x.shape, 0, [(x, loops), *inputs], out, body)


BUILDERS: dict[str, Builder] = {"Resize": resize}
