"""Writes the output of ``rammer-opt``: text, bytecode, LLVM IR or object code."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.cli.opt_tool.diagnostics import UNNAMED
from rammer_mlir.cli.opt_tool.inputs import name_locations
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.lowering.cpu.rtask_lower_to_cpu import object_of
from rammer_mlir.lowering.llvm.translation import to_llvm_ir


@dataclass(frozen=True)
class ModuleWriter:
    """Writes modules as the options request: as text, bytecode, LLVM IR or object code.

    Attributes:
        options: the options of the command line.
        name: the name of the tool's input, printed as the file name of locations.
    """

    options: argparse.Namespace
    name: str

    def text(self, module: ir.Module, *, is_verified: bool = False) -> str:
        """Return the module as MLIR text, printed as the options request.

        If ``is_verified`` is True, MLIR does not verify the module before printing.
        """
        options = self.options
        shows_locations = options.mlir_print_debuginfo or options.mlir_pretty_debuginfo
        if shows_locations and self.name != UNNAMED:
            name_locations(module, self.name)
        if options.print_rtask_segments:
            return dialects.portable_asm(module, enable_debug_info=shows_locations)
        flags: dict[str, Any] = {
            "enable_debug_info": shows_locations,
            "pretty_debug_info": options.mlir_pretty_debuginfo,
            "use_local_scope": options.mlir_print_local_scope,
            "use_name_loc_as_prefix": options.mlir_use_nameloc_as_prefix,
            "skip_regions": options.mlir_print_skip_regions,
            "large_elements_limit": options.mlir_elide_elementsattrs_if_larger,
            "large_resource_limit": options.mlir_elide_resource_strings_if_larger,
            "assume_verified": is_verified,
        }
        all_generic: bool = options.mlir_print_op_generic
        if all_generic or options.print_rtask_generic:
            generic: str = module.operation.get_asm(
                False, print_generic_op_form=all_generic, **flags
            )
            return generic
        return dialects.get_asm(module, **flags)

    def content(self, module: ir.Module) -> bytes:
        """Return the bytes of the output for a valid module.

        Raises:
            OptionError: if the version of bytecode is unknown.
            TargetError: if the module cannot be translated to LLVM IR, or compiled.
        """
        if self.options.emit_object:
            return object_of(module)
        if self.options.emit_llvm_ir:
            return to_llvm_ir(module).encode()
        if not self.options.emit_bytecode:
            return f"{self.text(module, is_verified=True).rstrip()}\n".encode()
        name_locations(module, self.name)
        return bytecode_of(module, self.options.emit_bytecode_version)


def bytecode_of(module: ir.Module, version: int | None = None) -> bytes:
    """Return a module's bytecode in format version ``version``, or in MLIR's newest for None.

    Raises:
        OptionError: if the version is unknown.
    """
    buffer = io.BytesIO()
    try:
        module.operation.write_bytecode(buffer, version)
    except (ValueError, ir.MLIRError) as error:
        found = " ".join(str(error).split())
        raise OptionError(f"--emit-bytecode-version: {version}: {found}") from error
    return buffer.getvalue()


def reproducible_text(module: ir.Module, name: str) -> str:
    """Return a module as text that has locations, and that MLIR can parse again.

    ``name`` is the name of the tool's input. It replaces the file name ``UNNAMED``, which MLIR
    gives to locations in text that it parsed from memory.
    """
    name_locations(module, name)
    return dialects.get_asm(module, enable_debug_info=True)


def check_roundtrip(module: ir.Module, new_context: Callable[[], ir.Context]) -> None:
    """Check that parsing the module's text and bytecode gives the same module.

    ``new_context`` creates a context; the text and the bytecode are each parsed in a new context,
    because MLIR would rename resources in the context of ``module``.

    Raises:
        PassError: with the first line that differs.
        MLIRError: if the text or bytecode cannot be parsed.
    """
    expected = dialects.get_asm(module, enable_debug_info=True)
    forms = {"text": expected, "bytecode": bytecode_of(module)}
    for form, written in forms.items():
        with new_context():
            found = dialects.get_asm(dialects.parse(written), enable_debug_info=True)
        if found == expected:
            continue
        pairs = zip(expected.splitlines(), found.splitlines(), strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), ("more lines", "fewer"))
        raise PassError(
            f"--verify-roundtrip: {form}: expected '{first[0].strip()}', found "
            f"'{first[1].strip()}': report it"
        )
