"""`rtask-inline-composites`: replaces calls of composites in regions by the composites' bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Pass
from rammer_mlir.passes.ir.entry import CODEGEN, COMPOSITE, functions, is_private, symbol_name
from rammer_mlir.passes.ir.inlining import inline_calls


@dataclass(frozen=True)
class InlineComposites(Pass):
    """Inline the calls of composites in regions, so that this compiler can compile the regions."""

    name: ClassVar[str] = "rtask-inline-composites"

    def run(self, module: ir.Module) -> None:
        """Inline calls of composites in the functions with ``rtask.codegen``, which are regions.

        Then erase the composites' functions.
        """
        private = [function for function in functions(module) if is_private(function)]
        composites = {
            symbol_name(function): function
            for function in private
            if COMPOSITE in function.operation.attributes
        }
        for function in private if composites else []:
            if CODEGEN in function.operation.attributes:
                inline_calls(function.operation.regions[0].blocks[0], composites)
        for function in composites.values():
            function.operation.erase()
