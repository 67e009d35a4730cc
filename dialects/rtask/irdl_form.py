"""Exports the dialect as IRDL, and modules as text that other tools can verify with this IRDL."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.mixed_types import write_segments

_MIXED = ("rtask.operator", "rtask.run")


def irdl_text() -> str:
    """Return the dialect's definition in IRDL.

    IRDL declares the operands, results, attributes and regions of an operation, but no traits. So a
    tool that loads only this definition rejects ``rtask.program`` and ``rtask.veu``, because their
    regions have no terminator. The rules of a schedule are checked by this package's verifiers
    only.
    """
    with ir.Context() as context, ir.Location.unknown(context):
        module: ir.Module = RTask._emit_module()  # type: ignore[attr-defined]
        return str(module)


def portable_asm(module: ir.Module, *, enable_debug_info: bool = False) -> str:
    """Return a module in the generic form, with ``operandSegmentSizes`` and ``resultSegmentSizes``.

    IRDL gives all values of an operand or result segment the same type, so each operand of an
    rOperator is a separate segment, and IRDL requires both attributes. The verifiers of this
    package remove the attributes; other tools need them in the text. If ``enable_debug_info``,
    locations are printed.
    """
    with module.context, ir.Location.unknown():
        copy = module.operation.clone(ip=False)

    def write(op: ir.Operation) -> ir.WalkResult:
        if op.name in _MIXED:
            write_segments(op)
        return ir.WalkResult.ADVANCE

    copy.operation.walk(write)
    # Verification would remove the sizes again.
    return copy.operation.get_asm(
        print_generic_op_form=True, enable_debug_info=enable_debug_info, assume_verified=True
    )
