"""Tests that Fourier transforms of frames (STFT) give ONNX Runtime's results."""

from __future__ import annotations

import numpy as np
import pytest
from node_checks import check_node, floats


@pytest.mark.parametrize("shape", [(2, 50), (2, 50, 1)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_transforms_of_frames(shape: tuple[int, ...], onesided: int) -> None:
    """STFT accepts real signals with and without a last dimension for real and imaginary parts."""
    inputs = [floats(*shape), np.array(5, np.int64), floats(16, seed=1), None]
    check_node("STFT", inputs, constants=[1, 2], opset=17, onesided=onesided)
