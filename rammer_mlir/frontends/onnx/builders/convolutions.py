"""Convolutions, plain and transposed, grouped and depthwise, over any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod

from rammer_mlir.bindings import ir
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import accumulator, contract, converted
from rammer_mlir.frontends.onnx.builders.scalar import DType, Scalar
from rammer_mlir.frontends.onnx.builders.structured import (
    Expr,
    Tensor,
    concat,
    empty,
    full,
    loop,
    pad,
    part,
    pointwise,
    reshape,
    structured,
)
from rammer_mlir.frontends.onnx.builders.windows import window_of


def conv(node: Node) -> Tensor:
    """Build Conv."""
    x, w = node.tensor(0), node.tensor(1)
    window = window_of(node, x.shape[2:], w.shape[2:])
    kind = accumulator(x.dtype)
    padded = pad(x, (0, 0, *window.low), (0, 0, *window.high), 0)
    result = convolve(
        padded, w, node.attribute("group", 1), window.strides, window.dilations,
        window.output_space(x.shape[2:]), kind,
    )  # fmt: skip
    return reshape(finish(node, result, x.dtype), node.out().shape)


def finish(node: Node, result: Tensor, dtype: DType) -> Tensor:
    """Add the bias to what ``convolve`` returned and convert it."""
    if not node.has(2):
        return converted(result, dtype)
    dims = range(1, result.rank - (node.fact(0).rank - 2))
    bias = reshape(node.tensor(2), [result.shape[dim] for dim in dims])

    def body(r: Scalar, b: Scalar) -> Scalar:
        return (r + b.cast(r.dtype)).cast(dtype)

    return pointwise(body, result, (bias, dims), dtype=dtype, shape=result.shape)


def convolve(
    x: Tensor,
    w: Tensor,
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    space: Sequence[int],
    dtype: DType,
) -> Tensor:
    """Convolve ``x [N, C, *]``, already padded, with ``w [F, C / G, *kernel]``.

    Args:
        x: data.
        w: filters.
        groups: number G of groups of channels.
        strides: for each spatial dimension.
        dilations: for each spatial dimension.
        space: spatial extents of the result.
        dtype: element type of the result and of the arithmetic.

    Returns:
        The result ``[N, G, F / G, *space]``, without the dimension of groups, or of features, if
        there is only one of it.
    """
    features, channels, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    names = ["n", "g", "f", *(f"o{i}" for i in range(len(space)))]
    inner = ["c", *(f"k{i}" for i in range(len(space)))]
    extents = dict(
        zip(
            (*names, *inner), (x.shape[0], groups, features, *space, channels, *kernel), strict=True
        )
    )
    # Loops that run once would only hide what the convolution is: depthwise, or a matrix product.
    dropped = {name for name in ("g", *inner) if extents[name] == 1}
    if groups > 1 and features == 1:
        dropped.add("f")
    loops = [name for name in names if name not in dropped]
    reductions = [name for name in inner if name not in dropped] or inner[:1]
    position = {name: i for i, name in enumerate([*loops, *reductions])}

    def plain(wanted: Sequence[str]) -> list[Expr]:
        return [position[name] for name in wanted if name in position]

    taps = [f"k{i}" for i in range(len(space))]
    sliding = [
        _window_index(position[f"o{i}"], strides[i], position.get(f"k{i}"), dilations[i])
        for i in range(len(space))
    ]
    lead = ["n", "g", "c"]
    x_exprs = [*plain(lead), *sliding]
    x_shape = [extents[name] for name in lead if name in position]
    data = reshape(x, (*x_shape, *x.shape[2:]))
    w_names = ["g", "f", "c", *taps]
    filters = reshape(w, [extents[name] for name in w_names if name in position])
    domain = [extents[name] for name in (*loops, *reductions)]
    return contract(domain, len(reductions), (data, x_exprs), (filters, plain(w_names)), dtype)


def _window_index(output: int, stride: int, tap: int | None, dilation: int) -> Expr:
    index: ir.AffineExpr = loop(output) * stride if stride != 1 else loop(output)
    return index if tap is None else index + loop(tap) * dilation


def conv_transpose(node: Node) -> Tensor:
    """Build ConvTranspose as one plain convolution for each phase of the strides.

    Outputs whose positions agree modulo the strides depend on the same taps of the kernel, so that
    nothing is multiplied by zeros between the inputs.
    """
    x, w = node.tensor(0), node.tensor(1)
    groups = node.attribute("group", 1)
    space = node.out().shape[2:]
    rank = len(space)
    strides = list(node.attribute("strides") or [1] * rank)
    dilations = list(node.attribute("dilations") or [1] * rank)
    low = _transposed_padding(node, x.shape[2:], w.shape[2:], strides, dilations)
    flipped = _flip(w, groups)
    counts = [-(-size // stride) for size, stride in zip(space, strides, strict=True)]
    phases = {
        phase: _phase(x, flipped, groups, phase, (strides, dilations, low), counts)
        for phase in product(*map(range, strides))
    }
    joined = _interleave(phases, strides, counts)
    whole = [stride * count for stride, count in zip(strides, counts, strict=True)]
    lead = joined.shape[: -2 * rank] if prod(strides) > 1 else joined.shape[:-rank]
    full_size = reshape(joined, (*lead, *whole))
    cut = part(full_size, [0] * full_size.rank, (*lead, *space))
    return reshape(finish(node, cut, x.dtype), node.out().shape)


def _transposed_padding(
    node: Node,
    space: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return how many outputs are cut off at the low end of each dimension."""
    rank = len(space)
    mode = node.attribute("auto_pad", "NOTSET")
    if mode == "NOTSET" and "output_shape" not in node.attributes:
        return list((node.attribute("pads") or [0] * (2 * rank))[:rank])
    if mode == "VALID":
        return [0] * rank
    extra = node.attribute("output_padding") or [0] * rank
    target = node.out().shape[2:]
    total = [
        stride * (size - 1) + more + (taps - 1) * dilation + 1 - out
        for stride, size, more, taps, dilation, out in zip(
            strides, space, extra, kernel, dilations, target, strict=True
        )
    ]
    if mode == "SAME_UPPER":
        return [t // 2 for t in total]
    return [t - t // 2 for t in total]


def _flip(w: Tensor, groups: int) -> Tensor:
    """Turn filters ``[C, F / G, *kernel]`` into ``[F, C / G, *kernel]``, taps in reverse order."""
    channels, features, *kernel = w.shape
    split = reshape(w, (groups, channels // groups, features, *kernel))
    shape = [groups, features, channels // groups, *kernel]
    reverse = [(size - 1) - loop(3 + i) if size > 1 else 3 + i for i, size in enumerate(kernel)]
    copy = structured(
        shape, 0, [(split, [0, 2, 1, *reverse])], (empty(shape, w.dtype), range(len(shape))),
        lambda v: v,
    )  # fmt: skip
    return reshape(copy, (groups * features, channels // groups, *kernel))


def _phase(
    x: Tensor,
    flipped: Tensor,
    groups: int,
    phase: Sequence[int],
    geometry: tuple[Sequence[int], Sequence[int], Sequence[int]],
    counts: Sequence[int],
) -> Tensor:
    """Return the outputs ``stride * q + phase``, with dimensions as ``convolve`` returns them."""
    kernel = flipped.shape[2:]
    starts: list[int] = []
    taps: list[int] = []
    steps: list[int] = []
    spacing: list[int] = []
    offsets: list[int] = []
    for i, (stride, dilation, low) in enumerate(zip(*geometry, strict=True)):
        common = gcd(stride, dilation)
        used = [k for k in range(kernel[i]) if (phase[i] + low - k * dilation) % stride == 0]
        if not used:
            features = flipped.shape[0] // groups
            channels = [size for size in (groups, features) if size > 1] or [1]
            return full((x.shape[0], *channels, *counts), 0, accumulator(x.dtype))
        starts.append(kernel[i] - 1 - used[-1])
        taps.append(len(used))
        steps.append(stride // common)
        spacing.append(dilation // common)
        # The flipped kernel begins with the tap that reads the smallest index.
        offsets.append((phase[i] + low - used[-1] * dilation) // stride)
    filters = part(flipped, (0, 0, *starts), (*flipped.shape[:2], *taps), (1, 1, *steps))
    window = _read(x, offsets, [
        (taps[i] - 1) * spacing[i] + counts[i] for i in range(len(counts))
    ])  # fmt: skip
    ones = [1] * len(counts)
    return convolve(window, filters, groups, ones, spacing, counts, accumulator(x.dtype))


def _read(x: Tensor, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Read a box of the spatial dimensions that may reach beyond the tensor, where it is zero."""
    space = x.shape[2:]
    begin = [max(offset, 0) for offset in offsets]
    end = [max(min(o + s, size), 0) for o, s, size in zip(offsets, sizes, space, strict=True)]
    if any(a >= b for a, b in zip(begin, end, strict=True)):
        return full((*x.shape[:2], *sizes), 0, x.dtype)
    inside = part(
        x, (0, 0, *begin), (*x.shape[:2], *(b - a for a, b in zip(begin, end, strict=True)))
    )
    low = [max(-offset, 0) for offset in offsets]
    high = [size - a - (e - b) for size, a, e, b in zip(sizes, low, end, begin, strict=True)]
    return pad(inside, (0, 0, *low), (0, 0, *high), 0)


def _interleave(
    phases: dict[tuple[int, ...], Tensor], strides: Sequence[int], counts: Sequence[int]
) -> Tensor:
    """Join phases into ``[..., count, stride, count, stride, ...]``."""
    if prod(strides) == 1:
        return phases[(0,) * len(strides)]
    lead = next(iter(phases.values())).shape[: -len(counts)]
    pairs = [size for count in counts for size in (count, 1)]
    parts = {phase: reshape(value, (*lead, *pairs)) for phase, value in phases.items()}
    axis = len(lead) + 1
    for dimension in reversed(range(len(strides))):
        shorter = {phase[:dimension] for phase in parts}
        parts = {
            key: concat([parts[*key, r] for r in range(strides[dimension])], axis + 2 * dimension)
            for key in shorter
        }
    return parts[()]


BUILDERS: dict[str, Builder] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
}
