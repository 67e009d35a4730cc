"""Builds Col2Im and DeformConv: sliding windows that are read at computed indices."""

from __future__ import annotations

from math import prod

from rammer_mlir.bindings import ir, math
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import accumulator, contract, converted
from rammer_mlir.frontends.onnx.builders.structured import (
    Expr,
    fetch,
    loop,
    pointwise,
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import Tensor, empty, full
from rammer_mlir.frontends.onnx.builders.views import reshape
from rammer_mlir.frontends.onnx.builders.windows import Window, window_of
from rammer_mlir.passes.ir.scalar import INT64, Scalar, literal


def col2im(node: Node) -> Tensor:
    """Emit Col2Im: each image element is the sum of all column elements mapped to its position."""
    x = node.tensor(0)
    image, block = node.integers(1), node.integers(2)
    if image is None or block is None:
        raise node.unsupported("expected a constant image_shape and block_shape")
    window = window_of(node, image, block)
    space = window.output_space(image)
    rank = len(image)
    batch, channels = x.shape[0], x.shape[1] // prod(block)
    columns = reshape(x, (batch, channels, *block, *space))
    domain = [batch, channels, *image, *block]

    def body(total: Scalar) -> Scalar:
        place = [here(number) for number in (0, 1, *range(2 + rank, 2 + 2 * rank))]
        hit: Scalar | None = None
        for axis in range(rank):
            window_number, fits = _window_of_element(window, axis, space[axis], rank)
            place.append(window_number)
            hit = fits if hit is None else hit & fits
        assert hit is not None, "an image has dimensions"
        return total + hit.select(fetch(columns, place), literal(0, x.dtype))

    start = full(domain[: 2 + rank], 0, x.dtype)
    return structured(domain, rank, [], (start, range(2 + rank)), body)


def _window_of_element(window: Window, axis: int, count: int, rank: int) -> tuple[Scalar, Scalar]:
    """Emit, along one axis, the index of the window whose current tap reads the current element.

    The loop nest gives the current image element and the current tap: the loops from 2 on are the
    element's spatial indices, followed by loops for the tap's indices in the window.

    Args:
        window: the sliding window.
        axis: index of the spatial dimension.
        count: count of windows along the dimension.
        rank: count of spatial dimensions.

    Returns:
        An index from 0 to ``count - 1``, and a boolean: whether the tap of the window at this index
            reads the element. If the boolean is false, no window's tap does.
    """
    tap = here(2 + rank + axis) * window.dilations[axis]
    offset = here(2 + axis) + window.low[axis] - tap
    stride = window.strides[axis]
    number = (offset / stride).clamp(0, count - 1)
    return number, (number * stride).compare("eq", offset)


def deform_conv(node: Node) -> Tensor:
    """Emit DeformConv: taps gathered from the image (im2col), then contracted with the weights."""
    x, w = node.tensor(0), node.tensor(1)
    if x.rank != 4:
        raise node.unsupported(f"expected two spatial dimensions, found {x.rank - 2}")
    groups = node.attribute("group", 1)
    kind = accumulator(x.dtype)
    taps = _shifted_taps(node, x, w.shape[2:])
    batch, height, width = taps.shape[0], *taps.shape[-2:]
    channels, features = w.shape[1], w.shape[0] // groups
    inner = (channels, *w.shape[2:])
    data = reshape(taps, (batch, groups, *inner, height, width))
    filters = reshape(w, (groups, features, *inner))
    domain = [batch, groups, features, height, width, *inner]
    left: list[Expr] = [0, 1, 5, 6, 7, 3, 4]
    result = contract(domain, 3, (data, left), (filters, [1, 2, 5, 6, 7]), kind)
    whole = reshape(result, (batch, groups * features, height, width))
    if not node.has(3):
        return converted(whole, x.dtype)
    return pointwise(
        lambda r, b: (r + b.cast(kind)).cast(x.dtype),
        whole, (node.tensor(3), [1]),
        dtype=x.dtype, shape=whole.shape,
    )  # fmt: skip


def _shifted_taps(node: Node, x: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """Emit the values of ``x`` at every tap of every window: [N, C, *kernel, *space].

    The node's offsets move each tap to a fractional position, at which ``x`` is interpolated. The
    values are multiplied by the node's mask, if the node has a mask. ``kernel`` has the count of
    taps along each spatial dimension.
    """
    window = window_of(node, x.shape[2:], kernel)
    offsets = node.tensor(2)
    groups = node.attribute("offset_group", 1)
    space = offsets.shape[-2:]
    batch, channels = x.shape[:2]
    offsets = reshape(offsets, (batch, groups, *kernel, 2, *space))
    mask = node.tensor(4) if node.has(4) else None
    each = channels // groups
    shape = (batch, channels, *kernel, *space)
    group: Expr = loop(1) if each == 1 else _floor_div(1, each)
    inputs: list[tuple[Tensor, list[Expr]]] = [
        (offsets, [0, group, 2, 3, ir.AffineExpr.get_constant(axis), 4, 5]) for axis in (0, 1)
    ]
    if mask is not None:
        inputs.append((reshape(mask, (batch, groups, *kernel, *space)), [0, group, 2, 3, 4, 5]))

    def body(*values: Scalar) -> Scalar:
        places = [values[axis] + _start(window, axis).cast(values[axis].dtype) for axis in (0, 1)]
        sample = _bilinear(x, places)
        return sample * values[2] if mask is not None else sample

    return structured(shape, 0, inputs, (empty(shape, x.dtype), range(6)), body)


def _floor_div(number: int, divisor: int) -> ir.AffineExpr:
    return ir.AffineExpr.get_floor_div(loop(number), divisor)


def _start(window: Window, axis: int) -> Scalar:
    """Emit the image position of the current tap of the current window along a spatial axis.

    The indices of the loop nest give the current tap and window: loops 2 and 3 are the tap's
    position in the window; loops 4 and 5 are the window's position. The result is the position in a
    plain convolution, without DeformConv's offset. ``axis`` is 0 or 1.
    """
    tap = here(2 + axis) * window.dilations[axis]
    return here(4 + axis) * window.strides[axis] + tap - window.low[axis]


def _bilinear(x: Tensor, places: list[Scalar]) -> Scalar:
    """Emit an element of ``x``, interpolated bilinearly at the spatial coordinates ``places``.

    The indices of loops 0 and 1 select the image and the channel. Outside of ``x``, all elements
    are zero.
    """
    first = [here(0), here(1)]
    corners: list[list[tuple[Scalar, Scalar, Scalar]]] = []
    for axis, place in enumerate(places):
        size = x.shape[2 + axis]
        limited = place.clamp(-2.0, size + 1.0)
        low = limited.apply(math.FloorOp)
        ratio = limited - low
        pair: list[tuple[Scalar, Scalar, Scalar]] = []
        for step, weight in ((0, literal(1, place.dtype) - ratio), (1, ratio)):
            index = low.cast(INT64) + step
            inside = index.compare("ge", 0) & index.compare("lt", size)
            pair.append((index.clamp(0, size - 1), weight, inside))
        corners.append(pair)
    total = literal(0, x.dtype)
    for down, down_weight, down_inside in corners[0]:
        for right, right_weight, right_inside in corners[1]:
            value = fetch(x, [*first, down, right])
            value = (down_inside & right_inside).select(value, literal(0, x.dtype))
            total = total + value * (down_weight * right_weight)
    return total


BUILDERS: dict[str, Builder] = {"Col2Im": col2im, "DeformConv": deform_conv}
