"""Guards integer divisions with operands that could trap and end the process.

In MLIR, a division by zero is undefined, and so is the least integer divided by -1; processors
raise a signal for both. With the guards, ``a / 0`` is ``a``, ``a rem 0`` is 0, and the least
integer divided by -1 is itself.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.traversal import constant_integer, nested_operations

SIGNED = frozenset({"arith.divsi", "arith.remsi", "arith.ceildivsi", "arith.floordivsi"})
UNSIGNED = frozenset({"arith.divui", "arith.remui", "arith.ceildivui"})

_INDEX_BITS = 64


def guard_divisions(module: ir.Module) -> None:
    """Replace the divisor of an integer division or remainder by 1 where the operation would trap.

    A select on the operands, emitted before the operation, makes this decision at run time.
    """
    for op in nested_operations(module.operation):
        if op.name in SIGNED | UNSIGNED and _may_trap(op.operands[1]):
            with ir.InsertionPoint(op), op.location:
                _guard(op)


def _may_trap(divisor: ir.Value) -> bool:
    if isinstance(divisor.type, ir.ShapedType):
        return False  # on tensors: not lowered to scalars, refused later
    owner = divisor.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.select":
        return False  # lowered StableHLO has guards already
    return constant_integer(divisor) in (None, 0, -1)


def _guard(op: ir.Operation) -> None:
    dividend, divisor = op.operands
    kind = divisor.type
    equal = arith.CmpIPredicate.eq

    def constant(value: int) -> ir.Value:
        return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, value)).result

    traps = arith.cmpi(equal, divisor, constant(0))
    width = kind.width if isinstance(kind, ir.IntegerType) else _INDEX_BITS
    if op.name in SIGNED and width > 1:
        is_least = arith.cmpi(equal, dividend, constant(-(1 << (width - 1))))
        is_minus_one = arith.cmpi(equal, divisor, constant(-1))
        traps = arith.ori(traps, arith.andi(is_least, is_minus_one))
    op.operands[1] = arith.select(traps, constant(1), divisor)
