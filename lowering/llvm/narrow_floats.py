"""Expands conversions of f16 and bf16, for processors without conversion instructions.

LLVM would call ``__extendhfsf2``, ``__truncsfhf2`` and similar functions of a compiler's runtime
library. A process that only loads rKernels does not have this library.
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
    """Replace each ``math.fma`` on f16 or bf16 by a ``math.fma`` on f32, with conversions.

    MLIR's pass that widens other math functions does not widen ``math.fma``, for which LLVM would
    call ``__truncdfhf2``. The result is rounded twice, so the last place of the narrow type can
    differ by one unit.
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

    No processor has a single instruction for such a conversion. The result of a truncation is
    rounded twice, so the last place of the narrow type can differ by one unit.
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

    The arithmetic has the same results as conversion instructions.
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

    The code shifts the exponent and mantissa bits to their positions in an f32, and multiplies the
    f32 by a power of two to correct the exponent's bias. The multiplication also normalizes
    denormal numbers, exactly.
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

    The code computes a result for denormals of f16, a result for normal numbers of f16, and a
    result for overflows, and selects one of the three.
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
