"""Constant folding of views and transposes of weights."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import (
    Structured,
    body_operations,
    is_generic,
    plain_dim,
    shape_of,
)
from rammer_mlir.passes.weights.derived import DerivedWeights

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def fold_views(block: ir.Block, weights: DerivedWeights) -> None:
    """Replace reshapes and transposes of weights in a block by derived weights."""
    for op in list(block.operations):
        operands = list(op.operation.operands)
        if not operands or operands[0] not in weights or len(op.operation.results) != 1:
            continue
        result = op.operation.results[0]
        if op.operation.name in _RESHAPES:
            new = weights.reshape(operands[0], shape_of(result))
        elif is_generic(op) and (permutation := _transpose_permutation(Structured(op))) is not None:
            new = weights.transpose(operands[0], permutation)
        else:
            continue
        result.replace_all_uses_with(new)
        op.operation.erase()


def _transpose_permutation(op: Structured) -> list[int] | None:
    """Return the permutation of a generic that only transposes its only input, else None."""
    if not op.is_elementwise or len(op.maps) != 2 or any(True for _ in body_operations(op.op)):
        return None
    block = op.op.operation.regions[0].blocks[0]
    yielded = list(block.operations)[-1].operation.operands[0]
    source = [plain_dim(expr) for expr in op.maps[0].results]
    target = [plain_dim(expr) for expr in op.maps[1].results]
    if (
        yielded != block.arguments[0]
        or None in source
        or sorted(map(str, source)) != sorted(map(str, target))
    ):
        return None
    return [source.index(dim) for dim in target]
