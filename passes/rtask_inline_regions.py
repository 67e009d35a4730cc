"""`rtask-inline-regions`: replaces calls of regions by the regions' bodies.

This compiler, not a code generator, then compiles the operations of the bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.code_modules import erase_unused_modules
from rammer_mlir.passes.ir.entry import (
    CODEGEN,
    COMPOSITE,
    entry_block,
    functions,
    is_private,
    symbol_name,
)
from rammer_mlir.passes.ir.inlining import inline_calls
from rammer_mlir.passes.tiling.generated import GENERATED, generated_module


@dataclass(frozen=True)
class InlineRegions(Pass):
    """Inline the calls of regions; the compiler then chooses layouts and fuses operations itself.

    ``regions`` names functions with ``rtask.codegen``. If it is empty, all regions are inlined for
    which no code generator returned code. The pass must run directly after outlining and code
    generation.
    """

    name: ClassVar[str] = "rtask-inline-regions"
    takes: ClassVar[Form | None] = Form.TENSORS

    regions: tuple[str, ...] = ()

    def run(self, module: ir.Module) -> None:
        """Inline the calls of the selected regions and erase unused functions and code.

        Raises:
            OptionError: if ``regions`` names a function that is not a region.
        """
        known = {symbol_name(each): each for each in functions(module) if is_private(each)}
        outlined = {n: f for n, f in known.items() if CODEGEN in f.operation.attributes}
        for name in self.regions:
            if name not in outlined:
                raise OptionError(
                    f"'{self.name}': regions: expected functions with {CODEGEN}, "
                    f"{', '.join(outlined) or 'of which there is none'}, found '{name}'"
                )
        chosen = {n: f for n, f in outlined.items() if self._takes(n, f)}
        block = entry_block(module)
        inline_calls(block, chosen)
        inline_calls(block, {n: f for n, f in known.items() if COMPOSITE in f.operation.attributes})
        for function in chosen.values():
            function.operation.erase()
        _erase_unused(module, {n: f for n, f in known.items() if n not in chosen})

    def _takes(self, name: str, function: ir.OpView) -> bool:
        if self.regions:
            return name in self.regions
        return GENERATED not in function.operation.attributes


def _erase_unused(module: ir.Module, known: Mapping[str, ir.OpView]) -> None:
    """Erase composites that no region calls, and each ``rtask.module`` that no region refers to.

    ``known`` maps names to the module's private functions, except those of inlined regions.
    """
    regions = [f for f in known.values() if CODEGEN in f.operation.attributes]
    called = {name for region in regions for name in _callees(region)}
    for name, function in known.items():
        if COMPOSITE in function.operation.attributes and name not in called:
            function.operation.erase()
    used = (generated_module(region) for region in regions)
    erase_unused_modules(module, [name for name in used if name is not None])


def _callees(function: ir.OpView) -> Iterator[str]:
    for op in function.operation.regions[0].blocks[0].operations:
        if op.operation.name == "func.call":
            yield ir.FlatSymbolRefAttr(op.operation.attributes["callee"]).value
