"""Maps the supported element types to their NumPy types."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from rammer_mlir.bindings import ir

_NAMES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip

SUPPORTED = tuple(_NAMES)
"""Supported element types of tensors, as MLIR spells them."""

NARROW_FLOATS = {
    "f8E4M3": "float8_e4m3", "f8E4M3FN": "float8_e4m3fn", "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E3M4": "float8_e3m4", "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E8M0FNU": "float8_e8m0fnu",
    "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn", "f4E2M1FN": "float4_e2m1fn",
}  # fmt: skip
"""MLIR's names of floats of at most 8 bits, each with the name in ml_dtypes."""

_COMPLEX = {"complex<f32>": "complex64", "complex<f64>": "complex128"}

_INTEGER = re.compile(r"(?P<sign>[su]?)i(?P<width>\d+)")

_WIDEST_INTEGER = 64


def is_packed(width: int) -> bool:
    """Whether models store several integers of ``width`` bits in a byte; NumPy stores one."""
    return width in (2, 4)


def stored_width(width: int) -> int:
    """Return the least of the widths 8, 16, 32 and 64 that holds ``width`` bits."""
    return next(each for each in (8, 16, 32, _WIDEST_INTEGER) if width <= each)


def dtype_of(kind: ir.Type) -> np.dtype[np.generic] | None:
    """Return the NumPy type of an MLIR element type; None if it is not supported."""
    text = str(kind)
    name = _NAMES.get(text) or NARROW_FLOATS.get(text) or _COMPLEX.get(text) or _integer_name(text)
    return None if name is None else named_dtype(name)


def _integer_name(text: str) -> str | None:
    """Return NumPy's name of an MLIR integer type of 2 to 64 bits; None for any other text.

    A width that neither NumPy nor ml_dtypes supports is rounded up to 8, 16, 32 or 64 bits.
    """
    found = _INTEGER.fullmatch(text)
    if found is None or not 1 < int(found["width"]) <= _WIDEST_INTEGER:
        return None
    width = int(found["width"])
    width = width if is_packed(width) else stored_width(width)
    return f"{'u' * (found['sign'] == 'u')}int{width}"


def named_dtype(name: str) -> np.dtype[np.generic]:
    """Return the NumPy dtype called ``name``, which may be a type of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes, name))


def element_of(kind: ir.Type) -> ir.Type:
    """Return the element type of a tensor or memref type; return any other type unchanged."""
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind
