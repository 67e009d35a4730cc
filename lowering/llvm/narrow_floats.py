"""Expands conversions of f16 and bf16, for processors without instructions for them.

LLVM would call ``__extendhfsf2``, ``__truncsfhf2`` and similar functions of a compiler's runtime
library, which a process that only loads kernels does not have.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir, math
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.floats import Bits, Float, element_type, shaped_like
from rammer_mlir.passes.ir.structured import element_bytes

_TWO_TO_112 = 5192296858534827628530496329220096.0  # the exponent biases differ by 112
_SMALLEST_NORMAL = 0x38800000  # 2**-14 as f32
_FIRST_INFINITE = 0x477FF000  # 65520 as f32: rounds to infinity
_HALF = 0x3F000000  # 0.5 as f32: the last place of numbers near it is f16's smallest number


def widen_multiply_add(module: ir.Module) -> None:
    """Replace each ``math.fma`` of f16 or bf16 by one of f32, with conversions.

    MLIR's pass that widens other functions skips it; LLVM would call ``__truncdfhf2``. The result
    is rounded twice, which can differ by one unit in the last place of the narrow type.
    """
    for operation in walk(module.operation):
        narrow = operation.result.type if operation.name == "math.fma" else None
        if narrow is None or element_bytes(element_type(narrow)) != 2:
            continue
        with ir.InsertionPoint(operation), operation.location:
            wide = shaped_like(narrow, ir.F32Type.get())
            found = math.fma(*(arith.extf(wide, value) for value in operation.operands))
            operation.result.replace_all_uses_with(arith.truncf(narrow, found))
        operation.erase()


def convert_through_f32(module: ir.Module) -> None:
    """Replace conversions between f64 and f16 or bf16 by two conversions, via f32.

    No processor has a single instruction for such a conversion. Rounding twice can differ by one
    unit in the last place of the narrow type.
    """
    for operation in walk(module.operation):
        if operation.name not in ("arith.extf", "arith.truncf"):
            continue
        source, target = operation.operands[0], operation.result
        sizes = {element_bytes(element_type(value.type)) for value in (source, target)}
        if sizes != {2, 8}:
            continue
        with ir.InsertionPoint(operation), operation.location:
            convert = arith.extf if operation.name == "arith.extf" else arith.truncf
            middle = convert(shaped_like(source.type, ir.F32Type.get()), source)
            operation.operands[0] = middle


def expand_half_conversions(module: ir.Module) -> None:
    """Replace conversions between f16 and f32 by arithmetic on i32 and f32, in place.

    The results are those of a processor's conversion instructions.
    """
    for operation in walk(module.operation):
        expansion = {"arith.extf": _extend, "arith.truncf": _truncate}.get(operation.name)
        if expansion is None:
            continue
        source, result = operation.operands[0], operation.result
        kinds = (element_type(source.type), element_type(result.type))
        if not any(isinstance(kind, ir.F16Type) for kind in kinds):
            continue
        with ir.InsertionPoint(operation), operation.location:
            value = expansion(source)
        result.replace_all_uses_with(value)
        operation.erase()


def _extend(half: ir.Value) -> ir.Value:
    """Emit the conversion of an f16 to f32.

    The exponent and mantissa bits are shifted to their places in an f32, which is then multiplied
    by a power of two to correct the exponent's bias; this also converts denormal numbers exactly.
    """
    shape = half.type
    short = arith.bitcast(shaped_like(shape, ir.IntegerType.get_signless(16)), half)
    bits = Bits(arith.extui(shaped_like(shape, ir.IntegerType.get_signless(32)), short))
    shifted = (bits & 0x7FFF) << 13
    finite = (shifted.as_float() * _TWO_TO_112).bits()
    infinite = shifted.exceeds(0x0F7FFFFF).choose(shifted + 0x70000000, finite)
    return (infinite + ((bits & 0x8000) << 16)).as_float().value


def _truncate(single: ir.Value) -> ir.Value:
    """Emit the conversion of an f32 to f16, rounded to nearest with ties to even.

    Small numbers, normal numbers and overflows are computed separately.
    """
    bits = Float(single).bits()
    size = bits & 0x7FFFFFFF
    normal = ((size + 0xFFF + ((size >> 13) & 1)) >> 13) - 0x1C000
    denormal = (size.as_float() + 0.5).bits() - _HALF
    result = size.exceeds(_SMALLEST_NORMAL - 1).choose(normal, denormal)
    result = size.exceeds(_FIRST_INFINITE - 1).choose(size.constant(0x7C00), result)
    quiet = ((size >> 13) & 0x3FF) | 0x7E00
    result = size.exceeds(0x7F800000).choose(quiet, result)
    signed = result + ((bits >> 16) & 0x8000)
    short = ir.IntegerType.get_signless(16)
    narrow = arith.trunci(shaped_like(single.type, short), signed.value)
    return arith.bitcast(shaped_like(single.type, ir.F16Type.get()), narrow)
