"""Finds which dimensions a reshape merges or splits."""

from __future__ import annotations

from rammer_mlir.bindings import ir

RESHAPES = frozenset({"tensor.collapse_shape", "tensor.expand_shape"})
"""Names of the operations that keep all elements in their row-major order."""


def reassociation(op: ir.OpView | ir.Operation) -> list[list[int]]:
    """Return the groups of dimensions that a ``tensor.expand_shape`` splits or a collapse merges.

    There is a group for each dimension of the type of lower rank: the numbers of the corresponding
    dimensions of the type of higher rank.
    """
    groups = ir.ArrayAttr(op.operation.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]
