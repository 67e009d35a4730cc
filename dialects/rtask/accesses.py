"""Reads and evaluates accesses of rKernels: the box of an argument that each rTask accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.diagnostics import Broken, attribute

_KEYS = "argument, offsets and sizes"


@dataclass(frozen=True)
class Access:
    """The box of an rKernel's argument that each rTask reads or writes.

    The box of rTask ``i`` is ``offsets(i) .. offsets(i) + sizes``, clipped to the argument's shape.

    Attributes:
        argument: the index of the argument, where 0 is the argument that follows the rTask's id.
        offsets: an affine map from the rTask's id to the box's first index in each dimension.
        sizes: the number of elements in each dimension, before the box is clipped.
    """

    argument: int
    offsets: ir.AffineMap
    sizes: tuple[int, ...]

    def boxes(
        self, num_rtasks: int, shape: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first index and the exclusive end of every rTask's box, per dimension.

        Both arrays have the shape (num_rtasks, rank). Boxes are clipped to ``shape``, the
        argument's shape.
        """
        ids = np.arange(num_rtasks, dtype=np.int64)
        columns = [evaluate(expr, ids) for expr in self.offsets.results]
        starts = np.stack(columns, axis=1) if columns else np.zeros((num_rtasks, 0), np.int64)
        ends = starts + np.asarray(self.sizes, np.int64)
        extents = np.asarray(shape, np.int64)
        return np.clip(starts, 0, extents), np.clip(ends, 0, extents)


def evaluate(expr: ir.AffineExpr, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Evaluate an affine expression in ``d0`` at every rTask id.

    ``ids`` and the result are int64 arrays of rank 1 and equal length; ``d0`` stands for the id.

    Raises:
        ValueError: if the expression contains a symbol, or a dimension other than ``d0``.
    """
    if isinstance(expr, ir.AffineConstantExpr):
        return np.full_like(ids, expr.value)
    if isinstance(expr, ir.AffineDimExpr) and expr.position == 0:
        return ids
    if not isinstance(expr, ir.AffineBinaryExpr):
        raise ValueError(f"affine expression of one dimension expected, got {expr}")
    left, right = evaluate(expr.lhs, ids), evaluate(expr.rhs, ids)
    if isinstance(expr, ir.AffineAddExpr):
        return left + right
    if isinstance(expr, ir.AffineMulExpr):
        return left * right
    if isinstance(expr, ir.AffineModExpr):
        return left % right
    if isinstance(expr, ir.AffineFloorDivExpr):
        return left // right
    # The only kind left is the division that rounds up.
    return -(-left // right)


def read_accesses(op: ir.Operation, key: str) -> list[Access]:
    """Return the accesses in the array attribute ``key`` of the ``rtask.kernel`` ``op``.

    Raises:
        Broken: if the attribute is missing, or an entry is not a dictionary with exactly the keys
            ``argument``, ``offsets`` and ``sizes``.
    """
    return [_read(op, key, entry) for entry in attribute(op, key, ir.ArrayAttr)]


def _read(op: ir.Operation, key: str, entry: ir.Attribute) -> Access:
    if not isinstance(entry, ir.DictAttr):
        raise Broken(op, f"dictionaries in {key}", entry, f"an access has {_KEYS}")
    found = {item.name: item.attr for item in entry}
    argument, offsets, sizes = (found.get(name) for name in ("argument", "offsets", "sizes"))
    if not (
        len(found) == 3
        and isinstance(argument, ir.IntegerAttr)
        and isinstance(offsets, ir.AffineMapAttr)
        and isinstance(sizes, ir.DenseI64ArrayAttr)
    ):
        names = ", ".join(found) or "nothing"
        raise Broken(
            op,
            f"an integer argument, an affine map offsets and array<i64> sizes in {key}",
            names,
            f"an access has {_KEYS}",
        )
    return Access(argument.value, offsets.value, tuple(sizes))
