"""Lowers torch-mlir's dialect TMTensor: attention, scans, scatters, sorts and top-k."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.scatters import torch_scatter
from rammer_mlir.passes.legalization.static_results import before_casts
from rammer_mlir.passes.legalization.torch_attention import torch_attention
from rammer_mlir.passes.legalization.torch_scans import torch_scan
from rammer_mlir.passes.legalization.torch_sorts import torch_sort, torch_topk

_Rewrite = Callable[[ir.Operation, Sequence[ir.Value]], list[ir.Value] | None]

_REWRITES: dict[str, _Rewrite] = {
    "tm_tensor.attention": torch_attention,
    "tm_tensor.scan": torch_scan,
    "tm_tensor.scatter": torch_scatter,
    "tm_tensor.sort": torch_sort,
    "tm_tensor.topk": torch_topk,
}
"""The function that emits the replacement of an operation, by the operation's name.

The function is called with the operation and with the operands, cast to static shapes. It returns
the values that replace the results, or None if it does not support the operation.
"""


def lower_tm_tensor(module: ir.Module) -> bool:
    """Replace operations of TMTensor on static shapes by loops; return whether any was replaced.

    Operations with dynamic shapes, or without a lowering, remain unchanged.
    """
    has_changed = False
    for op in list(operations_named(module.operation, *_REWRITES)):
        # All at once: the operations' verifiers demand equal sizes, known or not.
        operands = [before_casts(value) for value in op.operands]
        if op.name == "tm_tensor.scatter":
            with ir.InsertionPoint(op), op.location:
                operands[:2] = _with_equal_counts(*operands[:2])
        if not all(ir.RankedTensorType(value.type).has_static_shape for value in operands):
            continue
        with ir.InsertionPoint(op), op.location:
            values = _REWRITES[op.name](op, operands)
            if values is None:
                continue
            pairs = zip(op.results, values, strict=True)
            replace(op, [_cast(value, result.type) for result, value in pairs])
        has_changed = True
    return has_changed


def _with_equal_counts(updates: ir.Value, indices: ir.Value) -> list[ir.Value]:
    """Return a scatter's updates and indices, cast to the same static size of dimension 0.

    Dimension 0 counts the updates. Canonicalization may have made its size static in only one of
    the tensors, which the operation's verifier would reject. If the size is static in both tensors
    or in none, they are returned unchanged.
    """
    kinds = [ir.RankedTensorType(value.type) for value in (updates, indices)]
    known = [kind.shape[0] for kind in kinds if not kind.is_dynamic_dim(0)]
    if len(known) != 1:
        return [updates, indices]
    shapes = [[known[0], *kind.shape[1:]] for kind in kinds]
    return [
        _cast(value, ir.RankedTensorType.get(shape, kind.element_type))
        for value, shape, kind in zip((updates, indices), shapes, kinds, strict=True)
    ]


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else tensor.CastOp(kind, value).result
