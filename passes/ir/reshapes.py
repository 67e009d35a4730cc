"""Finds which dimensions a reshape merges or splits."""

from __future__ import annotations

from rammer_mlir.bindings import ir

RESHAPES = frozenset({"tensor.collapse_shape", "tensor.expand_shape"})
"""Names of the operations that keep all elements in their row-major order."""


def reassociation(op: ir.OpView | ir.Operation) -> list[list[int]]:
    """Return the groups of dimensions that a ``tensor`` reshape splits or merges.

    A ``tensor.expand_shape`` splits a dimension into a group, and a ``tensor.collapse_shape``
    merges a group into a dimension. There is a group for each dimension of the tensor of lower
    rank; the group lists dimensions of the tensor of higher rank.
    """
    groups = ir.ArrayAttr(op.operation.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]
