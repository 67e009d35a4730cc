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
        if op.name in SIGNED | UNSIGNED and _may_trap(op):
            with ir.InsertionPoint(op), op.location:
                _guard(op)


def _may_trap(op: ir.Operation) -> bool:
    divisor = op.operands[1]
    if isinstance(divisor.type, ir.ShapedType):
        return False  # on tensors: not lowered to scalars, refused later
    return constant_integer(divisor) in (None, 0, -1) and not _is_guarded(op)


def _is_guarded(op: ir.Operation) -> bool:
    """Whether the divisor is already replaced by 1 where the operation would trap.

    The front end for ONNX and the lowering of StableHLO emit such guards: a select of 1 if the
    divisor is 0, or, in a signed operation, if it is -1 and the dividend is the least integer.
    """
    select = _defining(op.operands[1], "arith.select")
    if select is None or constant_integer(select.operands[1]) != 1:
        return False
    condition, _, divisor = select.operands
    if _compares(condition, divisor, 0):
        return op.name in UNSIGNED
    either = _defining(condition, "arith.ori")
    if either is None or not any(_compares(value, divisor, 0) for value in either.operands):
        return False
    both = (_defining(value, "arith.andi") for value in either.operands)
    conditions = (value for each in (either, *both) if each is not None for value in each.operands)
    return any(_compares(value, divisor, -1) for value in conditions)


def _defining(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) or owner.name != name else owner.operation


def _compares(condition: ir.Value, value: ir.Value, number: int) -> bool:
    """Whether ``condition`` compares ``value`` with the constant ``number`` for equality."""
    op = _defining(condition, "arith.cmpi")
    if op is None or arith.CmpIPredicate.eq != ir.IntegerAttr(op.attributes["predicate"]).value:
        return False
    left, right = op.operands
    pairs = ((left, right), (right, left))
    return any(a == value and constant_integer(b) == number for a, b in pairs)


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
