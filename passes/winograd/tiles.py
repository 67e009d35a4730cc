"""Emits views of images and of convolution results as tiles, and pads them to whole tiles.

A tile has m x m elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.constant_pad import pad_with_zeros, padding_of
from rammer_mlir.passes.ir.reshapes import reassociation
from rammer_mlir.passes.ir.structured import shape_of

EXPAND = "tensor.expand_shape"


def split_tiles(value: ir.Value, outputs: int) -> ir.Value:
    """Return a view of an image [N, K, H, W, L] as tiles [N, K, H / m, m, W / m, m, L].

    K is the count of channel blocks, L the channels of a block; m is ``outputs``. Additional
    dimensions before the rows, such as groups, are unchanged.
    """
    *around, rows, columns, lanes = shape_of(value)
    shape = [*around, rows // outputs, outputs, columns // outputs, outputs, lanes]
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return tensor.ExpandShapeOp(kind, value, _tiles(len(around)), [], shape).result


def join_tiles(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Return a view of tiles [N, K, T, m, S, m, L] as an image [N, K, H, W, L].

    There are T rows and S columns of tiles of m x m elements, and K blocks of L channels. The image
    is cropped to ``shape``. Additional dimensions before the rows, such as groups, are unchanged.
    """
    *around, rows, outputs, columns, _, lanes = shape_of(value)
    element = ir.RankedTensorType(value.type).element_type
    whole = ir.RankedTensorType.get([*around, rows * outputs, columns * outputs, lanes], element)
    joined = tensor.CollapseShapeOp(whole, value, _tiles(len(around))).result
    if list(whole.shape) == list(shape):
        return joined
    kind = ir.RankedTensorType.get(list(shape), element)
    zeros, ones = [0] * len(shape), [1] * len(shape)
    return tensor.ExtractSliceOp(kind, joined, [], [], [], zeros, list(shape), ones).result


def _tiles(around: int) -> list[list[int]]:
    """Return the groups of tile dimensions that a reshape from tiles to an image joins.

    Tiles [N, K, T, m, S, m, L], with T rows and S columns of m x m elements, become an image
    [N, K, H, W, L]. ``around`` is the number of dimensions before T. For 2, the result is
    ``[[0], [1], [2, 3], [4, 5], [6]]``, with a group for each dimension of the image.
    """
    loops = list(range(around + 5))
    return [*([loop] for loop in loops[:-5]), loops[-5:-3], loops[-3:-1], loops[-1:]]


def with_whole_tiles(image: ir.Value, shape: Sequence[int], outputs: int) -> ir.Value:
    """Return an image, padded so that the convolution's result is divisible into whole tiles.

    Zeros are appended to the image's rows and columns. An existing zero padding is extended.

    Args:
        image: the image.
        shape: the shape [N, K, H, W, L] of the convolution's result, in channel blocks.
        outputs: count of rows, and of columns, of a tile of results.
    """
    more = [-extent % outputs for extent in shape[-3:-1]]
    return _with_zeros(image, more) if any(more) else image


def _with_zeros(image: ir.Value, more: Sequence[int]) -> ir.Value:
    """Return an image with ``more[0]`` rows and ``more[1]`` columns of zeros appended.

    If a reshape that splits channels into groups computes the image, the padding is inserted before
    the reshape.
    """
    owner = image.owner
    if not isinstance(owner, ir.Block) and owner.name == EXPAND and _keeps_rows(owner.opview):
        source = _with_zeros(owner.operands[0], more)
        *around, rows, columns, lanes = shape_of(image)
        wide = [*around, rows + more[0], columns + more[1], lanes]
        kind = ir.RankedTensorType.get(wide, ir.RankedTensorType(image.type).element_type)
        return tensor.ExpandShapeOp(kind, source, reassociation(owner.opview), [], wide).result
    high = [*[0] * (len(shape_of(image)) - 3), *more, 0]
    low = [0] * len(high)
    before = padding_of(image)
    if before is not None and before.is_zero:
        image, low = before.source, before.low
        high = [a + b for a, b in zip(high, before.high, strict=True)]
    return pad_with_zeros(image, low, high)


def _keeps_rows(op: ir.OpView) -> bool:
    """Whether a reshape leaves rows, columns and the last dimension unchanged."""
    return all(len(group) == 1 for group in reassociation(op)[-3:])
