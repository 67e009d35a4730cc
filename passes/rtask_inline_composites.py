"""`rtask-inline-composites`: regions hold operations again instead of calls of composites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, functions, is_private, symbol_name


@dataclass(frozen=True)
class InlineComposites(Pass):
    """Put composites in place of their calls, so that the host can compile their regions."""

    name: ClassVar[str] = "rtask-inline-composites"

    def run(self, module: ir.Module) -> None:
        """Rewrite functions with ``rtask.codegen``, and erase those with ``rtask.composite``."""
        private = [function for function in functions(module) if is_private(function)]
        composites = {
            symbol_name(function): function
            for function in private
            if COMPOSITE in function.operation.attributes
        }
        for function in private if composites else []:
            if CODEGEN in function.operation.attributes:
                _inline(function, composites)
        for function in composites.values():
            function.operation.erase()


def _inline(function: ir.OpView, composites: dict[str, ir.OpView]) -> None:
    for op in list(function.operation.regions[0].blocks[0].operations):
        operation = op.operation
        if operation.name != "func.call":
            continue
        composite = composites.get(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)
        if composite is not None:
            _replace(operation, composite)


def _replace(call: ir.Operation, composite: ir.OpView) -> None:
    block = composite.operation.regions[0].blocks[0]
    mapping: ValueMap = dict(zip(block.arguments, call.operands, strict=True))
    *operations, terminator = block.operations
    for op in operations:
        clone_into(op, mapping, ir.InsertionPoint(call))
    for old, value in zip(call.results, terminator.operation.operands, strict=True):
        old.replace_all_uses_with(mapping[value])
    call.erase()
