"""Emits optimization barriers for LLVM: opaque copies through empty inline assembly."""

from __future__ import annotations

from rammer_mlir.bindings import ir


def opaque_copy(value: ir.Value, register: str) -> ir.OpResult:
    """Emit a copy of a value; LLVM cannot derive anything about the copy from the value.

    Args:
        value: the value, of a type of the LLVM dialect.
        register: the register class, as a constraint of LLVM's inline assembly.
    """
    return ir.Operation.create(
        "llvm.inline_asm",
        results=[value.type],
        operands=[value],
        attributes={
            "asm_string": ir.StringAttr.get(""),
            "constraints": ir.StringAttr.get(f"={register},0"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    ).result
