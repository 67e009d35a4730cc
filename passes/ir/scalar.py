"""Emits scalar arithmetic in the bodies of generics, on values with a NumPy dtype.

The dtype tells whether an integer is signed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeVar

import ml_dtypes
import numpy as np

from rammer_mlir.bindings import arith, ir, math
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.passes.ir.byte_formats import (
    DType,
    in_bytes,
    integer_bits,
    is_signed_integer,
)

BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)
INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)
UINT8, UINT32 = np.dtype(np.uint8), np.dtype(np.uint32)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
BF16: DType = np.dtype(ml_dtypes.bfloat16)
_FLOATS = {F16: ir.F16Type, BF16: ir.BF16Type, F32: ir.F32Type, F64: ir.F64Type}


UNSPECIFIED_NAN = "rtask.unspecified_nan"
"""Attribute of ``arith.maximumf``: any result is right if an operand is NaN."""


class ElementTypeError(TypeError):
    """An error: the compiler has no arithmetic on an element type, such as int4.

    The message names no location in the model.
    """


Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge"]


def is_float(dtype: DType) -> bool:
    """Whether a dtype is f16, bf16, f32 or f64: the floats on which ``Scalar`` emits arithmetic."""
    return dtype in _FLOATS


def is_signed(dtype: DType) -> bool:
    """Whether a dtype is a signed integer."""
    return is_signed_integer(dtype)


def element_type(dtype: DType) -> ir.Type:
    """Return the signless MLIR type of a NumPy dtype.

    Raises:
        UnsupportedError: for complex numbers and strings.
    """
    if dtype in _FLOATS:
        return _FLOATS[dtype].get()
    if dtype == BOOL:
        return ir.IntegerType.get_signless(1)
    if dtype.kind in "iu" or in_bytes(dtype):
        return ir.IntegerType.get_signless(8 * dtype.itemsize)
    raise UnsupportedError(f"element type {dtype} is not supported: expected a real number")


def literal_attribute(value: float, dtype: DType) -> ir.Attribute:
    """Return ``value`` as an MLIR attribute of the signless type of ``dtype``.

    Raises:
        UnsupportedError: for a dtype without an MLIR type, such as a complex one.
    """
    kind = element_type(dtype)
    if is_float(dtype):
        return ir.FloatAttr.get(kind, float(value))
    if in_bytes(dtype):
        value = int(np.array(value).astype(dtype).view(np.uint8).item())
        return ir.IntegerAttr.get(kind, _signed(value, UINT8))
    return ir.IntegerAttr.get(kind, _signed(int(value), dtype))


def literal(value: float, dtype: DType) -> Scalar:
    """Emit a constant ``value`` of the NumPy type ``dtype``, and return it."""
    attribute = literal_attribute(value, dtype)
    return Scalar(arith.ConstantOp(element_type(dtype), attribute).result, dtype)


def _signed(value: int, dtype: DType) -> int:
    """Return the signed integer with the same bits as the unsigned integer ``value``.

    ``dtype`` is the type of ``value``. MLIR's integer attributes require signed integers.
    """
    bits = 1 if dtype == BOOL else 8 * dtype.itemsize
    return value - (1 << bits) if value >= 1 << (bits - 1) and dtype != BOOL else value


def integer_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type."""
    if dtype == BOOL:
        return 0, 1
    bits = integer_bits(dtype)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def lowest(dtype: DType) -> float:
    """Return the least value of a type: minus infinity for floats."""
    return float("-inf") if is_float(dtype) else integer_limits(dtype)[0]


def highest(dtype: DType) -> float:
    """Return the largest value of a type: infinity for floats."""
    return float("inf") if is_float(dtype) else integer_limits(dtype)[1]


_Operation = TypeVar("_Operation")
_Binary = Callable[[ir.Value, ir.Value], ir.OpView]
_Conversion = Callable[[ir.Type, ir.Value], ir.OpView]


@dataclass(frozen=True)
class Scalar:
    """A scalar SSA value of a generic's body, with operators that emit arithmetic.

    Attributes:
        value: the SSA value.
        dtype: the NumPy type of the value, which tells whether an integer is signed: MLIR's
            integers are signless.
    """

    value: ir.Value
    dtype: DType

    def _binary(self, other: Scalar | float, of_float: _Binary, of_int: _Binary) -> Scalar:
        right = self._like(other)
        self._require_arithmetic()
        make = of_float if is_float(self.dtype) else of_int
        return Scalar(make(self.value, right.value).result, self.dtype)

    def _like(self, other: Scalar | float) -> Scalar:
        if isinstance(other, Scalar):
            assert other.dtype == self.dtype, f"{self.dtype} and {other.dtype}"
            return other
        return literal(other, self.dtype)

    def _require_arithmetic(self) -> None:
        if in_bytes(self.dtype):
            raise ElementTypeError(
                f"arithmetic on {self.dtype} is not supported: expected a Cast to float32 before it"
            )

    def _signed_choice(self, signed: _Operation, unsigned: _Operation) -> _Operation:
        return signed if is_signed(self.dtype) else unsigned

    def __add__(self, other: Scalar | float) -> Scalar:
        """Emit and return the sum; integers wrap around."""
        return self._binary(other, arith.AddFOp, arith.AddIOp)

    def __sub__(self, other: Scalar | float) -> Scalar:
        """Emit and return the difference; integers wrap around."""
        return self._binary(other, arith.SubFOp, arith.SubIOp)

    def __mul__(self, other: Scalar | float) -> Scalar:
        """Emit and return the product; integers wrap around."""
        return self._binary(other, arith.MulFOp, arith.MulIOp)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        """Emit and return the quotient; integers round towards zero, and division by 0 gives 0."""
        make = self._signed_choice(arith.DivSIOp, arith.DivUIOp)
        if self._cannot_trap(other):
            return self._binary(other, arith.DivFOp, make)
        divisor = self._like(other)
        quotient = self._guarded_division(divisor, make)
        if not is_signed(self.dtype):
            return quotient
        # Processors trap on the only overflowing quotient, MIN / -1; the negation wraps around.
        return divisor.compare("eq", -1).select(-self, quotient)

    def remainder(self, other: Scalar | float) -> Scalar:
        """Emit and return the remainder of a division whose quotient is rounded towards zero.

        The remainder of an integer division by 0 is 0.
        """
        make = self._signed_choice(arith.RemSIOp, arith.RemUIOp)
        if self._cannot_trap(other):
            return self._binary(other, arith.RemFOp, make)
        return self._guarded_division(self._like(other), make)

    def _cannot_trap(self, other: Scalar | float) -> bool:
        """Whether a division of this scalar by ``other`` needs no guard, because it cannot trap.

        This holds for division of floats, and for division of integers by a Python number above 0.
        """
        return is_float(self.dtype) or (not isinstance(other, Scalar) and other > 0)

    def _guarded_division(self, divisor: Scalar, make: _Binary) -> Scalar:
        """Emit an integer division or remainder that cannot trap, and return the result.

        Args:
            divisor: the divisor. For a divisor of 0, the result is 0. For a divisor of -1, the
                number is divided by 1, since MIN / -1 would trap: the remainder is right, and the
                caller has to replace the quotient by the negated number.
            make: emits the division or the remainder.
        """
        zero = literal(0, self.dtype)
        is_zero = divisor.compare("eq", 0)
        traps = is_zero
        if is_signed(self.dtype):
            traps = traps | divisor.compare("eq", -1)
        safe = traps.select(literal(1, self.dtype), divisor)
        return is_zero.select(zero, self._binary(safe, make, make))

    def __neg__(self) -> Scalar:
        """Emit and return the negation."""
        if is_float(self.dtype):
            return Scalar(arith.NegFOp(self.value).result, self.dtype)
        return literal(0, self.dtype) - self

    def __and__(self, other: Scalar | float) -> Scalar:
        """Emit and return the bitwise and."""
        return self._binary(other, arith.AndIOp, arith.AndIOp)

    def __or__(self, other: Scalar | float) -> Scalar:
        """Emit and return the bitwise or."""
        return self._binary(other, arith.OrIOp, arith.OrIOp)

    def __xor__(self, other: Scalar | float) -> Scalar:
        """Emit and return the bitwise exclusive or."""
        return self._binary(other, arith.XOrIOp, arith.XOrIOp)

    def __invert__(self) -> Scalar:
        """Emit and return the bitwise complement."""
        return self ^ (1 if self.dtype == BOOL else -1)

    def shift_left(self, count: Scalar | float) -> Scalar:
        """Emit and return a left shift by ``count`` bits.

        ``count`` must be less than the integer's width in bits.
        """
        return self._binary(count, arith.ShLIOp, arith.ShLIOp)

    def shift_right(self, count: Scalar | float) -> Scalar:
        """Emit and return a right shift by ``count`` bits.

        ``count`` must be less than the integer's width in bits. The shift is arithmetic for signed
        and logical for unsigned integers.
        """
        make = self._signed_choice(arith.ShRSIOp, arith.ShRUIOp)
        return self._binary(count, make, make)

    def maximum(self, other: Scalar | float) -> Scalar:
        """Emit and return the larger value; NaN if any operand is NaN."""
        return self._binary(
            other, arith.MaximumFOp, self._signed_choice(arith.MaxSIOp, arith.MaxUIOp)
        )

    def maximum_of_numbers(self, other: Scalar | float) -> Scalar:
        """Emit and return the larger value; the result is unspecified if an operand is NaN."""
        larger = self.maximum(other)
        owner = larger.value.owner
        assert isinstance(owner, ir.Operation | ir.OpView)
        owner.attributes[UNSPECIFIED_NAN] = ir.UnitAttr.get()
        return larger

    def minimum(self, other: Scalar | float) -> Scalar:
        """Emit and return the smaller value; NaN if any operand is NaN."""
        return self._binary(
            other, arith.MinimumFOp, self._signed_choice(arith.MinSIOp, arith.MinUIOp)
        )

    def clamp(self, low: Scalar | float, high: Scalar | float) -> Scalar:
        """Emit and return the value clamped to ``low`` .. ``high``; NaN stays NaN."""
        return self.maximum(low).minimum(high)

    def power(self, other: Scalar | float) -> Scalar:
        """Emit this scalar, a float, raised to the power ``other``, and return the result."""
        return Scalar(math.PowFOp(self.value, self._like(other).value).result, self.dtype)

    def compare(self, kind: Comparison, other: Scalar | float) -> Scalar:
        """Emit a comparison, and return its truth value.

        A comparison with NaN is true for ``ne`` and false for all other kinds.
        """
        right = self._like(other)
        self._require_arithmetic()
        if is_float(self.dtype):
            name = "UNE" if kind == "ne" else f"O{kind.upper()}"
            predicate = getattr(arith.CmpFPredicate, name)
            return Scalar(arith.CmpFOp(predicate, self.value, right.value).result, BOOL)
        prefix = "" if kind in ("eq", "ne") else "s" if is_signed(self.dtype) else "u"
        predicate = getattr(arith.CmpIPredicate, prefix + kind)
        return Scalar(arith.CmpIOp(predicate, self.value, right.value).result, BOOL)

    def select(self, yes: Scalar, no: Scalar) -> Scalar:
        """Emit and return a select by this truth value: ``yes`` if it is true, else ``no``."""
        assert yes.dtype == no.dtype, f"{yes.dtype} and {no.dtype}"
        return Scalar(arith.SelectOp(self.value, yes.value, no.value).result, yes.dtype)

    def apply(self, make: Callable[[ir.Value], ir.OpView]) -> Scalar:
        """Emit a unary operation on this scalar, and return the result, which has the same type.

        ``make`` creates the operation, for example ``math.ExpOp``.
        """
        return Scalar(make(self.value).result, self.dtype)

    def bitcast(self, dtype: DType) -> Scalar:
        """Emit a reinterpretation of the bits as ``dtype`` of the same width; return the result."""
        if element_type(dtype) == self.value.type:
            return Scalar(self.value, dtype)
        return Scalar(arith.BitcastOp(element_type(dtype), self.value).result, dtype)

    def cast(self, dtype: DType) -> Scalar:
        """Emit and return the value as ``dtype``; floats become integers by rounding towards zero.

        Conversion to bool gives true for every number except zero.
        """
        if dtype == self.dtype:
            return self
        self._require_arithmetic()
        Scalar(self.value, dtype)._require_arithmetic()
        if dtype == BOOL:
            return self.compare("ne", 0)
        make = _conversion(self.dtype, dtype)
        if make is None:
            return Scalar(self.value, dtype)
        if make is _through_float32:
            return self.cast(F32).cast(dtype)
        return Scalar(make(element_type(dtype), self.value).result, dtype)

    def index(self) -> ir.Value:
        """Emit the conversion of the integer to an index, and return the index."""
        cast = self._signed_choice(arith.IndexCastOp, arith.IndexCastUIOp)
        return cast(ir.IndexType.get(), self.value).result


def _through_float32(_kind: ir.Type, _value: ir.Value) -> NoReturn:
    raise AssertionError("marks a conversion in two steps")


def _conversion(source: DType, target: DType) -> _Conversion | None:
    """Return the class of the operation that converts numbers of type ``source`` to ``target``.

    A conversion between f16 and bf16 takes two operations; for it, return ``_through_float32``, a
    function that emits both. Return None if both types are integers of the same width: their bits
    are the same.
    """
    if is_float(source) and is_float(target):
        if source.itemsize == target.itemsize:
            return _through_float32
        return arith.ExtFOp if source.itemsize < target.itemsize else arith.TruncFOp
    if is_float(source):
        return arith.FPToSIOp if is_signed(target) else arith.FPToUIOp
    if is_float(target):
        return arith.SIToFPOp if is_signed(source) else arith.UIToFPOp
    source_bits = 1 if source == BOOL else 8 * source.itemsize
    target_bits = 8 * target.itemsize
    if source_bits == target_bits:
        return None
    if source_bits > target_bits:
        return arith.TruncIOp
    return arith.ExtSIOp if is_signed(source) else arith.ExtUIOp


def index_value(value: ir.Value, dtype: DType = INT64) -> Scalar:
    """Emit the conversion of the index ``value`` to an integer ``dtype``; return the integer."""
    return Scalar(arith.IndexCastOp(element_type(dtype), value).result, dtype)
