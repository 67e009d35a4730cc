"""Makes dictionary keys of Python values that differ where Python's equality does not."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import cast

import numpy as np


def exact_key(value: object) -> object:
    """Return a hashable key of a hashable value, equal only to keys of equal types and values.

    Types count within tuples and frozen sets, too, so that the keys of ``(1,)``, ``(1.0,)`` and
    ``(True,)`` differ. Floating-point numbers are compared by their bits: 0.0 differs from -0.0,
    and a NaN equals itself. Values of other types are compared by their own equality.
    """
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple(map(exact_key, cast("tuple[object, ...]", value)))
    if isinstance(value, frozenset):
        return kind, frozenset(map(exact_key, cast("Iterable[object]", value)))
    if isinstance(value, np.generic):
        return kind, str(value.dtype), value.tobytes()
    if isinstance(value, float | complex):
        return kind, struct.pack("dd", value.real, value.imag)
    return kind, value
