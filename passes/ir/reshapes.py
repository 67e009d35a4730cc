"""Reshapes: views that merge or split dimensions."""

from __future__ import annotations

from rammer_mlir.bindings import ir

RESHAPES = frozenset({"tensor.collapse_shape", "tensor.expand_shape"})
"""Names of the operations that keep all elements in their row-major order."""


def reassociation(op: ir.OpView | ir.Operation) -> list[list[int]]:
    """Return the dimensions of a reshape's larger shape that form each of the smaller shape."""
    groups = ir.ArrayAttr(op.operation.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]
