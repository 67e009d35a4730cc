"""Builds Det: determinants by Gaussian elimination, unrolled over the rows of a matrix."""

from __future__ import annotations

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.indexing import here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.structured import fetch, structured
from rammer_mlir.frontends.onnx.builders.values import Tensor, empty
from rammer_mlir.passes.ir.scalar import INT64, Scalar, literal

_LARGEST = 8
"""Largest number of rows of a matrix for unrolled elimination.

The number of elimination steps is about a third of the cube of the number of rows.
"""


def determinant(node: Node) -> Tensor:
    """Emit Det, and return the determinants of the input's matrices.

    Raises:
        UnsupportedError: if the matrices have more than ``_LARGEST`` rows.
    """
    x = node.tensor(0)
    size = x.shape[-1]
    if size > _LARGEST:
        raise node.unsupported(f"matrices of {size} rows: expected at most {_LARGEST}")
    kind = computing_type(x.dtype)
    shape = x.shape[:-2]

    def body() -> Scalar:
        place = [here(axis) for axis in range(len(shape))]
        rows = [
            [
                fetch(x, [*place, literal(i, INT64), literal(j, INT64)]).cast(kind)
                for j in range(size)
            ]
            for i in range(size)
        ]
        return (_eliminate(rows) if rows else literal(1, kind)).cast(x.dtype)

    return structured(shape, 0, [], (empty(shape, x.dtype), range(len(shape))), body)


def _eliminate(rows: list[list[Scalar]]) -> Scalar:
    """Emit the determinant of a square matrix, by elimination with partial pivoting; return it.

    The matrix has at least one row. ``rows[i][j]`` is the element in row i and column j. The
    elimination changes ``rows``.
    """
    size = len(rows)
    result = rows[0][0]
    for column in range(size):
        for other in range(column + 1, size):
            _swap_larger(rows, column, other)
        pivot = rows[column][column]
        result = result * pivot if column else pivot
        is_zero = pivot.compare("eq", 0.0)
        for other in range(column + 1, size):
            ratio = rows[other][column] / pivot
            ratio = is_zero.select(literal(0, pivot.dtype), ratio)
            rows[other] = [a - ratio * b for a, b in zip(rows[other], rows[column], strict=True)]
    return result


def _swap_larger(rows: list[list[Scalar]], upper: int, lower: int) -> None:
    """Emit a swap of rows ``upper`` and ``lower``, executed if row ``lower`` has the larger pivot.

    A row's pivot is its element in column ``upper``; magnitudes are compared. A swap changes the
    determinant's sign, so the row that moves down is negated to restore the sign.
    """
    first, second = rows[upper], rows[lower]
    left, right = (row[upper].apply(math.AbsFOp) for row in (first, second))
    larger = right.compare("gt", left)
    rows[upper] = [larger.select(b, a) for a, b in zip(first, second, strict=True)]
    rows[lower] = [larger.select(-a, b) for a, b in zip(first, second, strict=True)]


BUILDERS: dict[str, Builder] = {"Det": determinant}
