"""The dialect as IRDL, and modules in a form that tools verify which have nothing but that."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.dialect import RTask
from rammer_mlir.dialects.rtask.mixed_types import write_segments

_MIXED = ("rtask.operator", "rtask.run")


def irdl_text() -> str:
    """Return the dialect's definition in IRDL.

    IRDL says which operands, results, attributes and regions an operation has. It knows no traits:
    a tool that has it from there alone refuses ``rtask.program`` and ``rtask.veu``, whose regions
    end without a terminator. The rules of the schedule are those of our verifiers alone.
    """
    with ir.Context() as context, ir.Location.unknown(context):
        module: ir.Module = RTask._emit_module()  # type: ignore[attr-defined]
        return str(module)


def portable_asm(module: ir.Module, *, enable_debug_info: bool = False) -> str:
    """Return a module in the generic form, with the sizes of operand and result groups.

    IRDL gives all values of a group one type, so that each operand of an rOperator is a group of
    its own, and asks for their sizes. Our verifiers hide them; other tools need them written.
    """
    with module.context, ir.Location.unknown():
        copy = module.operation.clone(ip=False)

    def write(op: ir.Operation) -> ir.WalkResult:
        if op.name in _MIXED:
            write_segments(op)
        return ir.WalkResult.ADVANCE

    copy.operation.walk(write)
    # Verifying would take the sizes away again.
    return copy.operation.get_asm(
        print_generic_op_form=True, enable_debug_info=enable_debug_info, assume_verified=True
    )
