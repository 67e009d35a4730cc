"""Converts control flow in the bodies of linalg operations to selects (if-conversion)."""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.traversal import nested_operations, operations_named, replace
from rammer_mlir.passes.legalization.divisions import SIGNED, UNSIGNED
from rammer_mlir.passes.legalization.elementwise import index


def select_in_bodies(module: ir.Module) -> None:
    """Replace each ``scf.if`` in the body of a ``linalg.generic`` by both branches and selects.

    Inner ``scf.if`` operations are replaced before outer ones. The clones of both branches are
    always executed. To prevent traps, the clone of the branch that the condition excludes divides
    by 1 and reads tensors at index 0.
    """
    for generic in operations_named(module.operation, "linalg.generic"):
        for op in reversed(list(operations_named(generic, "scf.if"))):
            _select(op)


def _select(op: ir.Operation) -> None:
    condition = op.operands[0]
    with ir.InsertionPoint(op), op.location:
        taken = _branch(op, 0, condition)
        if not op.results:
            op.erase()
            return
        true = arith.ConstantOp(condition.type, 1).result
        other = _branch(op, 1, arith.xori(condition, true))
        pairs = zip(taken, other, strict=True)
        replace(op, [arith.select(condition, a, b) for a, b in pairs])


def _branch(op: ir.Operation, number: int, is_taken: ir.Value) -> list[ir.Value]:
    """Clone branch ``number`` of an ``scf.if`` so that the clone cannot trap; return its results.

    ``is_taken`` is true if the ``scf.if`` would execute the branch. If it is false, the clone
    divides by 1 and reads element 0 of tensors.
    """
    *inner, last = op.regions[number].blocks[0].operations
    mapping: ValueMap = {}
    for each in inner:
        copy = clone_into(each, mapping, ir.InsertionPoint.current)
        for found in (copy, *nested_operations(copy)):
            _guard(found, is_taken)
    return [mapping.get(value, value) for value in last.operation.operands]


def _guard(op: ir.Operation, is_taken: ir.Value) -> None:
    with ir.InsertionPoint(op), op.location:
        if op.name in SIGNED | UNSIGNED:
            one = arith.ConstantOp(op.operands[1].type, 1).result
            op.operands[1] = arith.select(is_taken, op.operands[1], one)
        elif op.name == "tensor.extract":
            for position in range(1, len(op.operands)):
                op.operands[position] = arith.select(is_taken, op.operands[position], index(0))
