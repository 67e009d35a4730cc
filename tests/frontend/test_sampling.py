"""Tests of RoiAlign and MaxRoiPool: means and maxima of images at the coordinates of regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from node_checks import Array, check_node, expected_outputs, floats, node_model, run_node

import rammer_mlir


def regions(count: int, size: int, images: int) -> tuple[Array, Array]:
    """Return random regions of an image, and the index of the image of each region.

    A region has the coordinates x and y of two opposite corners. Some regions extend beyond the
    image.
    """
    rng = np.random.default_rng(count)
    start = rng.uniform(-8, size, (count, 2))
    boxes = np.concatenate([start, start + rng.uniform(-1, size, (count, 2))], 1)
    return boxes.astype(np.float32), rng.integers(0, images, count)


@pytest.mark.parametrize("opset", [10, 16, 22])
@pytest.mark.parametrize("channels", [1, 3, 16, 37])
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_means_of_samples(opset: int, channels: int, samples: int) -> None:
    boxes, images = regions(9, 40, 2)
    details: dict[str, Any] = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    check_node(
        "RoiAlign", [floats(2, channels, 20, 23), boxes, images],
        opset=opset, sampling_ratio=samples, **details,
    )  # fmt: skip


@pytest.mark.parametrize("channels", [1, 19])
def test_maxima_of_samples(channels: int) -> None:
    image = floats(1, channels, 9, 8)
    boxes = np.array([[0, 0, 7, 8], [2, 3, 5, 4]], np.float32)
    details: dict[str, Any] = {"output_height": 4, "output_width": 3, "sampling_ratio": 1}
    inputs = [image, boxes, np.zeros(2, np.int64)]
    found = run_node("RoiAlign", inputs, mode="max", **details)["out0"]
    # Of a single sample, the maximum of the four weighted neighbors instead of their sum.
    for number, (left, top, right, bottom) in enumerate(boxes - 0.5):
        for row in range(4):
            for column in range(3):
                y = max(top + (row + 0.5) * (bottom - top) / 4, 0)
                x = max(left + (column + 0.5) * (right - left) / 3, 0)
                terms = [
                    image[0, :, min(int(y) + i, 8), min(int(x) + j, 7)]
                    * abs(1 - i - (y - int(y)))
                    * abs(1 - j - (x - int(x)))
                    for i in (0, 1)
                    for j in (0, 1)
                ]
                expected = np.max(terms, axis=0)
                np.testing.assert_allclose(found[number, :, row, column], expected, atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_as_many_samples_as_pixels(mode: str, coordinates: str) -> None:
    """Without ``sampling_ratio``, the number of samples depends on the size of a region."""
    boxes, images = regions(9, 40, 2)
    boxes[0] = [9, 9, 3, 3]  # a region without samples
    check_node(
        "RoiAlign", [floats(2, 5, 20, 23), boxes, images], opset=16, mode=mode,
        output_height=3, output_width=2, spatial_scale=0.5,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip


def test_positions_of_16_bits() -> None:
    """Positions are computed in f32: f16 numbers above 128 have steps of an eighth."""
    boxes = np.random.default_rng(0).uniform(0, 350, (9, 4)).astype(np.float16)
    boxes[:, 2:] += boxes[:, :2]
    image, images = floats(1, 4, 200, 200).astype(np.float16), np.zeros(9, np.int64)
    details: dict[str, Any] = {"output_height": 7, "output_width": 7, "spatial_scale": 0.25}
    wide = [image.astype(np.float32), boxes.astype(np.float32), images]
    exact = run_node("RoiAlign", wide, sampling_ratio=2, **details)["out0"]
    found = run_node("RoiAlign", [image, boxes, images], sampling_ratio=2, **details)["out0"]
    np.testing.assert_allclose(found, exact, atol=2e-3)


@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_maxima_of_pixels(channels: int, scale: float) -> None:
    boxes, images = regions(9, 40, 2)
    rows = np.concatenate([images[:, None], boxes], 1).astype(np.float32)
    inputs = [floats(2, channels, 20, 23), rows]
    check_node("MaxRoiPool", inputs, pooled_shape=[3, 2], spatial_scale=scale)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_types(kind: type[np.generic]) -> None:
    boxes, images = regions(5, 12, 1)
    inputs = [floats(1, 18, 12, 12).astype(kind), boxes.astype(kind), images]
    details: dict[str, Any] = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    tolerance = 2e-2 if kind is np.float16 else 1e-6
    check_node("RoiAlign", inputs, tolerance=tolerance, **details)


def test_no_regions() -> None:
    found = run_node(
        "RoiAlign",
        [floats(1, 4, 8, 8), np.zeros((0, 4), np.float32), np.zeros(0, np.int64)],
        output_height=2, output_width=2, sampling_ratio=2,
    )["out0"]  # fmt: skip
    assert found.shape == (0, 4, 2, 2)


@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90"])
def test_loops_of_data_dependent_length_are_compiled(target: str) -> None:
    """Such loops are in the body of an operation, which is tiled for the vEUs."""
    boxes, images = regions(9, 40, 2)
    inputs = [floats(2, 5, 20, 23), boxes, images]
    model = node_model("RoiAlign", inputs, opset=16, output_height=3, output_width=2)
    feeds = {f"in{number}": array for number, array in enumerate(inputs)}
    options: dict[str, Any] = {} if target == "cpu" else {"emulate": True}
    with rammer_mlir.compile(model, target=target, cache=False, num_veus=2, **options) as made:
        found = made.run(feeds)["out0"]
    np.testing.assert_allclose(found, expected_outputs(model, feeds)["out0"], atol=1e-5)
