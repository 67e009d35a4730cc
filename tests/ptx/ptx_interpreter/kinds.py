"""PTX's types as NumPy's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .faults import PtxFault
from .module import Instruction

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{k}{bits}": np.dtype(f"u{bits // 8}") for k in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "pred": np.dtype(np.bool_),
}
"""By PTX's name; untyped bits are unsigned integers."""


def kind_of(instruction: Instruction) -> str:
    """Return the type that an opcode ends with."""
    kind = instruction.qualifiers[-1] if instruction.qualifiers else ""
    if kind not in DTYPES:
        raise PtxFault(f"{instruction}: expected a type of {', '.join(DTYPES)}, found '{kind}'")
    return kind


def dtype_of(instruction: Instruction) -> np.dtype[Any]:
    """Return the type that an opcode ends with, as NumPy's."""
    return DTYPES[kind_of(instruction)]


def unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned integer of as many bits."""
    return dtype if dtype == np.bool_ else np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the signed integer of as many bits."""
    return np.dtype(f"i{dtype.itemsize}")


def wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the integer of twice as many bits."""
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def expect_only(instruction: Instruction, *allowed: str) -> None:
    """Refuse qualifiers, besides types, that an implementation does not know."""
    for qualifier in instruction.qualifiers:
        if qualifier not in allowed and qualifier not in DTYPES:
            raise PtxFault(f"{instruction}: expected no '.{qualifier}', which is not implemented")
