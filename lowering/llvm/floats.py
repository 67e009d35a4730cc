"""Emits floating-point arithmetic, on scalars or vectors, through Python operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Self, TypeVar

from rammer_mlir.bindings import arith, ir

_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, left in the low bits

Number = TypeVar("Number", "Bits", "Float", "Double")


class Mask:
    """An i1 value, or a vector of i1, that selects between values in each lane."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def choose(self, when_true: Number, when_false: Number) -> Number:
        """Emit a selection: in each lane, ``when_true`` if the mask is set, else ``when_false``."""
        return type(when_true)(arith.select(self.value, when_true.value, when_false.value))


class Bits:
    """An i32 value or a vector of i32, such as the bit pattern of an f32."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def constant(self, number: int) -> Bits:
        """Emit the constant ``number``; a splat vector if this value is a vector."""
        return Bits(constant_like(self.value.type, ir.IntegerType.get_signless(32), number))

    def __add__(self, other: Bits | int) -> Bits:
        return Bits(arith.addi(self.value, self._lift(other)))

    def __sub__(self, other: Bits | int) -> Bits:
        return Bits(arith.subi(self.value, self._lift(other)))

    def __and__(self, other: Bits | int) -> Bits:
        return Bits(arith.andi(self.value, self._lift(other)))

    def __lshift__(self, places: int) -> Bits:
        return Bits(arith.shli(self.value, self._lift(places)))

    def __rshift__(self, places: int) -> Bits:
        """Emit an arithmetic shift by ``places`` bits."""
        return Bits(arith.shrsi(self.value, self._lift(places)))

    def __or__(self, other: Bits | int) -> Bits:
        return Bits(arith.ori(self.value, self._lift(other)))

    def __xor__(self, other: Bits | int) -> Bits:
        return Bits(arith.xori(self.value, self._lift(other)))

    def exceeds(self, number: int) -> Mask:
        """Emit the comparison ``self > number`` of signed integers."""
        return Mask(arith.cmpi(arith.CmpIPredicate.sgt, self.value, self._lift(number)))

    def as_float(self) -> Float:
        """Emit the bitcast to f32."""
        return Float(arith.bitcast(shaped_like(self.value.type, ir.F32Type.get()), self.value))

    def to_float(self) -> Float:
        """Emit the conversion of the signed integer to f32."""
        return Float(arith.sitofp(shaped_like(self.value.type, ir.F32Type.get()), self.value))

    def _lift(self, other: Bits | int) -> ir.Value:
        return other.value if isinstance(other, Bits) else self.constant(other).value


class Real:
    """The base class of floating-point values, scalars or vectors, with Python operators.

    An operator emits the operation of the arith dialect; a subclass determines the element type.
    """

    fastmath: ClassVar[object] = None
    """The fast-math flags of sums, differences and products."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    @staticmethod
    def element() -> ir.Type:
        """Return the type of a scalar of this class, or of an element of a vector."""
        raise NotImplementedError

    def constant(self, number: float) -> Self:
        """Emit the constant ``number``; a splat vector if this value is a vector."""
        return type(self)(constant_like(self.value.type, self.element(), number))

    def __add__(self, other: Self | float) -> Self:
        return type(self)(arith.addf(self.value, self._lift(other), fastmath=self.fastmath))

    def __sub__(self, other: Self | float) -> Self:
        return type(self)(arith.subf(self.value, self._lift(other), fastmath=self.fastmath))

    def __mul__(self, other: Self | float) -> Self:
        return type(self)(arith.mulf(self.value, self._lift(other), fastmath=self.fastmath))

    def __truediv__(self, other: Self | float) -> Self:
        return type(self)(arith.divf(self.value, self._lift(other)))

    def __lt__(self, other: Self | float) -> Mask:
        return self._compare(arith.CmpFPredicate.OLT, other)

    def __gt__(self, other: Self | float) -> Mask:
        return self._compare(arith.CmpFPredicate.OGT, other)

    def equals(self, other: Self | float) -> Mask:
        """Emit the comparison for equality; the result is false if an operand is NaN."""
        return self._compare(arith.CmpFPredicate.OEQ, other)

    def polynomial(self, coefficients: Sequence[float]) -> Self:
        """Emit a polynomial of this value, by Horner's rule.

        The first coefficient belongs to power 0.
        """
        *rest, highest = coefficients
        total = self.constant(highest)
        for coefficient in reversed(rest):
            total = total * self + coefficient
        return total

    def _compare(self, predicate: object, other: Self | float) -> Mask:
        return Mask(arith.cmpf(predicate, self.value, self._lift(other)))

    def _lift(self, other: Self | float) -> ir.Value:
        return other.value if isinstance(other, Real) else self.constant(other).value


class Float(Real):
    """An f32 value or a vector of f32.

    LLVM may contract a multiplication and an addition of such values to an fma.
    """

    fastmath = arith.FastMathFlags.contract

    @staticmethod
    def element() -> ir.Type:
        """Return f32."""
        return ir.F32Type.get()

    def __neg__(self) -> Float:
        return Float(arith.negf(self.value))

    def absolute(self) -> Float:
        """Emit the absolute value: the value with the sign bit cleared."""
        return (self.bits() & 0x7FFFFFFF).as_float()

    def clamp(self, low: float, high: float) -> Float:
        """Emit the nearest value from ``low`` to ``high``; a NaN stays a NaN."""
        return (self < low).choose(self.constant(low), self).at_most(high)

    def at_most(self, high: float) -> Float:
        """Emit the smaller of this value and ``high``; a NaN stays a NaN."""
        return (self > high).choose(self.constant(high), self)

    def bits(self) -> Bits:
        """Emit the bitcast to i32."""
        integer = ir.IntegerType.get_signless(32)
        return Bits(arith.bitcast(shaped_like(self.value.type, integer), self.value))


class Double(Real):
    """An f64 value or a vector of f64."""

    @staticmethod
    def element() -> ir.Type:
        """Return f64."""
        return ir.F64Type.get()

    @staticmethod
    def of(x: Float) -> Double:
        """Emit the exact conversion of an f32 to f64."""
        return Double(arith.extf(shaped_like(x.value.type, ir.F64Type.get()), x.value))

    def rounded(self) -> Double:
        """Emit the nearest integer, as an f64; this value must be less than 2**51 in magnitude."""
        # Correct only without fast-math flags: reassociation would cancel the two additions.
        return self + _ROUND - _ROUND

    def low_bits(self) -> Bits:
        """Emit the conversion of this value to an integer modulo 2**32.

        This value must be a result of ``rounded``: a whole number of magnitude less than 2**51.
        """
        wide, narrow = (
            shaped_like(self.value.type, ir.IntegerType.get_signless(bits)) for bits in (64, 32)
        )
        return Bits(arith.trunci(narrow, arith.bitcast(wide, (self + _ROUND).value)))

    def single(self) -> Float:
        """Emit the conversion to f32, rounded to nearest."""
        return Float(arith.truncf(shaped_like(self.value.type, ir.F32Type.get()), self.value))


def expand(operation: ir.Operation, expansion: Callable[..., Float]) -> None:
    """Replace an operation by the result of ``expansion``, called with the operation's operands.

    ``expansion`` takes the operands as ``Float``, and emits the code that computes the result.
    Operands narrower than f32 are extended to f32, and the result is then truncated to the
    operation's type.
    """
    kind = operation.results[0].type
    is_narrow = not isinstance(element_type(kind), ir.F32Type)
    with ir.InsertionPoint(operation), operation.location:
        single = shaped_like(kind, ir.F32Type.get())
        operands = [arith.extf(single, v) if is_narrow else v for v in operation.operands]
        result = expansion(*map(Float, operands)).value
        result = arith.truncf(kind, result) if is_narrow else result
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def element_type(kind: ir.Type) -> ir.Type:
    """Return the element type of a vector type; return other types unchanged."""
    return kind.element_type if isinstance(kind, ir.VectorType) else kind


def shaped_like(shape: ir.Type, element: ir.Type) -> ir.Type:
    """Return the scalar type ``element``, or a vector type of it if ``shape`` is a vector type.

    The vector type has the shape of ``shape``.
    """
    if isinstance(shape, ir.VectorType):
        return ir.VectorType.get(shape.shape, element)
    return element


def constant_like(shape: ir.Type, element: ir.Type, number: float) -> ir.Value:
    """Emit the constant ``number`` of type ``element``.

    If ``shape`` is a vector type, emit a splat vector of that shape instead.
    """
    kind = shaped_like(shape, element)
    attribute: ir.Attribute = (
        ir.FloatAttr.get(element, number)
        if isinstance(element, ir.FloatType)
        else ir.IntegerAttr.get(element, int(number))
    )
    if isinstance(kind, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
    return arith.constant(kind, attribute)
