"""PTX's types, and the NumPy types of the same meaning."""

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
"""NumPy's types by PTX's names; untyped bits are unsigned integers."""


def kind_of(instruction: Instruction) -> str:
    """Return the type at the end of an instruction's opcode: ``add.s32`` gives "s32"."""
    kind = instruction.qualifiers[-1] if instruction.qualifiers else ""
    if kind not in DTYPES:
        raise PtxFault(f"{instruction}: expected a type of {', '.join(DTYPES)}, found '{kind}'")
    return kind


def dtype_of(instruction: Instruction) -> np.dtype[Any]:
    """Return the type at the end of an instruction's opcode, as NumPy's type."""
    return DTYPES[kind_of(instruction)]


def unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned integer type of the same size as ``dtype``."""
    return dtype if dtype == np.bool_ else np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the signed integer type of the same size as ``dtype``."""
    return np.dtype(f"i{dtype.itemsize}")


def wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the integer type of twice the size of ``dtype``."""
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def expect_only(instruction: Instruction, *allowed: str) -> None:
    """Raise PtxFault if an instruction has qualifiers other than types and those in ``allowed``."""
    for qualifier in instruction.qualifiers:
        if qualifier not in allowed and qualifier not in DTYPES:
            raise PtxFault(f"{instruction}: expected no '.{qualifier}', which is not implemented")
