"""`rtask-distribute-activations`: applies activation functions before concatenations, not after."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.fusion.grouping import CONCAT
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.fills import is_fresh
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of


@dataclass(frozen=True)
class DistributeActivations(Pass):
    """Apply an elementwise function to the operands of a concatenation instead of to its result.

    The producers of the operands then apply the function to values in registers, which saves a read
    and a write of the result. A function is moved only if no other operation reads the
    concatenation's result, and if more than half of the result's elements come from operands that
    only the concatenation reads.
    """

    name: ClassVar[str] = "rtask-distribute-activations"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Move elementwise operations from a concatenation's result to its operands."""
        for op in list(entry_block(module).operations):
            # Most operations read no concatenation, which takes less time to find out.
            if is_generic(op) and any(map(_concatenation, op.operation.operands)):
                whole = _only_tensor(Structured(op))
                concat = None if whole is None else _concatenation(whole)
                if concat is not None and _pays(concat):
                    _distribute(op.operation, concat)


def _concatenation(value: ir.Value) -> ir.Operation | None:
    """Return the concatenation whose result is ``value``; None if no concatenation computes it."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != CONCAT else owner.operation


def _only_tensor(op: Structured) -> ir.Value | None:
    """Return the only tensor of rank 1 or higher that an elementwise operation reads.

    The operation has to compute each element of its only result from the tensor's element at the
    same index, and from scalars. Return None for any other operation.
    """
    if op.num_outputs != 1 or not op.is_elementwise or op.uses_index:
        return None
    if op.reads_output(0) or not is_fresh(op.outputs[0]):
        return None
    tensors = [value for value in op.inputs if shape_of(value)]
    captured = any(isinstance(value.type, ir.RankedTensorType) for value in op.captures)
    if len(tensors) != 1 or captured:
        return None
    same = list(range(len(op.parallel)))
    whole = [
        m for m, value in zip(op.maps, op.op.operation.operands, strict=True) if shape_of(value)
    ]
    alike = all([plain_dim(expr) for expr in map_.results] == same for map_ in whole)
    return tensors[0] if alike else None


def _pays(concat: ir.Operation) -> bool:
    """Whether moving an elementwise operation before a concatenation pays.

    It pays if the concatenation's result has a single use, and if more than half of the result's
    elements come from operands that a ``linalg.generic`` computes and only the concatenation reads.
    """
    if not _is_read_once(concat.results[0]):
        return False
    alone = [v for v in concat.operands if _is_read_once(v) and _is_computed(v)]
    return 2 * sum(_elements(v) for v in alone) > _elements(concat.results[0])


def _is_read_once(value: ir.Value) -> bool:
    return sum(1 for _ in value.uses) == 1


def _is_computed(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and is_generic(value.owner.opview)


def _elements(value: ir.Value) -> int:
    return prod(shape_of(value))


def _distribute(op: ir.Operation, concat: ir.Operation) -> None:
    (whole,) = concat.results
    kind = ir.RankedTensorType(op.results[0].type)
    parts: list[ir.Value] = []
    with ir.InsertionPoint(op), op.location:
        for part in concat.operands:
            out = tensor.EmptyOp(shape_of(part), kind.element_type).result
            copy = op.clone().operation
            for number, value in enumerate(op.operands):
                if value == whole:
                    copy.operands[number] = part
            copy.operands[len(copy.operands) - 1] = out
            copy.results[0].set_type(out.type)
            parts.append(copy.results[0])
        joined = tensor.ConcatOp(kind, concat.attributes["dim"], parts).result
    op.results[0].replace_all_uses_with(joined)
    op.erase()
    concat.erase()
