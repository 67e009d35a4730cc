"""Emits linalg operations on whole tensors; builders are composed of these functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.frontends.onnx.builders.sinking import sink, sink_reduction
from rammer_mlir.frontends.onnx.builders.values import ZERO, Expr, Tensor, empty, full
from rammer_mlir.frontends.onnx.builders.views import reshape
from rammer_mlir.passes.ir.scalar import (
    DType,
    Scalar,
    element_type,
    index_value,
    literal,
)

_S = Scalar
Body = (
    Callable[[], _S]
    | Callable[[_S], _S]
    | Callable[[_S, _S], _S]
    | Callable[[_S, _S, _S], _S]
    | Callable[[_S, _S, _S, _S], _S]
    | Callable[[_S, _S, _S, _S, _S], _S]
    | Callable[[_S, _S, _S, _S, _S, _S], _S]
)
"""A function of at most six scalars that returns a scalar.

The numbers of parameters are enumerated so that the parameters of lambdas have types.
"""


Operand = Tensor | tuple[Tensor, Sequence[Expr]]
"""A tensor, broadcast as by NumPy, or with an index expression for each dimension."""


def loop(number: int) -> ir.AffineExpr:
    """Return the affine expression for the index of loop ``number``, counted from the outermost."""
    return ir.AffineExpr.get_dim(number)


def structured(
    domain: Sequence[int],
    reductions: int,
    inputs: Sequence[tuple[Tensor, Sequence[Expr]]],
    output: tuple[Tensor, Sequence[Expr]],
    body: Body,
) -> Tensor:
    """Emit a ``linalg.generic``.

    Args:
        domain: loop extents; the last ``reductions`` loops are reductions.
        reductions: number of reduction loops.
        inputs: tensors, each with an index expression for each dimension.
        output: the tensor to write, with its initial content, and its index expressions.
        body: computes the new element from a scalar of each input; with reductions, it gets the
            output's old element as last argument.
    """
    if 0 in domain:
        return output[0]
    reads = [*inputs, *_extents(domain, [*inputs, output])]
    operands = [*reads, output]
    kinds = ["parallel"] * (len(domain) - reductions) + ["reduction"] * reductions
    loops = ", ".join(f"#linalg.iterator_type<{kind}>" for kind in kinds)
    op = linalg.GenericOp(
        [output[0].value.type],
        [operand.value for operand, _ in reads],
        [output[0].value],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(_map(len(domain), exprs)) for _, exprs in operands]),
        ir.Attribute.parse(f"[{loops}]"),
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
    """Return an additional operand for the loops whose extents no other operand determines.

    linalg derives the extents of loops from the shapes of operands. The result is a list of at most
    one pair: an uninitialized tensor with the missing extents, and its index expressions. The list
    is empty if ``operands`` determine all extents of ``domain``.
    """
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
    """Return the broadcast shape of several shapes, by NumPy's rules."""
    return tuple(np.broadcast_shapes(*map(tuple, shapes)))


def broadcast_exprs(shape: Sequence[int], target: Sequence[int]) -> list[Expr]:
    """Return the index expressions that read a tensor of ``shape`` broadcast to ``target``."""
    offset = len(target) - len(shape)
    return [
        ZERO if size == 1 and target[offset + i] != 1 else offset + i
        for i, size in enumerate(shape)
    ]


def pointwise(
    body: Body, *operands: Operand, dtype: DType | None = None, shape: Sequence[int] | None = None
) -> Tensor:
    """Emit an elementwise operation on tensors, broadcast as by NumPy.

    Args:
        body: maps one scalar of each operand to the result's scalar.
        operands: tensors; or pairs of a tensor and, for each of its dimensions, an index
            expression of the result's dimensions.
        dtype: the result's dtype, by default that of the first operand.
        shape: the result's shape, by default the operands' broadcast shape.
    """
    plain = [t.shape for t in operands if isinstance(t, Tensor)]
    target = broadcast_shape(plain) if shape is None else tuple(shape)
    inputs = [
        (t, broadcast_exprs(t.shape, target)) if isinstance(t, Tensor) else t for t in operands
    ]
    kind = inputs[0][0].dtype if dtype is None else dtype
    sunk = sink(inputs, target)
    if sunk is not None:
        return reshape(_pointwise(body, sunk.operands, kind, sunk.shape), target)
    return _pointwise(body, inputs, kind, target)


def _pointwise(
    body: Body, inputs: Sequence[tuple[Tensor, Sequence[Expr]]], dtype: DType, shape: Sequence[int]
) -> Tensor:
    out = (empty(shape, dtype), range(len(shape)))
    return structured(shape, 0, inputs, out, body)


def indexed(shape: Sequence[int], dtype: DType, body: Callable[[list[Scalar]], Scalar]) -> Tensor:
    """Emit a tensor of ``shape``; ``body`` computes an element from its int64 indices."""
    out = empty(shape, dtype)

    def of_indices() -> Scalar:
        return body([index_value(linalg.IndexOp(number).result) for number in range(len(shape))])

    return structured(shape, 0, [], (out, range(len(shape))), of_indices)


def fetch(source: Tensor, indices: Sequence[Scalar]) -> Scalar:
    """Emit a read of an element of ``source`` in a body; the indices must be in range."""
    positions = [index.index() for index in indices]
    return Scalar(tensor.ExtractOp(source.value, positions).result, source.dtype)


class Reduced(NamedTuple):
    """A tensor reduced along some dimensions, usable as an operand of ``pointwise``.

    Attributes:
        tensor: the result, without the reduced dimensions.
        dims: for each dimension of ``tensor``, the index of that dimension before the reduction.
    """

    tensor: Tensor
    dims: list[int]

    def map(self, body: Body, dtype: DType | None = None) -> Reduced:
        """Emit ``body`` on each element of the reduced tensor.

        The result has ``dtype``, by default the dtype of ``tensor``.
        """
        return Reduced(pointwise(body, self.tensor, dtype=dtype), self.dims)

    def keepdims(self, rank: int) -> Tensor:
        """Emit the tensor reshaped so that it has the reduced dimensions, with size 1.

        ``rank`` is the rank before the reduction, which is also that of the result.
        """
        sizes = dict(zip(self.dims, self.tensor.shape, strict=True))
        return reshape(self.tensor, [sizes.get(axis, 1) for axis in range(rank)])


def reduce(
    body: Callable[[_S, _S], _S],
    source: Tensor,
    axes: Sequence[int],
    initial: float,
    dtype: DType | None = None,
) -> Reduced:
    """Emit the reduction of a tensor along some axes; the result does not have these axes.

    Args:
        body: maps an element and the accumulator to the new accumulator.
        source: the tensor to reduce.
        axes: the indices of the dimensions to reduce; if empty, ``body`` is applied once to each
            element and ``initial``.
        initial: the initial accumulator; also the result of a reduction without elements.
        dtype: the result's dtype, by default the source's.

    Returns:
        The reduced tensor, with the indices of the dimensions of ``source`` that are not reduced.
    """
    kept = [axis for axis in range(source.rank) if axis not in axes]
    if not axes:  # no reduction loop
        wide = source.dtype if dtype is None else dtype
        return Reduced(
            pointwise(lambda v: body(v, literal(initial, wide)), source, dtype=wide), kept
        )
    shape = [source.shape[axis] for axis in kept]
    sunk = sink_reduction(source, axes)
    if sunk is not None:
        before = reduce(body, sunk.source, sunk.axes, initial, dtype)
        return Reduced(reshape(before.tensor, shape), kept)
    order = [*kept, *axes]
    out = full(shape, initial, source.dtype if dtype is None else dtype)
    exprs = [order.index(axis) for axis in range(source.rank)]
    domain = [source.shape[axis] for axis in order]
    result = structured(domain, len(axes), [(source, exprs)], (out, range(len(kept))), body)
    return Reduced(result, kept)


def transpose(source: Tensor, order: Sequence[int]) -> Tensor:
    """Emit a transposition: dimension ``i`` of the result is ``order[i]`` of the source."""
    if list(order) == list(range(source.rank)):
        return source
    shape = [source.shape[axis] for axis in order]
    exprs = [list(order).index(axis) for axis in range(source.rank)]
    out = (empty(shape, source.dtype), range(source.rank))
    return structured(shape, 0, [(source, exprs)], out, lambda x: x)
