"""Builds matrix products: MatMul, Gemm and MatMulInteger."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import (
    broadcast_exprs,
    pointwise,
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
    full,
)
from rammer_mlir.frontends.onnx.builders.views import (
    reshape,
)
from rammer_mlir.passes.ir.scalar import F32, DType, Scalar, is_float

INT32 = np.dtype(np.int32)


def accumulator(dtype: DType) -> DType:
    """Return the dtype of sums of products: f32 for 16-bit floats, else ``dtype``."""
    return F32 if is_float(dtype) and dtype.itemsize == 2 else dtype


def contract(
    domain: Sequence[int],
    reductions: int,
    left: tuple[Tensor, Sequence[Expr]],
    right: tuple[Tensor, Sequence[Expr]],
    dtype: DType,
) -> Tensor:
    """Emit the contraction of two tensors over the last ``reductions`` loops.

    The other loops index the result.

    Args:
        domain: extents of all loops.
        reductions: number of reduction loops.
        left: a tensor, and for each of its dimensions the index as an expression of the loops.
        right: the second tensor, with an index expression for each of its dimensions.
        dtype: element type of the result and of the arithmetic.
    """
    kept = len(domain) - reductions
    out = full(domain[:kept], 0, dtype)

    def body(x: Scalar, y: Scalar, total: Scalar) -> Scalar:
        return total + x.cast(dtype) * y.cast(dtype)

    return structured(domain, reductions, [left, right], (out, range(kept)), body)


def multiply(a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    """Emit NumPy's ``a @ b``, accumulated in ``dtype``."""
    shape = _product_shape(a.shape, b.shape)
    if a.rank == 1:
        a = reshape(a, (1, *a.shape))
    if b.rank == 1:
        b = reshape(b, (*b.shape, 1))
    if prod(b.shape[:-2]) == 1:
        # The right operand is shared by all rows, so a single product suffices.
        rows = reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
        return reshape(_product(rows, reshape(b, b.shape[-2:]), dtype), shape)
    return reshape(_product(a, b, dtype), shape)


def _product_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of NumPy's ``a @ b`` for operands of shapes ``a`` and ``b``.

    A vector contributes no dimension to the result.
    """
    batch = np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2]))
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _product(a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n = len(batch)
    m, k, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    left = [*broadcast_exprs(a.shape[:-2], batch), n, n + 2]
    right = [*broadcast_exprs(b.shape[:-2], batch), n + 2, n + 1]
    return contract([*batch, m, columns, k], 1, (a, left), (b, right), dtype)


def converted(x: Tensor, dtype: DType) -> Tensor:
    """Emit the conversion of ``x`` to ``dtype``; return ``x`` if it has this dtype."""
    return x if x.dtype == dtype else pointwise(lambda v: v.cast(dtype), x, dtype=dtype)


def matmul(node: Node) -> Tensor:
    """Emit MatMul; return the product, in the dtype of the left operand."""
    a, b = node.tensor(0), node.tensor(1)
    return converted(multiply(a, b, accumulator(a.dtype)), a.dtype)


def gemm(node: Node) -> Tensor:
    """Emit Gemm: ``alpha * A' * B' + beta * C``; A' and B' are A and B, or their transposes."""
    a, b = node.tensor(0), node.tensor(1)
    left = [2, 0] if node.attribute("transA", 0) else [0, 2]
    right = [1, 2] if node.attribute("transB", 0) else [2, 1]
    m, k = (a.shape[left.index(loop)] for loop in (0, 2))
    n = b.shape[right.index(1)]
    kind = accumulator(a.dtype)
    product = contract([m, n, k], 1, (a, left), (b, right), kind)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    has_shift = node.has(2) and beta != 0
    if not has_shift and alpha == 1:
        return converted(product, a.dtype)

    def body(p: Scalar, *rest: Scalar) -> Scalar:
        y = p if alpha == 1 else _scaled(p, alpha)
        if has_shift:
            shift = rest[0].cast(kind)
            y = y + (shift if beta == 1 else _scaled(shift, beta))
        return y.cast(a.dtype)

    rest = [node.tensor(2)] if has_shift else []
    return pointwise(body, product, *rest, dtype=a.dtype)


def _scaled(x: Scalar, factor: float) -> Scalar:
    if is_float(x.dtype):
        return x * factor
    return (x.cast(F32) * factor).cast(x.dtype)


def matmul_integer(node: Node) -> Tensor:
    """Emit MatMulInteger: subtract the zero points from 8-bit matrices, and multiply in int32."""
    a, b = node.tensor(0), node.tensor(1)
    if node.has(2):
        a = shifted(a, node.tensor(2), a.rank - 2)
    if node.has(3):
        b = shifted(b, node.tensor(3), b.rank - 1)
    return multiply(a, b, INT32)


def shifted(x: Tensor, zero: Tensor, axis: int) -> Tensor:
    """Emit ``x`` minus its zero point, in int32.

    ``zero`` is a scalar, or a vector with a zero point for each index of dimension ``axis``.
    """
    if zero.rank == 1 and zero.size == 1:
        zero = reshape(zero, ())
    operand = (zero, [axis]) if zero.rank == 1 else zero
    return pointwise(
        lambda v, z: v.cast(INT32) - z.cast(INT32), x, operand, dtype=INT32, shape=x.shape
    )


BUILDERS: dict[str, Builder] = {
    "Gemm": gemm,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
}
