"""Values that LLVM is to know nothing about."""

from __future__ import annotations

from typing import Any

from rammer_mlir.bindings import ir


def hide(value: Any, register: str) -> Any:
    """Take a value through a piece of assembly that does nothing, and return it anew.

    Args:
        value: of a type of the LLVM dialect.
        register: the kind of register that holds it, as a constraint of LLVM's inline assembly.
    """
    operation = ir.Operation.create(
        "llvm.inline_asm",
        results=[value.type],
        operands=[value],
        attributes={
            "asm_string": ir.StringAttr.get(""),
            "constraints": ir.StringAttr.get(f"={register},0"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    )
    return operation.result
