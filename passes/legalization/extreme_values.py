"""Recognizes tensors that are filled with the least or the largest number of their type."""

from __future__ import annotations

from math import isinf

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.fills import filling


def is_limit(value: ir.Value, *, is_least: bool) -> bool:
    """Whether all elements of a tensor are the least (or the largest) number of their type.

    If ``is_least``, this is minus infinity, the least finite number or the least signed integer;
    otherwise, it is plus infinity, the largest finite number or the largest signed integer.
    """
    number = _filled(value)
    if isinstance(number, ir.IntegerAttr) and isinstance(number.type, ir.IntegerType):
        half = 1 << (ir.IntegerType(number.type).width - 1)
        return number.value == (-half if is_least else half - 1)
    if not isinstance(number, ir.FloatAttr) or (number.value < 0) != is_least:
        return False
    return isinf(number.value) or abs(number.value) == _LARGEST.get(str(number.type))


_LARGEST = {
    "f16": 65504.0,
    "bf16": (2 - 2**-7) * 2.0**127,
    "f32": (2 - 2**-23) * 2.0**127,
    "f64": (2 - 2**-52) * 2.0**1023,
}
"""The largest finite number by element type."""


def _filled(value: ir.Value) -> ir.Attribute | None:
    """Return the element that a splat constant or a fill repeats; None for any other tensor."""
    scalar = filling(value)
    owner = (value if scalar is None else scalar).owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    held = owner.attributes["value"]
    if scalar is not None:
        return held
    if isinstance(held, ir.DenseElementsAttr) and held.is_splat:
        return held.get_splat_value()
    return None
