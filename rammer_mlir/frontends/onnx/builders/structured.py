"""Tensors and the structured operations over them that builders are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from rammer_mlir.bindings import arith, ir, linalg, tensor
from rammer_mlir.frontends.onnx.builders.scalar import (
    BF16,
    BOOL,
    DType,
    Scalar,
    element_type,
    index_value,
    literal,
    literal_attribute,
)
from rammer_mlir.frontends.onnx.tensors import Array

Expr = ir.AffineExpr | int
"""An index expression: an affine expression, the number of a loop, or ``ZERO``."""

ZERO = -1
"""The index 0: for a dimension of size one that is broadcast."""

Body = Callable[..., Scalar]


@dataclass(frozen=True)
class Tensor:
    """A tensor value with its ONNX element type."""

    value: ir.Value
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        return tuple(ir.RankedTensorType(self.value.type).shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


Operand = Tensor | tuple[Tensor, Sequence[Expr]]
"""A tensor, broadcast as NumPy does, or with an index expression for each of its dimensions."""


def tensor_type(shape: Sequence[int], dtype: DType) -> ir.RankedTensorType:
    """Return the builtin tensor type."""
    return ir.RankedTensorType.get(list(shape), element_type(dtype))


def constant(array: Array) -> Tensor:
    """Return a constant tensor."""
    kind = element_type(array.dtype)
    data = np.ascontiguousarray(array)
    if array.dtype == BF16:
        data = data.view(np.uint16)
    shaped = tensor_type(array.shape, array.dtype)
    if array.size == 0:
        attribute = ir.DenseElementsAttr.get([], shaped)
    elif array.dtype == BOOL:
        values = [ir.BoolAttr.get(bool(value)) for value in array.reshape(-1)]
        attribute = ir.DenseElementsAttr.get(values, shaped)
    else:
        attribute = ir.DenseElementsAttr.get(data, type=kind, shape=list(array.shape))
    return Tensor(arith.ConstantOp(shaped, attribute).result, array.dtype)


def splat(shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    """Return a constant tensor of one value, which takes no memory in the IR."""
    shaped = tensor_type(shape, dtype)
    attribute = ir.DenseElementsAttr.get_splat(shaped, literal_attribute(value, dtype))
    return Tensor(arith.ConstantOp(shaped, attribute).result, dtype)


def empty(shape: Sequence[int], dtype: DType) -> Tensor:
    """Return a tensor without defined contents."""
    return Tensor(tensor.EmptyOp(list(shape), element_type(dtype)).result, dtype)


def full(shape: Sequence[int], value: float, dtype: DType) -> Tensor:
    """Return a tensor of one value."""
    return Tensor(linalg.fill(literal(value, dtype).value, outs=[empty(shape, dtype).value]), dtype)


def loop(number: int) -> ir.AffineExpr:
    """Return the index of a loop."""
    return ir.AffineExpr.get_dim(number)


def structured(
    domain: Sequence[int],
    reductions: int,
    inputs: Sequence[tuple[Tensor, Sequence[Expr]]],
    output: tuple[Tensor, Sequence[Expr]],
    body: Body,
) -> Tensor:
    """Emit one ``linalg.generic``.

    Args:
        domain: extents of the loops; the last ``reductions`` of them are reductions.
        reductions: number of reduction loops.
        inputs: tensors, each with one index expression for each dimension.
        output: the tensor that is written, with its initial contents, and its index expressions.
        body: from the scalars of the inputs, then that of the output where there are reductions,
            to the new element.
    """
    reads = [*inputs, *_extents(domain, [*inputs, output])]
    operands = [*reads, output]
    kinds = ["parallel"] * (len(domain) - reductions) + ["reduction"] * reductions
    op = linalg.GenericOp(
        [output[0].value.type],
        [operand.value for operand, _ in reads],
        [output[0].value],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(_map(len(domain), exprs)) for _, exprs in operands]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]),
    )
    block = op.regions[0].blocks.append(*[element_type(operand.dtype) for operand, _ in operands])
    with ir.InsertionPoint(block):
        scalars = [
            Scalar(argument, operand.dtype)
            for argument, (operand, _) in zip(block.arguments, operands, strict=True)
        ]
        del scalars[len(inputs) : len(reads) if reductions else None]
        result = body(*scalars)
        assert result.dtype == output[0].dtype, f"{result.dtype} and {output[0].dtype}"
        linalg.YieldOp([result.value])
    return Tensor(op.results[0], output[0].dtype)


def _extents(
    domain: Sequence[int], operands: Sequence[tuple[Tensor, Sequence[Expr]]]
) -> list[tuple[Tensor, Sequence[Expr]]]:
    """Return an operand that gives the extents of loops that no operand gives, if needed."""
    plain: set[int] = set()
    for _, exprs in operands:
        for expr in exprs:
            if isinstance(expr, ir.AffineDimExpr):
                plain.add(expr.position)
            elif isinstance(expr, int):
                plain.add(expr)
    missing = [number for number in range(len(domain)) if number not in plain]
    if not missing:
        return []
    return [(empty([domain[number] for number in missing], np.dtype(np.float32)), missing)]


def _map(loops: int, exprs: Sequence[Expr]) -> ir.AffineMap:
    resolved = [
        (ir.AffineExpr.get_constant(0) if expr == ZERO else loop(expr))
        if isinstance(expr, int)
        else expr
        for expr in exprs
    ]
    return ir.AffineMap.get(loops, 0, resolved)


def broadcast_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape that NumPy broadcasts several shapes to."""
    return tuple(np.broadcast_shapes(*map(tuple, shapes)))


def broadcast_exprs(shape: Sequence[int], target: Sequence[int]) -> list[Expr]:
    """Return the index expressions that read a tensor broadcast to ``target``."""
    offset = len(target) - len(shape)
    return [
        ZERO if size == 1 and target[offset + i] != 1 else offset + i
        for i, size in enumerate(shape)
    ]


def pointwise(
    body: Body, *operands: Operand, dtype: DType | None = None, shape: Sequence[int] | None = None
) -> Tensor:
    """Apply a function to each element of tensors, broadcast as NumPy does.

    Args:
        body: from one scalar of each operand to the result's.
        operands: tensors, or tensors with the dimension of the result that each of theirs is.
        dtype: the result's element type, by default that of the first operand.
        shape: the result's shape, by default that of the operands broadcast.
    """
    plain = [t.shape for t in operands if isinstance(t, Tensor)]
    target = broadcast_shape(plain) if shape is None else tuple(shape)
    inputs = [
        (t, broadcast_exprs(t.shape, target)) if isinstance(t, Tensor) else t for t in operands
    ]
    out = empty(target, inputs[0][0].dtype if dtype is None else dtype)
    return structured(target, 0, inputs, (out, range(len(target))), body)


def indexed(shape: Sequence[int], dtype: DType, body: Callable[[list[Scalar]], Scalar]) -> Tensor:
    """Return a tensor whose elements are functions of their own indices, given as int64."""
    out = empty(shape, dtype)

    def of_indices() -> Scalar:
        return body([index_value(linalg.IndexOp(number).result) for number in range(len(shape))])

    return structured(shape, 0, [], (out, range(len(shape))), of_indices)


def fetch(source: Tensor, indices: Sequence[Scalar]) -> Scalar:
    """Read one element of a tensor inside a body; the indices must be in range."""
    positions = [index.index() for index in indices]
    return Scalar(tensor.ExtractOp(source.value, positions).result, source.dtype)


class Reduced(NamedTuple):
    """A tensor without some dimensions of another one; an operand of ``pointwise``."""

    tensor: Tensor
    dims: list[int]

    def map(self, body: Body, dtype: DType | None = None) -> Reduced:
        """Apply a function to each element."""
        return Reduced(pointwise(body, self.tensor, dtype=dtype), self.dims)

    def keepdims(self, rank: int) -> Tensor:
        """Return the tensor with the missing dimensions as ones."""
        sizes = dict(zip(self.dims, self.tensor.shape, strict=True))
        return reshape(self.tensor, [sizes.get(axis, 1) for axis in range(rank)])


def reduce(
    body: Body,
    source: Tensor,
    axes: Sequence[int],
    initial: float,
    dtype: DType | None = None,
) -> Reduced:
    """Combine the elements along axes.

    Args:
        body: from an element and what was combined so far to the new combination.
        source: a tensor.
        axes: numbers of dimensions, from 0.
        initial: what combining starts with, and the result where there are no elements.
        dtype: the result's element type, by default the source's.

    Returns:
        The result without the axes, and the dimensions of the source that its own stand for.
    """
    kept = [axis for axis in range(source.rank) if axis not in axes]
    order = [*kept, *axes]
    shape = [source.shape[axis] for axis in kept]
    out = full(shape, initial, source.dtype if dtype is None else dtype)
    exprs = [order.index(axis) for axis in range(source.rank)]
    domain = [source.shape[axis] for axis in order]
    result = structured(domain, len(axes), [(source, exprs)], (out, range(len(kept))), body)
    return Reduced(result, kept)


def reshape(source: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the same elements in row-major order under another shape."""
    shape = tuple(shape)
    if shape == source.shape:
        return source
    if not source.size or not source.rank or not shape:
        return _reshape_through(source, shape)
    groups = _reassociation(source.shape, shape)
    middle = [prod(source.shape[i] for i in old) for old, _ in groups]
    return _expand(_collapse(source, middle, [old for old, _ in groups]), shape, groups)


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


def _reassociation(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the smallest groups of neighbouring dimensions with as many elements in both."""
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


def transpose(source: Tensor, order: Sequence[int]) -> Tensor:
    """Permute dimensions: dimension ``i`` of the result is ``order[i]`` of the source."""
    if list(order) == list(range(source.rank)):
        return source
    shape = [source.shape[axis] for axis in order]
    exprs = [list(order).index(axis) for axis in range(source.rank)]
    out = (empty(shape, source.dtype), range(source.rank))
    return structured(shape, 0, [(source, exprs)], out, lambda x: x)


def part(
    source: Tensor, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> Tensor:
    """Return a rectangular part of a tensor."""
    if tuple(sizes) == source.shape:
        return source
    steps = [1] * source.rank if steps is None else list(steps)
    kind = tensor_type(sizes, source.dtype)
    cut = tensor.ExtractSliceOp(
        kind, source.value, [], [], [], list(starts), list(sizes), list(steps)
    )
    return Tensor(cut.result, source.dtype)


def concat(sources: Sequence[Tensor], axis: int) -> Tensor:
    """Join tensors along an axis."""
    if len(sources) == 1:
        return sources[0]
    shape = list(sources[0].shape)
    shape[axis] = sum(source.shape[axis] for source in sources)
    kind = tensor_type(shape, sources[0].dtype)
    join = tensor.ConcatOp(kind, axis, [source.value for source in sources])
    return Tensor(join.result, sources[0].dtype)


def pad(source: Tensor, low: Sequence[int], high: Sequence[int], value: float) -> Tensor:
    """Surround a tensor by a constant border; widths are not negative."""
    if not any(low) and not any(high):
        return source
    shape = [a + size + b for a, size, b in zip(low, source.shape, high, strict=True)]
    border = literal(value, source.dtype)
    op = tensor.PadOp(tensor_type(shape, source.dtype), source.value, [], [], list(low), list(high))
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * source.rank)
    with ir.InsertionPoint(block):
        tensor.YieldOp(border.value)
    return Tensor(op.result, source.dtype)
