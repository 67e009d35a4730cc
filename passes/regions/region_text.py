"""Writes a region's function in MLIR's own dialects, for code generators that read MLIR."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.entry import COMPOSITE, functions, symbol_name
from rammer_mlir.passes.ir.inlining import inline_calls

_OWN = "rtask."
"""The prefix of this project's attribute names, which other tools do not know."""


def standalone(module: ir.Module, function: ir.OpView) -> ir.Module:
    """Return a module that contains only a public copy of a region's function.

    Composites are inlined; attributes of the rtask dialect are removed.
    """
    composites = {
        symbol_name(each): each
        for each in functions(module)
        if COMPOSITE in each.operation.attributes
    }
    with function.operation.context, ir.Location.unknown():
        made = ir.Module.create()
        copy = function.operation.clone(ip=ir.InsertionPoint(made.body)).operation
    if "sym_visibility" in copy.attributes:
        del copy.attributes["sym_visibility"]
    inline_calls(copy.regions[0].blocks[0], composites)
    _strip(copy)
    return made


def region_text(alone: ir.Module) -> str:
    """Return the MLIR text of ``alone``, a module from `standalone`, without source locations."""
    return alone.operation.get_asm(enable_debug_info=False, use_local_scope=True)


def _strip(op: ir.Operation) -> None:
    """Erase the rtask dialect's attributes of an operation and of its nested operations."""
    for name in [each for each in op.attributes if each.startswith(_OWN)]:
        del op.attributes[name]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _strip(inner.operation)
