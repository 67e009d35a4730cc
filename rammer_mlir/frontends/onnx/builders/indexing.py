"""Builds Gather, GatherElements and GatherND, and emits adjustments of indices known at run time.

Negative indices count from the end. Indices out of range, which ONNX leaves undefined, are clamped,
so that no memory outside of the tensor is accessed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import linalg
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
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
    INT64,
    Scalar,
    index_value,
    literal,
)


def here(number: int) -> Scalar:
    """Emit, as int64, the current index of a loop in the body of a structured operation.

    ``number`` counts the loops from the outermost loop, which is 0.
    """
    return index_value(linalg.IndexOp(number).result)


def from_front(index: Scalar, size: int) -> Scalar:
    """Emit ``index`` as int64, counted from the front: ``size`` is added to a negative index."""
    wide = index.cast(INT64)
    return wide.compare("lt", 0).select(wide + size, wide)


def in_range(index: Scalar, size: int) -> Scalar:
    """Emit ``index`` as int64, counted from the front and clamped to 0 ... ``size - 1``."""
    return from_front(index, size).clamp(0, size - 1)


def gather(node: Node) -> Tensor:
    """Emit Gather: the slices of input 0 along an axis at the indices of input 1."""
    x = node.tensor(0)
    axis = node.axis("axis", 0, x.rank)
    indices = node.fact(1)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    known = None if indices.value is None else _known(indices.value, x.shape[axis])
    if known is None:
        return take(x, node.tensor(1), axis)
    if known.size and (np.diff(known.reshape(-1)) == 1).all():
        return reshape(_rows(x, axis, int(known.flat[0]), known.size), shape)
    return take(x, constant(known), axis, is_checked=True)


def _known(indices: NDArray[np.generic], size: int) -> NDArray[np.int32 | np.int64] | None:
    """Return constant indices, counted from the front; None if any index is out of range.

    ``size`` is the extent of the indexed axis. If all indices below ``size`` fit in int32, the
    result has int32 elements, so that a vector register holds as many indices as f32 elements; else
    int64.
    """
    wide = indices.astype(np.int64)
    front = np.where(wide < 0, wide + size, wide)
    if not ((front >= 0) & (front < size)).all():
        return None
    return front.astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def _rows(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    starts, sizes = [0] * x.rank, list(x.shape)
    starts[axis], sizes[axis] = start, count
    return part(x, starts, sizes)


def take(x: Tensor, indices: Tensor, axis: int, *, is_checked: bool = False) -> Tensor:
    """Emit the slices of ``x`` along ``axis`` at ``indices``, a tensor of any rank.

    Negative indices count from the end, and indices out of range are clamped. If ``is_checked``,
    the caller guarantees that all indices are in range and not negative, and no code adjusts them.
    """
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    inner = range(axis, axis + indices.rank)
    loops = [*range(axis), *range(axis + indices.rank, len(shape))]

    def body(index: Scalar) -> Scalar:
        place = [here(number) for number in loops]
        place.insert(axis, index if is_checked else in_range(index, x.shape[axis]))
        return fetch(x, place)

    out = (empty(shape, x.dtype), range(len(shape)))
    return structured(shape, 0, [(indices, inner)], out, body)


def _gather_elements(node: Node) -> Tensor:
    x, indices = node.tensor(0), node.tensor(1)
    axis = node.axis("axis", 0, x.rank)
    shape = indices.shape
    loops = range(len(shape))

    def body(index: Scalar) -> Scalar:
        place = [
            in_range(index, x.shape[axis]) if number == axis else here(number) for number in loops
        ]
        return fetch(x, place)

    return structured(shape, 0, [(indices, loops)], (empty(shape, x.dtype), loops), body)


def _gather_nd(node: Node) -> Tensor:
    x, indices = node.tensor(0), node.tensor(1)
    batch = node.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    lead = indices.rank - 1
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def body() -> Scalar:
        first = [here(number) for number in range(lead)]
        place = first[:batch]
        for j in range(depth):
            index = fetch(indices, [*first, literal(j, INT64)])
            place.append(in_range(index, x.shape[batch + j]))
        place += [here(number) for number in range(lead, len(shape))]
        return fetch(x, place)

    return structured(shape, 0, [], (empty(shape, x.dtype), range(len(shape))), body)


BUILDERS: dict[str, Builder] = {
    "Gather": gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
}
