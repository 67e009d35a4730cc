"""Expands conversions of floats to integers, so that they are defined for every float.

LLVM's conversion of a number out of the integer type's range is poison, which may spread to
addresses, and processors differ: x86 gives the lowest integer, GPUs the nearest one.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir, math
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.floats import constant_like, element_type, shaped_like
from rammer_mlir.passes.ir.structured import constant_value, element_bytes

_SIGNED, _UNSIGNED = "arith.fptosi", "arith.fptoui"

_WITHIN = {
    "arith.maximumf": arith.CmpFPredicate.OGT,
    "arith.minimumf": arith.CmpFPredicate.OLT,
}
"""How a number compares that an operation does not limit, by operation; NaN never does."""


def expand_float_to_integer(module: ir.Module) -> None:
    """Define each conversion of a float to an integer of 64 bits at most, in place.

    The results for NaN and for numbers out of range are those of NumPy on x86-64:

    - For i32 and i64, the lowest integer.
    - For narrower integers, the low bits of an i32.
    - For unsigned integers of 32 and 64 bits, with half of the range in ``half``: a float from
      ``half`` on is ``half`` plus the conversion of the rest to a signed integer, modulo the range;
      other floats and NaN have the bits of the signed integer.

    If the float is clamped to constants within the range, only NaN is replaced, by one of them.
    """
    for operation in walk(module.operation):
        if operation.name not in (_SIGNED, _UNSIGNED) or _bits(operation) > 64:
            continue
        with ir.InsertionPoint(operation), operation.location:
            clamp = _clamp(operation)
            if clamp is not None:
                operation.operands[0] = _clamp_of_numbers(*clamp)
                continue
            value = _converted(operation)
        operation.result.replace_all_uses_with(value)
        operation.erase()


def _bits(operation: ir.Operation) -> int:
    return ir.IntegerType(element_type(operation.result.type)).width


def _clamp(operation: ir.Operation) -> tuple[ir.Operation, ir.Operation] | None:
    """Return the maximum and minimum, in order, that clamp the operand of a conversion.

    Return None unless they clamp it to constants within the integer's range.
    """
    last = _limit(operation.operands[0])
    first = None if last is None else _limit(last.operands[0])
    if last is None or first is None or last.name == first.name:
        return None
    bits = _bits(operation)
    lowest, count = (-(1 << (bits - 1)) if operation.name == _SIGNED else 0), 1 << bits
    limits = [_constant(limit.operands[1]) for limit in (first, last)]
    fits = all(limit is not None and 0 <= limit - lowest < count for limit in limits)
    return (first, last) if fits else None


def _limit(value: ir.Value) -> ir.Operation | None:
    """Return the maximum or minimum that defines ``value``; None if another operation does."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in _WITHIN:
        return None
    return owner.operation


def _constant(value: ir.Value) -> float | None:
    """Return the number of a scalar constant or of a splat vector; None for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.broadcast":
        return _constant(owner.operands[0])
    held = owner.attributes["value"] if owner.name == "arith.constant" else None
    if isinstance(held, ir.DenseElementsAttr) and held.is_splat:
        return ir.FloatAttr(held.get_splat_value()).value
    return constant_value(value)


def _clamp_of_numbers(first: ir.Operation, last: ir.Operation) -> ir.Value:
    """Emit a clamp again, whose result for NaN is a constant, in one x86 instruction per limit."""
    return _limited(last, _limited(first, first.operands[0]))


def _limited(operation: ir.Operation, number: ir.Value) -> ir.Value:
    limit = operation.operands[1]
    within = arith.cmpf(_WITHIN[operation.name], number, limit)
    return arith.select(within, number, limit)


def _converted(operation: ir.Operation) -> ir.Value:
    """Emit the conversion of the operand of ``operation``, which may be out of range."""
    number, kind = operation.operands[0], operation.result.type
    if element_bytes(element_type(number.type)) < 4:
        number = arith.extf(shaped_like(number.type, ir.F32Type.get()), number)
    bits = 32 if _bits(operation) <= 32 else 64
    if operation.name == _UNSIGNED and _bits(operation) == bits:
        return _unsigned(number, bits)
    wide = _signed(number, bits)
    return wide if wide.type == kind else arith.trunci(kind, wide)


def _signed(number: ir.Value, bits: int) -> ir.Value:
    """Emit the conversion to a signed integer; the lowest one for NaN and out of range."""
    half = _number(number, 2.0 ** (bits - 1))
    fits = arith.cmpf(arith.CmpFPredicate.OLT, math.absf(number), half)
    safe = arith.select(fits, number, arith.negf(half))
    return arith.fptosi(shaped_like(number.type, ir.IntegerType.get_signless(bits)), safe)


def _unsigned(number: ir.Value, bits: int) -> ir.Value:
    """Emit the conversion to an unsigned integer of 32 or 64 bits."""
    half = _number(number, 2.0 ** (bits - 1))
    is_large = arith.cmpf(arith.CmpFPredicate.OGE, number, half)
    rest = _signed(arith.select(is_large, arith.subf(number, half), number), bits)
    zero, sign = (
        constant_like(rest.type, ir.IntegerType.get_signless(bits), place)
        for place in (0, -(1 << (bits - 1)))
    )
    return arith.xori(rest, arith.select(is_large, sign, zero))


def _number(like: ir.Value, number: float) -> ir.Value:
    return constant_like(like.type, element_type(like.type), number)
