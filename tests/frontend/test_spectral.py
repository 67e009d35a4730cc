"""Tests that Fourier transforms of frames (STFT) give ONNX Runtime's results."""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import check_node, floats, run_node


@pytest.mark.parametrize("shape", [(2, 50), (2, 50, 1)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_transforms_of_frames(shape: tuple[int, ...], onesided: int) -> None:
    """STFT accepts real signals with and without a last dimension for real and imaginary parts."""
    inputs = [floats(*shape), np.array(5, np.int64), floats(16, seed=1), None]
    check_node("STFT", inputs, constants=[1, 2], opset=17, onesided=onesided)


def test_sums_of_16_bits_are_accumulated_in_32() -> None:
    x = (floats(1, 1024, 1) + 3).astype(np.float16)
    found = run_node("DFT", [x, None, np.array(1)], constants=[2], opset=20)["out0"]
    exact = np.fft.fft(x[0, :, 0].astype(np.float64))
    np.testing.assert_allclose(found[0, :, 0], exact.real, rtol=1e-3, atol=2e-2)
    np.testing.assert_allclose(found[0, :, 1], exact.imag, rtol=1e-3, atol=2e-2)
