"""Compare the outputs of two runs of a model, with a tolerance for rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

RELATIVE = 1e-3
"""Tolerated error as a fraction of the expected element."""
ABSOLUTE = 1e-4
"""Tolerated error as a fraction of the largest finite element of the expected output."""


@dataclass(frozen=True)
class Worst:
    """The output element with the largest excess: its error, divided by the tolerance of its error.

    Attributes:
        output: the name of the output.
        index: the index of the element in the output.
        expected: the expected value.
        found: the found value.
        excess: the error divided by the tolerance; above 1, the element is wrong.
    """

    output: str
    index: tuple[int, ...]
    expected: float
    found: float
    excess: float
    """Error divided by tolerance: above 1 is wrong; infinite where a NaN or infinity differs."""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing all outputs of a run with the expected outputs.

    A mismatch is an output that is missing, unknown, or of another shape or element type than
    expected; ``mismatches`` has a line of text for each. If there is a mismatch, no elements are
    compared, and ``worst`` is None.
    """

    worst: Worst | None
    """The element with the largest error; None if no elements can be compared."""
    mismatches: tuple[str, ...] = ()
    """Outputs that are missing, unknown, or of another shape or element type."""

    @property
    def ok(self) -> bool:
        """Whether every element of every output is within its tolerance."""
        return not self.mismatches and (self.worst is None or self.worst.excess <= 1)

    def __str__(self) -> str:
        """Return a line with the mismatches, or with the largest error if there is no mismatch."""
        if self.mismatches:
            return "; ".join(self.mismatches)
        if self.worst is None:
            return "nothing to compare"
        worst = self.worst
        return (
            f"worst element {worst.output}{list(worst.index)}: expected {worst.expected:.9g}, "
            f"found {worst.found:.9g}, {worst.excess:.3g} of the tolerance"
        )


def compare(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> Comparison:
    """Compare outputs by name; return the mismatches, or the largest error if there is no mismatch.

    A mismatch is an output that is missing, unknown, or of another shape or element type. A float
    is correct if its error is at most ``relative * |expected| + absolute * scale``, where ``scale``
    is the largest finite magnitude in the expected output. NaN is correct only for NaN, and an
    infinity only for an infinity of the same sign. Integers and booleans must be equal.
    """
    names = list(dict.fromkeys([*expected, *found]))
    mismatches = [text for name in names if (text := _mismatch(name, expected, found))]
    worst = [
        _worst(name, expected[name], found[name], relative, absolute)
        for name in names
        if not mismatches and expected[name].size
    ]
    return Comparison(max(worst, key=lambda w: w.excess, default=None), tuple(mismatches))


def _mismatch(name: str, expected: Mapping[str, Array], found: Mapping[str, Array]) -> str | None:
    if name not in found:
        return f"output '{name}': expected, not found"
    if name not in expected:
        return f"output '{name}': found, not expected"
    kinds = [f"{a.dtype}{list(a.shape)}" for a in (expected[name], found[name])]
    return (
        f"output '{name}': expected {kinds[0]}, found {kinds[1]}" if len(set(kinds)) > 1 else None
    )


def _worst(name: str, expected: Array, found: Array, relative: float, absolute: float) -> Worst:
    excess = _excess(expected, found, relative, absolute)
    index = np.unravel_index(int(np.argmax(excess)), expected.shape)
    position = tuple(int(i) for i in index)
    pair = float(expected[position]), float(found[position])
    return Worst(name, position, *pair, float(excess[position]))


def _excess(
    expected: Array, found: Array, relative: float, absolute: float
) -> npt.NDArray[np.float64]:
    """Return each element's error divided by the element's tolerance.

    The quotient is 0 for equal elements. It is infinite for unequal integers, and for a finite
    value where the other array has NaN or an infinity.
    """
    # Exact for integers of any width, for NaNs in the same place and for equal infinities.
    same = (expected == found) | ((expected != expected) & (found != found))
    if not _is_float(expected):
        return np.where(same, 0.0, np.inf)
    a, b = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(a)
    scale = float(np.max(np.abs(a), where=finite, initial=0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.abs(a - b) / (relative * np.abs(a) + absolute * scale)
    excess = np.where(np.isnan(excess) | ~finite, np.inf, excess)
    return np.where(same, 0.0, excess)


def _is_float(array: Array) -> bool:
    # bfloat16 and the 8-bit floats are extension types, of kind "V".
    return array.dtype.kind in "fV"
