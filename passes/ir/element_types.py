"""The supported element types, and their NumPy types."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from rammer_mlir.bindings import ir

_NAMES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip

SUPPORTED = tuple(_NAMES)
"""Element types of tensors, as MLIR spells them."""

_WITH_SIGNS = {
    f"{sign}i{bits}": f"{'u' * (sign == 'u')}int{bits}" for sign in "su" for bits in (8, 16, 32, 64)
}
"""Signed and unsigned types of inputs and outputs from other producers; they become signless."""


def dtype_of(kind: ir.Type) -> np.dtype[np.generic] | None:
    """Return the NumPy type of an element type; None if it is not supported."""
    name = _NAMES.get(str(kind)) or _WITH_SIGNS.get(str(kind))
    return None if name is None else named_dtype(name)


def named_dtype(name: str) -> np.dtype[np.generic]:
    """Return the NumPy type of a name, including the types of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes, name))


def element_of(kind: ir.Type) -> ir.Type:
    """Return the element type of a tensor or buffer, and any other type unchanged."""
    return kind.element_type if isinstance(kind, ir.ShapedType) else kind
