"""Inlines calls of private functions."""

from __future__ import annotations

from collections.abc import Mapping

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into


def inline_calls(block: ir.Block, callees: Mapping[str, ir.OpView]) -> None:
    """Inline the block's calls of the functions in ``callees``, which maps names to functions.

    Calls in the bodies of the inlined functions remain.
    """
    for op in list(block.operations):
        if op.operation.name == "func.call":
            callee = callees.get(ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value)
            if callee is not None:
                inline_call(op.operation, callee)


def inline_call(call: ir.Operation, callee: ir.OpView) -> list[ir.Operation]:
    """Replace a call by clones of the operations of its callee, which has one block.

    Return the new operations in order.
    """
    block = callee.operation.regions[0].blocks[0]
    mapping: ValueMap = dict(zip(block.arguments, call.operands, strict=True))
    *operations, terminator = block.operations
    ip = ir.InsertionPoint(call)
    copies = [clone_into(op, mapping, ip) for op in operations]
    for old, value in zip(call.results, terminator.operation.operands, strict=True):
        old.replace_all_uses_with(mapping[value])
    call.erase()
    return copies
