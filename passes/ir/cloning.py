"""Clones operations into another function, with replaced operands."""

from __future__ import annotations

from rammer_mlir.bindings import ir

ValueMap = dict[ir.Value, ir.Value]


def clone_into(op: ir.OpView, mapping: ValueMap, ip: ir.InsertionPoint) -> ir.Operation:
    """Clone ``op`` at ``ip``, with operands and captured values replaced; return the clone.

    ``mapping`` maps old values to new ones. The results of the clone are added to ``mapping``.
    """
    copy = op.operation.clone(ip=ip).operation
    rename_operands(copy, mapping)
    for old, new in zip(op.operation.results, copy.results, strict=True):
        mapping[old] = new
    return copy


def copy_module(module: ir.Module) -> ir.Module:
    """Return a copy of a module, in the same context."""
    copy = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        copy.operation.attributes[name] = module.operation.attributes[name]
    for op in module.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(copy.body))
    return copy


def rename_operands(op: ir.Operation, mapping: ValueMap) -> None:
    """Replace each operand that is a key of ``mapping``, in the operation and nested operations."""
    for index, operand in enumerate(op.operands):
        new = mapping.get(operand)
        if new is not None:
            op.operands[index] = new
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                rename_operands(inner.operation, mapping)
