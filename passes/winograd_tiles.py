"""Views of images and results in whole tiles of m x m results."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.fusion import PAD, is_constant_pad
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
    owner = image.owner
    if not isinstance(owner, ir.Block) and _pads_zeros(owner.opview):
        image = owner.operands[0]
        low = list(ir.DenseI64ArrayAttr(owner.attributes["static_low"]))
        before = ir.DenseI64ArrayAttr(owner.attributes["static_high"])
        high = [a + b for a, b in zip(more, before, strict=True)]
    return _pad(image, low, high)


def _pads_zeros(op: ir.OpView) -> bool:
    if op.operation.name != PAD or not is_constant_pad(op):
        return False
    padding = list(op.operation.regions[0].blocks[0].operations)[-1].operation.operands[0]
    assert not isinstance(padding.owner, ir.Block)
    return ir.FloatAttr(padding.owner.attributes["value"]).value == 0.0


def _pad(image: ir.Value, low: list[int], high: list[int]) -> ir.Value:
    element = ir.RankedTensorType(image.type).element_type
    shape = [a + b + c for a, b, c in zip(low, shape_of(image), high, strict=True)]
    zero = arith.constant(element, 0.0)
    op = tensor.PadOp(ir.RankedTensorType.get(shape, element), image, [], [], low, high)
    body = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(body):
        tensor.YieldOp(zero)
    return op.result
