"""Define the gradient rules of matrix products.

In the rules, ``dy`` is the gradient of the loss with respect to the product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.broadcasting import sum_to
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]


def matmul(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a and b in ``y = a @ b``: ``dy @ b^T`` and ``a^T @ dy``.

    ``dy`` is the gradient of y. Each gradient is summed over the batch dimensions along which its
    operand was broadcast. Operands of fewer than two dimensions are refused.
    """
    (dy,) = dys
    a, b = node.operand(0), node.operand(1)
    if min(len(a.shape), len(b.shape)) < 2:
        raise node.refuse("operands of two or more dimensions", f"{a.shape} and {b.shape}")
    assert dy is not None
    if len(b.shape) == 2:  # a single product of all rows, instead of a product per batch and a sum
        rows = math.prod(a.shape[:-1])
        flat, outer = (x if len(x.shape) == 2 else g.reshape(x, rows, x.shape[-1]) for x in (a, dy))
        da = g.op("MatMul", outer, _transposed(g, b))
        da = da if len(a.shape) == 2 else g.reshape(da, *a.shape)
        return [da, g.op("MatMul", _transposed(g, flat), outer)]
    da = g.op("MatMul", dy, _transposed(g, b))
    db = g.op("MatMul", _transposed(g, a), dy)
    return [sum_to(g, da, a.shape), sum_to(g, db, b.shape)]


def gemm(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of A, B and C in Gemm's ``alpha * A' @ B' + beta * C``.

    A' is the transpose of A if the attribute ``transA`` is set, else A. B' is the transpose of B if
    ``transB`` is set, else B. If the node has no C, only the gradients of A and B are returned.
    """
    (dy,) = dys
    assert dy is not None
    a, b = node.operand(0), node.operand(1)
    left = _transposed(g, a) if node.integer("transA", 0) else a
    right = _transposed(g, b) if node.integer("transB", 0) else b
    scaled = _scaled(g, dy, node.number("alpha", 1.0))
    da = g.op("MatMul", scaled, _transposed(g, right))
    db = g.op("MatMul", _transposed(g, left), scaled)
    found = [
        _transposed(g, da) if node.integer("transA", 0) else da,
        _transposed(g, db) if node.integer("transB", 0) else db,
    ]
    if len(node.inputs) > 2 and (c := node.inputs[2]) is not None:
        found.append(sum_to(g, _scaled(g, dy, node.number("beta", 1.0)), c.shape))
    return found


def _transposed(g: ExtendedGraph, x: Value) -> Value:
    order = [*range(len(x.shape))]
    order[-2:] = order[:-3:-1]
    return g.op("Transpose", x, perm=order)


def _scaled(g: ExtendedGraph, x: Value, factor: float) -> Value:
    return x if factor == 1 else g.op("Mul", x, g.scalar(factor, x))
