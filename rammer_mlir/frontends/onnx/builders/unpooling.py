"""Builds MaxUnpool, which writes pooled maxima back to their original positions."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    full,
)
from rammer_mlir.frontends.onnx.builders.views import (
    pad,
    part,
)
from rammer_mlir.frontends.onnx.builders.windows import Window, window_of
from rammer_mlir.passes.ir.scalar import BOOL, INT64, Scalar, literal


def max_unpool(node: Node) -> Tensor:
    """Emit MaxUnpool; positions without a maximum are zero.

    The maximum of a window is always inside the window. So each output element is compared only
    with the maxima of the few windows that contain the element, and all elements can be computed in
    parallel.
    """
    x, indices = node.tensor(0), node.tensor(1)
    window = window_of(node, x.shape[2:], node.attribute("kernel_shape"))
    space = [
        (size - 1) * stride - low - high + kernel
        for size, stride, low, high, kernel in zip(
            x.shape[2:], window.strides, window.low, window.high, window.kernel, strict=True
        )
    ]
    result = _unpool(x, indices, window, space)
    return _resized(result, node.out().shape)


def _unpool(x: Tensor, indices: Tensor, window: Window, space: Sequence[int]) -> Tensor:
    shape = (*x.shape[:2], *space)
    rank = len(shape)
    # Number of windows per dimension that contain an element.
    counts = [-(-k // s) for k, s in zip(window.kernel, window.strides, strict=True)]

    def search(found: Scalar) -> Scalar:
        place = [here(0), here(1)]
        hit = literal(1, BOOL)
        for i, size in enumerate(x.shape[2:]):
            first = (here(2 + i) + window.low[i]) / window.strides[i]
            number = first - here(rank + i)
            inside = number.clamp(0, size - 1)
            hit = hit & number.compare("eq", inside)
            place.append(inside)
        flat = literal(0, INT64)
        for number, size in enumerate(shape):
            flat = flat * size + here(number)
        hit = hit & fetch(indices, place).compare("eq", flat)
        return hit.select(fetch(x, place), found)

    out = (full(shape, 0, x.dtype), range(rank))
    return structured([*shape, *counts], len(counts), [], out, search)


def _resized(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Emit ``x`` in ``shape``, cropped or padded with zeros at the end of each dimension."""
    kept = [min(a, b) for a, b in zip(x.shape, shape, strict=True)]
    missing = [b - a for a, b in zip(kept, shape, strict=True)]
    return pad(part(x, [0] * x.rank, kept), [0] * x.rank, missing, 0)


BUILDERS: dict[str, Builder] = {"MaxUnpool": max_unpool}
