"""Finds the image (data operand) of a convolution, if the image can be copied to a new layout."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.channels.propagation import is_convertible
from rammer_mlir.passes.ir.constant_pad import padding_of
from rammer_mlir.passes.ir.structured import Structured, plain_dim


@dataclass(frozen=True)
class Image:
    """The image of a convolution.

    Attributes:
        value: the convolution's operand, with the channels as dimension 1. If a ``tensor.pad``
            computes the operand and does not pad its channels, the source of the ``tensor.pad``
            instead.
        channels: the count of the image's channels.
        window: the count of elements in the convolution's window, rows times columns.
        is_depthwise: whether each channel of the result is computed from the same channel of the
            image only; if False, the convolution sums over all channels.
    """

    value: ir.Value
    channels: int
    window: int
    is_depthwise: bool


def find_image(op: Structured, weights: Container[ir.Value]) -> Image | None:
    """Return the image of a convolution, if the image can be copied to a new layout; else None.

    Tensors of f32 or i8 that are not weights can be copied. The result is also None if ``op`` is
    not a convolution, or if both operands could be the image. An image has as many dimensions as
    the convolution's result, and the same first dimension, the batch. ``weights`` are the values
    known at compile time; a weight is not an image.
    """
    dims = op.result_dims(0) if op.is_contraction and op.num_outputs == 1 else None
    if dims is None or len(dims) < 3 or len(op.inputs) != 2:
        return None
    found = [_read_image(op, number, dims) for number in range(2)]
    images = [image for image in found if image is not None and image.value not in weights]
    return images[0] if len(images) == 1 and is_convertible(images[0].value, weights) else None


def _read_image(op: Structured, number: int, dims: list[int]) -> Image | None:
    """Return operand ``number`` of a convolution as its image; None if it cannot be the image.

    The first dimension of an image is the batch, the second is the channels, and a window moves
    along the remaining dimensions. ``dims`` has, for each dimension of the convolution's result,
    the loop that indexes it.
    """
    found = [plain_dim(expr) for expr in op.maps[number].results]
    if len(found) != len(dims) or found[0] != dims[0] or found[1] is None:
        return None
    channels = found[1]
    is_depthwise = channels == dims[1]
    if is_depthwise and None not in found[2:]:
        return None
    if not is_depthwise and channels not in op.reduction_loops:
        return None
    pad = padding_of(op.inputs[number])
    value = op.inputs[number]
    if pad is not None and not pad.low[1] and not pad.high[1]:
        value = pad.source
    taps = [loop for loop in op.reduction_loops if loop != channels]
    window = prod(op.extents[loop] for loop in taps)
    return Image(value, op.extents[channels], window, is_depthwise)
