"""Builds convolutions, including grouped and depthwise, over any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import accumulator, contract, converted
from rammer_mlir.frontends.onnx.builders.structured import (
    loop,
    pointwise,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
)
from rammer_mlir.frontends.onnx.builders.views import (
    pad,
    reshape,
)
from rammer_mlir.frontends.onnx.builders.windows import window_of
from rammer_mlir.passes.ir.scalar import DType, Scalar


def conv(node: Node) -> Tensor:
    """Emit the operations of Conv, including its bias; return the result, in the data's dtype."""
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
    """Add the node's bias, if any, to the convolution ``result``, and convert the sum to ``dtype``.

    ``result`` and the returned tensor have the shape that ``convolve`` returns, which may have a
    dimension for groups.
    """
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
    """Emit the convolution of padded data ``x [N, C, *]`` with ``w [F, C / G, *kernel]``.

    Args:
        x: data, already padded.
        w: filters.
        groups: number G of groups of channels.
        strides: stride of the windows along each spatial dimension.
        dilations: distance of the taps along each spatial dimension.
        space: spatial extents of the result.
        dtype: element type of the result and of the arithmetic.

    Returns:
        The result ``[N, G, F/G, *space]``. If G is 1, dimension G is omitted. If G is greater
        than 1 and F/G is 1, dimension F/G is omitted.
    """
    features, channels, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    names = ["n", "g", "f", *(f"o{i}" for i in range(len(space)))]
    inner = ["c", *(f"k{i}" for i in range(len(space)))]
    extents = dict(
        zip(
            (*names, *inner), (x.shape[0], groups, features, *space, channels, *kernel), strict=True
        )
    )
    # Omit loops of one iteration, which would hide depthwise convolutions and matrix products.
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


BUILDERS: dict[str, Builder] = {"Conv": conv}
