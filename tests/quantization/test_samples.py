"""Tests that calibration data is read from arrays and files.

Unsuitable data is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.compiler.quantization.samples import Samples
from rammer_mlir.errors import InputError
from rammer_mlir.programs.signature import TensorSpec

X = TensorSpec("x", (2, 3), np.dtype(np.float32))
N = TensorSpec("n", (), np.dtype(np.int64))


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize("shape", [(4, 2, 3), (8, 3)], ids=["stacked", "joined"])
def test_samples_stand_one_behind_the_other(shape: tuple[int, ...]) -> None:
    values = np.arange(24, dtype=np.float32).reshape(shape)
    numbers = np.arange(4)
    feeds = Samples.of({"x": values, "n": numbers}).feeds([X, N])
    assert len(feeds) == 4
    for number, feed in enumerate(feeds):
        assert feed["x"].shape == (2, 3) and feed["n"].shape == ()
        np.testing.assert_array_equal(feed["x"].ravel(), np.arange(6) + 6 * number)
        assert feed["n"] == number


def test_a_file_and_arrays_are_the_same(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=ones(2, 3))
    np.savez(tmp_path / "y.npz", x=ones(2, 3))
    digests = [Samples.of(tmp_path / name).digest for name in ("x.npz", "y.npz")]
    assert len({*digests, Samples.of({"x": ones(2, 3)}).digest}) == 1
    for other in ({"y": ones(2, 3)}, {"x": ones(3, 2)}, {"x": ones(2, 3) * 2}):
        assert Samples.of(other).digest != digests[0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "an array for each input, found none"),
    "a missing array": ({"n": np.arange(4)}, "array for the input 'x', found 'n'; add it"),
    "another name": ({"x": ones(2, 3), "z": ones(1)}, "arrays for x, n, found 'z'; leave it out"),
    "a shape": ({"x": ones(3, 2), "n": np.arange(1)}, "shape 2x3 for 'x', found an array of 3x2"),
    "part of a batch": ({"x": ones(3, 3), "n": np.arange(1)}, "shape 2x3 for 'x', found an array"),
    "a type": (
        {"x": np.ones((2, 3)), "n": np.arange(1)}, "float32 for 'x', found float64; convert it",
    ),
    "no numbers": ({"x": np.array(["a"])}, "numbers for 'x', found <U1"),
    "nan": ({"x": ones(2, 3) * np.nan, "n": np.arange(1)}, "finite numbers for 'x', found 6 NaN"),
    "infinite": ({"x": ones(2, 3) * np.inf}, "finite numbers for 'x', found 6 NaN or inf"),
    "numbers of samples": (
        {"x": ones(2, 3), "n": np.arange(2)}, "many samples for each input, found 1 for 'x', 2 for",
    ),
    "no samples": ({"x": ones(0, 3), "n": np.arange(0)}, "at least one sample, found none"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    arrays, message = REFUSED[case]
    with pytest.raises(InputError, match=f"^calibration: expected .*{re.escape(message)}") as found:
        Samples.of(arrays).feeds([X, N])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("content", [None, b"", b"text", b"PK\x03\x04broken"])
def test_refused_files(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"^calibration: expected .*x\.npz'") as found:
        Samples.of(path)
    assert "\n" not in str(found.value)


def test_one_array_in_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ones(2, 3))
    with pytest.raises(InputError, match=r"found no \.npz file; write one with numpy\.savez"):
        Samples.of(tmp_path / "x.npy")
