"""Emits reshapes, slices, concatenations and paddings of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.frontends.onnx.builders.values import Tensor, empty, full, tensor_type
from rammer_mlir.passes.ir.scalar import literal


def reshape(source: Tensor, shape: Sequence[int]) -> Tensor:
    """Emit a reshape, in row-major order; return ``source`` if it has the shape."""
    shape = tuple(shape)
    if shape == source.shape:
        return source
    filled = _fill_value(source)
    if filled is not None:
        return Tensor(linalg.fill(filled, outs=[empty(shape, source.dtype).value]), source.dtype)
    if not source.size or not source.rank or not shape:
        return _reshape_through(source, shape)
    groups = reassociation(source.shape, shape)
    middle = [prod(source.shape[i] for i in old) for old, _ in groups]
    return _expand(_collapse(source, middle, [old for old, _ in groups]), shape, groups)


def _fill_value(source: Tensor) -> ir.Value | None:
    """Return the scalar that ``linalg.fill`` stores in ``source``; None for any other producer."""
    owner = source.value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "linalg.fill":
        return None
    return owner.operation.operands[0]


def _reshape_through(source: Tensor, shape: tuple[int, ...]) -> Tensor:
    if not source.size:
        return empty(shape, source.dtype)
    flat = source
    if source.rank:
        flat = _collapse(source, [source.size], [list(range(source.rank))])
        if not shape:
            kind = tensor_type((), source.dtype)
            return Tensor(tensor.CollapseShapeOp(kind, flat.value, []).result, source.dtype)
        return _expand(flat, shape, [([0], list(range(len(shape))))])
    kind = tensor_type(shape, source.dtype)
    return Tensor(
        tensor.ExpandShapeOp(kind, source.value, [], [], list(shape)).result, source.dtype
    )


def reassociation(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of adjacent dimensions with equal numbers of elements.

    Each group is a pair: its dimensions in shape ``old``, and its dimensions in shape ``new``. For
    [6, 4] and [2, 3, 4] these are ([0], [0, 1]) and ([1], [2]).
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        a, b = [i], [j]
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, a, i = left * old[i], [*a, i], i + 1
            else:
                right, b, j = right * new[j], [*b, j], j + 1
        groups.append((a, b))
    groups[-1][0].extend(range(i, len(old)))
    groups[-1][1].extend(range(j, len(new)))
    return groups


def _collapse(source: Tensor, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> Tensor:
    if len(shape) == source.rank:
        return source
    kind = tensor_type(shape, source.dtype)
    return Tensor(
        tensor.CollapseShapeOp(kind, source.value, [list(g) for g in groups]).result, source.dtype
    )


def _expand(
    source: Tensor, shape: Sequence[int], groups: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Tensor:
    if len(shape) == source.rank:
        return source
    kind = tensor_type(shape, source.dtype)
    expand = tensor.ExpandShapeOp(
        kind, source.value, [list(new) for _, new in groups], [], list(shape)
    )
    return Tensor(expand.result, source.dtype)


def part(
    source: Tensor, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> Tensor:
    """Emit the slice of ``source`` that begins at ``starts`` and has the shape ``sizes``.

    ``steps`` are the strides of the slice in each dimension; None stands for 1.
    """
    if tuple(sizes) == source.shape:
        return source
    if 0 in sizes:
        return empty(sizes, source.dtype)
    steps = [1] * source.rank if steps is None else list(steps)
    kind = tensor_type(sizes, source.dtype)
    cut = tensor.ExtractSliceOp(
        kind, source.value, [], [], [], list(starts), list(sizes), list(steps)
    )
    return Tensor(cut.result, source.dtype)


def concat(sources: Sequence[Tensor], axis: int) -> Tensor:
    """Emit the concatenation of tensors, in order, along an axis."""
    shape = list(sources[0].shape)
    shape[axis] = sum(source.shape[axis] for source in sources)
    if 0 in shape:
        return empty(shape, sources[0].dtype)
    sources = [source for source in sources if source.size]
    if len(sources) == 1:
        return sources[0]
    kind = tensor_type(shape, sources[0].dtype)
    join = tensor.ConcatOp(kind, axis, [source.value for source in sources])
    return Tensor(join.result, sources[0].dtype)


def pad(source: Tensor, low: Sequence[int], high: Sequence[int], value: float) -> Tensor:
    """Emit ``source`` with additional elements that equal ``value`` around it.

    ``low`` and ``high`` are the counts of elements to add before and after each dimension.
    """
    if not any(low) and not any(high):
        return source
    shape = [a + size + b for a, size, b in zip(low, source.shape, high, strict=True)]
    if not source.size:
        return full(shape, value, source.dtype)
    border = literal(value, source.dtype)
    op = tensor.PadOp(tensor_type(shape, source.dtype), source.value, [], [], list(low), list(high))
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * source.rank)
    with ir.InsertionPoint(block):
        tensor.YieldOp(border.value)
    return Tensor(op.result, source.dtype)
