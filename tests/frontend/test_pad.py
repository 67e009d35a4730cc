"""Tests that Pad in modes that repeat elements of the tensor is right, for all kinds of paddings.

The paddings are wider than the tensor, negative, or on one side only.
"""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import floats, run_node

WIDTHS = [
    [0, 1, 2, 0],
    [3, 0, 0, 3],
    [0, -1, 0, 2],
    [-2, 4, -1, -1],
    [9, 0, 0, 11],
]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("integers", [False, True])
def test_padding_with_elements(mode: str, widths: list[int], integers: bool) -> None:
    """Negative widths remove elements first; positive widths then add copies of those left."""
    x = (100 * floats(5, 4)).astype(np.int64) if integers else floats(5, 4)
    low, high = widths[:2], widths[2:]
    kept = x[
        tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape, strict=True))
    ]
    wide = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    expected = np.pad(kept, wide, mode=mode)  # type: ignore[call-overload]
    (found,) = run_node("Pad", [x, np.array(widths)], constants=[1], opset=19, mode=mode).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_padding_of_one_axis_of_five(mode: str) -> None:
    x = floats(2, 3, 1, 6, 2)
    (found,) = run_node(
        "Pad", [x, np.array([2, 1]), None, np.array([-2])], constants=[1, 3], opset=19, mode=mode
    ).values()
    wide = [(0, 0)] * 3 + [(2, 1), (0, 0)]
    np.testing.assert_array_equal(found, np.pad(x, wide, mode=mode))  # type: ignore[call-overload]
