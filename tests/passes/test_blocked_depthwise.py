"""Tests that depthwise convolutions of unblocked images give ONNX Runtime's outputs.

The compiler copies these images into blocks of channels.
"""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser

import rammer_mlir


@pytest.mark.parametrize("channels", [16, 48, 33])
@pytest.mark.parametrize(
    ("image", "window", "strides", "pads"),
    [
        ((7, 7), (7, 7), (1, 1), (3, 3, 3, 3)),
        ((14, 9), (3, 3), (2, 2), (1, 0, 0, 1)),
        ((5, 40), (1, 9), (1, 1), (0, 4, 0, 4)),
        ((20, 20), (5, 3), (1, 2), (0, 0, 0, 0)),
    ],
)
def test_images(
    channels: int,
    image: tuple[int, int],
    window: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, ...],
) -> None:
    _check(channels, image, window, strides, pads)


@pytest.mark.parametrize("size", [9, 31])
def test_signals(size: int) -> None:
    _check(32, (50,), (size,), (1,), (size // 2, size // 2))


def _check(
    channels: int,
    image: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
) -> None:
    """Check two depthwise convolutions of an image against ONNX Runtime.

    ``image`` has the image's sizes without batch and channels, ``window`` the sizes of the filters,
    and ``pads`` ONNX's attribute. A third output of the model negates the image, and thus reads the
    unblocked image.
    """
    random = np.random.default_rng(0)
    x = [2, channels, *image]
    weights = random.standard_normal((channels, 1, *window)).astype(np.float32)
    values = ", ".join(f"{v:.9g}" for v in weights.ravel())
    attributes = f"group = {channels}, strides = {list(strides)}, pads = {list(pads)}"
    sizes = ",".join("nchw"[: len(x)])
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 17]>
    g (float{x} x) => (float[{sizes}] y, float[{sizes}] z, float{x} m)
    <float{list(weights.shape)} w = {{{values}}}> {{
      y = Conv<{attributes}>(x, w)  v = Neg(w)  z = Conv<{attributes}>(x, v)  m = Neg(x) }}""")
    feeds = {"x": random.standard_normal(x).astype(np.float32)}
    expected = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    found = rammer_mlir.compile(model, cache=False, num_veus=2).run(feeds)
    for name, value in zip("yzm", expected, strict=True):
        assert isinstance(value, np.ndarray)
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)
