"""Views of images and results in whole tiles of m x m results."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.constant_pad import pad_with_zeros, padding_of
from rammer_mlir.passes.structured import shape_of

_TILES = [[0], [1], [2, 3], [4, 5], [6]]
"""Dimensions of [N, K, T, m, S, m, L] that make up those of [N, K, H, W, L]."""


def split_tiles(value: ir.Value, outputs: int) -> ir.Value:
    """View [N, K, H, W, L] as [N, K, H / m, m, W / m, m, L], where m is ``outputs``."""
    n, k, rows, columns, lanes = shape_of(value)
    shape = [n, k, rows // outputs, outputs, columns // outputs, outputs, lanes]
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return tensor.ExpandShapeOp(kind, value, _TILES, [], shape).result


def join_tiles(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """View tiles [N, K, T, m, S, m, L] as [N, K, H, W, L], without what is beyond ``shape``."""
    n, k, rows, outputs, columns, _, lanes = shape_of(value)
    element = ir.RankedTensorType(value.type).element_type
    whole = ir.RankedTensorType.get([n, k, rows * outputs, columns * outputs, lanes], element)
    joined = tensor.CollapseShapeOp(whole, value, _TILES).result
    if list(whole.shape) == list(shape):
        return joined
    kind = ir.RankedTensorType.get(list(shape), element)
    return tensor.ExtractSliceOp(kind, joined, [], [], [], [0] * 5, list(shape), [1] * 5).result


def with_whole_tiles(image: ir.Value, shape: Sequence[int], outputs: int) -> ir.Value:
    """Return the image with as many more zeros behind it as whole tiles of its result need.

    ``shape`` is that of the result [N, K, H, W, L]. Zeros are added to those around an image.
    """
    more = [0, 0, *(-extent % outputs for extent in shape[2:4]), 0]
    if not any(more):
        return image
    low, high = [0] * len(more), more
    before = padding_of(image)
    if before is not None and before.is_zero:
        image, low = before.source, before.low
        high = [a + b for a, b in zip(more, before.high, strict=True)]
    return pad_with_zeros(image, low, high)
