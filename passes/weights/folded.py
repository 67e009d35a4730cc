"""Folds reshapes and transposes of weights into the weights at compile time."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights


def fold_views(block: ir.Block, weights: DerivedWeights) -> None:
    """Replace reshapes and transposes of weights in a block by derived weights."""
    for op in list(block.operations):
        operands = list(op.operation.operands)
        if not operands or operands[0] not in weights or len(op.operation.results) != 1:
            continue
        result = op.operation.results[0]
        if op.operation.name in RESHAPES:
            new = weights.reshape(operands[0], shape_of(result))
        elif is_generic(op) and (permutation := Structured(op).permutation) is not None:
            new = weights.transpose(operands[0], permutation)
        else:
            continue
        result.replace_all_uses_with(new)
        op.operation.erase()
