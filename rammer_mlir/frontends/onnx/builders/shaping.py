"""Builds operators that only move elements: views, slices, concatenation, padding, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from rammer_mlir.evaluators.movement import sliced
from rammer_mlir.frontends.onnx.builders.indexing import take
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    fetch,
    indexed,
    loop,
    pointwise,
    structured,
    transpose,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
    constant,
    empty,
    full,
    splat,
)
from rammer_mlir.frontends.onnx.builders.views import (
    concat,
    pad,
    part,
    reshape,
)
from rammer_mlir.frontends.onnx.limits import MOST_FOLDED
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.passes.ir.scalar import BOOL, INT64, Scalar, literal


def _reshape(node: Node) -> Tensor:
    return reshape(node.tensor(0), node.out().shape)


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    """Emit ``x`` with permuted dimensions: dimension ``i`` of the result is ``order[i]`` of ``x``.

    The operation is a reshape if only dimensions of size 1 move.
    """
    long = [axis for axis in order if x.shape[axis] != 1]
    if long == sorted(long):
        return reshape(x, [x.shape[axis] for axis in order])
    return transpose(x, order)


def _transpose(node: Node) -> Tensor:
    x = node.tensor(0)
    return permute(x, node.attribute("perm", list(reversed(range(x.rank)))))


def _concat(node: Node) -> Tensor:
    axis = node.axis("axis", 0, node.out().rank)
    return concat(node.tensors(), axis)


def _split(node: Node) -> list[Tensor | None]:
    """Emit Split; return its results in order, with None for unused results."""
    x = node.tensor(0)
    axis = node.axis("axis", 0, x.rank)
    sizes = node.integers(1) or _even_sizes(x.shape[axis], len(node.outputs))
    results: list[Tensor | None] = []
    start = 0
    for number, size in enumerate(sizes):
        starts, shape = [0] * x.rank, list(x.shape)
        starts[axis], shape[axis] = start, size
        results.append(part(x, starts, shape) if node.uses(number) else None)
        start += size
    return results


def _even_sizes(length: int, parts: int) -> list[int]:
    size = -(-length // parts)
    return [min(size, length - start) for start in range(0, size * parts, size)]


def _slice(node: Node) -> Tensor:
    x = node.tensor(0)
    starts, ends = node.integers(1) or [], node.integers(2) or []
    axes = node.integers(3) or list(range(len(starts)))
    steps = node.integers(4) or [1] * len(starts)
    ranges = [range(size) for size in x.shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis % x.rank]
        ranges[axis % x.rank] = range(size)[sliced(start, end, step, size)]
    if not all(ranges):
        return empty([len(r) for r in ranges], x.dtype)
    # Slice first, because a plain loop index must span a whole dimension.
    forward = [r if r.step > 0 else range(n) for r, n in zip(ranges, x.shape, strict=True)]
    x = part(x, [r.start for r in forward], [len(r) for r in forward], [r.step for r in forward])
    if all(r.step > 0 for r in ranges):
        return x
    exprs: list[Expr] = [i if r.step > 0 else _step(i, r) for i, r in enumerate(ranges)]
    shape = [len(r) for r in ranges]
    out = (empty(shape, x.dtype), range(x.rank))
    return structured(shape, 0, [(x, exprs)], out, lambda v: v)


def _step(number: int, places: range) -> Expr:
    return loop(number) * places.step + places.start


def _expand(node: Node) -> Tensor:
    return pointwise(lambda x: x, node.tensor(0), shape=node.out().shape)


def _tile(node: Node) -> Tensor:
    """Emit Tile as a broadcast: ``[4] -> [1, 4] -> [3, 4] -> [12]`` for three repetitions.

    A dimension of size 1 is inserted before each dimension of the input, broadcast to the number of
    repetitions, and merged with the dimension after it.
    """
    x = node.tensor(0)
    repeats = [
        out // size if size else 1 for out, size in zip(node.out().shape, x.shape, strict=True)
    ]
    split = [size for pair in zip([1] * x.rank, x.shape, strict=True) for size in pair]
    wide = [size for pair in zip(repeats, x.shape, strict=True) for size in pair]
    repeated = pointwise(lambda v: v, reshape(x, split), shape=wide)
    return reshape(repeated, node.out().shape)


def _pad(node: Node) -> Tensor:
    x = node.tensor(0)
    mode = node.attribute("mode", "constant")
    low, high = _widths(node, x.rank)
    value = node.constant(2) if node.has(2) else np.zeros(1)
    if mode == "constant" and value is not None:
        border = value.reshape(-1)[0].item()
        kept = (n + min(a, 0) + min(b, 0) for n, a, b in zip(x.shape, low, high, strict=True))
        if min(kept, default=0) < 0:  # the crop exceeds the extent
            return full(node.out().shape, border, x.dtype)
        cropped = _crop(x, low, high)
        return pad(cropped, [max(n, 0) for n in low], [max(n, 0) for n in high], border)
    if mode != "constant":
        return _pad_with_elements(_crop(x, low, high), low, high, mode)
    tables = [
        constant(_source_positions(size, a, b))
        for size, a, b in zip(x.shape, low, high, strict=True)
    ]
    return _pick(x, tables, node.out().shape, node.tensor(2))


def _pad_with_elements(x: Tensor, low: Sequence[int], high: Sequence[int], mode: str) -> Tensor:
    """Emit ``x`` padded with elements of its own, by the modes ``edge``, ``reflect`` or ``wrap``.

    ``low`` and ``high`` are the widths before and after each dimension; negative widths have no
    effect. Only the elements of the padding are gathered; the concatenation with ``x`` copies ``x``
    contiguously.
    """
    for axis in reversed(range(x.rank)):
        before, after = max(low[axis], 0), max(high[axis], 0)
        places = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
        if not before and not after:
            continue
        ends = places[:before], places[len(places) - after :]
        # With 32 bits, a vector has as many indices as elements.
        left, right = (constant(end.astype(np.int32)) for end in ends)
        parts = [take(x, left, axis, is_checked=True)] if before else []
        parts += [x, take(x, right, axis, is_checked=True)] if after else [x]
        x = concat(parts, axis)
    return x


def _widths(node: Node, rank: int) -> tuple[list[int], list[int]]:
    widths = node.integers(1) or []
    axes = node.integers(3) or list(range(rank))
    low, high = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        low[axis % rank], high[axis % rank] = widths[number], widths[number + len(axes)]
    return low, high


def _crop(x: Tensor, low: Sequence[int], high: Sequence[int]) -> Tensor:
    """Emit ``x`` without the elements that negative widths of Pad remove.

    ``low`` and ``high`` are the widths before and after each dimension; positive widths have no
    effect.
    """
    starts = [max(-n, 0) for n in low]
    sizes = [
        size - start - max(-n, 0) for size, start, n in zip(x.shape, starts, high, strict=True)
    ]
    return part(x, starts, sizes)


def _source_positions(size: int, low: int, high: int) -> Array:
    """Return, for each position of Pad's result along a dimension, the input position to copy.

    The position is -1 where the result has the constant of mode ``constant``.

    Args:
        size: extent of the input.
        low: width of the padding before the input; a negative width crops.
        high: width of the padding after the input; a negative width crops.
    """
    places = np.arange(-low, size + high, dtype=np.int64)
    return np.where((places >= 0) & (places < size), places, -1)


def _pick(x: Tensor, tables: Sequence[Tensor], shape: Sequence[int], border: Tensor) -> Tensor:
    """Emit a tensor of ``shape`` whose element [i, j, ...] is x[tables[0][i], tables[1][j], ...].

    Where a table holds -1, the element is ``border``.
    """

    def element(indices: list[Scalar]) -> Scalar:
        places = [fetch(table, [i]) for table, i in zip(tables, indices, strict=True)]
        inside = literal(1, BOOL)
        for place in places:
            inside = inside & place.compare("ge", 0)
        found = fetch(x, [place.maximum(0) for place in places])
        return inside.select(found, fetch(border, [literal(0, INT64)] * border.rank))

    return indexed(shape, x.dtype, element)


def _depth_to_space(node: Node) -> Tensor:
    x, size = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = x.shape
    if node.attribute("mode", "DCR") == "DCR":
        split, order = (n, size, size, c // size**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
    return reshape(permute(reshape(x, split), order), node.out().shape)


def _space_to_depth(node: Node) -> Tensor:
    x, size = node.tensor(0), node.attribute("blocksize")
    n, c, h, w = x.shape
    split = reshape(x, (n, c, h // size, size, w // size, size))
    order = (0, 3, 5, 1, 2, 4) if node.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshape(permute(split, order), node.out().shape)


def _center_crop_pad(node: Node) -> Tensor:
    x = node.tensor(0)
    low: list[int] = []
    high: list[int] = []
    for size, wanted in zip(x.shape, node.out().shape, strict=True):
        before = (wanted - size) // 2 if wanted >= size else -((size - wanted) // 2)
        low.append(before)
        high.append(wanted - size - before)
    return pad(_crop(x, low, high), [max(n, 0) for n in low], [max(n, 0) for n in high], 0)


def _triangle(node: Node) -> Tensor:
    """Emit Trilu: the last two dimensions with zeros below or above a diagonal."""
    x = node.tensor(0)
    shift = (node.integers(1) or [0])[0]
    kind = "ge" if node.attribute("upper", 1) else "le"

    def element(indices: list[Scalar]) -> Scalar:
        kept = (indices[-1] - indices[-2]).compare(kind, shift)
        return kept.select(fetch(x, indices), literal(0, x.dtype))

    return indexed(x.shape, x.dtype, element)


def _eye_like(node: Node) -> Tensor:
    out, shift = node.out(), node.attribute("k", 0)
    if prod(out.shape) <= MOST_FOLDED:
        return constant(np.eye(*out.shape, k=shift).astype(out.dtype))

    def element(indices: list[Scalar]) -> Scalar:
        return (indices[1] - indices[0]).compare("eq", shift).cast(out.dtype)

    return indexed(out.shape, out.dtype, element)


def _one_hot(node: Node) -> Tensor:
    out, positions, values = node.out(), node.tensor(0), node.tensor(2)
    axis = node.axis("axis", -1, out.rank)
    depth = out.shape[axis]

    def element(indices: list[Scalar]) -> Scalar:
        others = [index for number, index in enumerate(indices) if number != axis]
        given = fetch(positions, others).cast(INT64)
        wrapped = given.compare("lt", 0).select(given + depth, given)
        return fetch(values, [wrapped.compare("eq", indices[axis]).cast(INT64)])

    return indexed(out.shape, out.dtype, element)


def _range(node: Node) -> Tensor:
    start, delta, out = node.tensor(0), node.tensor(2), node.out()

    def element(indices: list[Scalar]) -> Scalar:
        return fetch(start, []) + fetch(delta, []) * indices[0].cast(out.dtype)

    return indexed(out.shape, out.dtype, element)


def _reverse_sequence(node: Node) -> Tensor:
    x, lengths = node.tensor(0), node.tensor(1)
    batch, time = node.attribute("batch_axis", 1), node.attribute("time_axis", 0)

    def element(indices: list[Scalar]) -> Scalar:
        place = indices[time]
        # A length beyond the axis reverses all of it, and a negative length nothing.
        length = fetch(lengths, [indices[batch]]).cast(INT64).clamp(0, x.shape[time])
        places = list(indices)
        places[time] = place.compare("lt", length).select(length - 1 - place, place)
        return fetch(x, places)

    return indexed(x.shape, x.dtype, element)


def _constant(node: Node) -> Tensor:
    ((_, value),) = node.attributes.items()
    if isinstance(value, TensorProto):
        return constant(numpy_helper.to_array(value))
    return constant(np.array(value, node.out().dtype))


def _constant_of_shape(node: Node) -> Tensor:
    value = node.attribute("value")
    out = node.out()
    filling = 0 if value is None else numpy_helper.to_array(value).reshape(-1)[0].item()
    return splat(out.shape, filling, out.dtype)


def _shape(node: Node) -> Tensor:
    shape = node.fact(0).shape
    part_of = slice(node.attribute("start", 0), node.attribute("end"))
    return constant(np.array(shape[part_of], np.int64))


def _size(node: Node) -> Tensor:
    return constant(np.array(prod(node.fact(0).shape), np.int64))


BUILDERS: dict[str, Builder] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _reshape,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ReverseSequence": _reverse_sequence,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _reshape,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _reshape,
}
"""Builders by operator name."""
