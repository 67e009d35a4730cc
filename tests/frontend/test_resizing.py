"""Tests that Resize and GridSample are right at ties between elements, and outside of the data."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from node_checks import check_node, floats
from onnx import parser

import rammer_mlir


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("size", [2, 5, 7, 9])
def test_nearest_elements_of_a_region_that_float32_rounds(rounding: str, size: int) -> None:
    region = np.array([0, 0, 0.1, 1, 1, 0.8], np.float32)
    check_node(
        "Resize",
        [floats(1, 1, 6), region, None, np.array([1, 1, size])],
        constants=[1, 3],
        mode="nearest",
        nearest_mode=rounding,
        coordinate_transformation_mode="tf_crop_and_resize",
    )


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_nearest_elements_by_a_scale_that_float32_rounds(rounding: str) -> None:
    check_node(
        "Resize",
        [floats(1, 1, 41), None, np.array([1, 1, 0.7], np.float32)],
        constants=[2],
        mode="nearest",
        nearest_mode=rounding,
        coordinate_transformation_mode="asymmetric",
    )


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize(("size", "scale"), [(3, 1.5), (4, 0.6), (5, 1.5), (7, 1.25)])
def test_nearest_elements_around_the_middle(size: int, scale: float, rounding: str) -> None:
    """Ties between two elements are rounded as ONNX specifies.

    To this end, the terms of a coordinate are added in the order of the specification.
    """
    check_node(
        "Resize",
        [floats(1, 1, size), None, np.array([1, 1, scale], np.float32)],
        constants=[2],
        mode="nearest",
        nearest_mode=rounding,
        coordinate_transformation_mode="half_pixel_symmetric",
    )


def test_a_result_without_elements() -> None:
    scales = np.array([1, 1, 0.5], np.float32)
    check_node("Resize", [floats(1, 2, 1), None, scales], constants=[2], mode="linear")


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_outside_of_the_image(mode: str, padding: str, corners: int) -> None:
    grid = np.random.default_rng(1).uniform(-1.5, 1.5, (2, 3, 4, 2)).astype(np.float32)
    check_node(
        "GridSample",
        [floats(2, 2, 5, 4), grid],
        mode=mode,
        padding_mode=padding,
        align_corners=corners,
    )


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [1.5, 1.75, 2.0, 2.6, 0.6])
def test_coordinates_of_older_opsets(opset: int, mode: str, scale: float) -> None:
    """Before opset 11, coordinates are divided by the scale, without offsets of half a pixel."""
    if opset < 10 and scale < 1:
        return  # Upsample cannot shrink
    scales = np.array([1, 1, scale], np.float32)
    name = "Resize" if opset == 10 else "Upsample"
    if opset == 7:
        check_node(name, [floats(1, 2, 9)], opset=opset, mode=mode, scales=scales.tolist())
    else:
        check_node(name, [floats(1, 2, 9), scales], constants=[1], opset=opset, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(0.5, 1.5), (2, 1.5), (0.5, 0.7)])
def test_scales_of_two_axes_in_older_opsets(mode: str, scales: tuple[float, float]) -> None:
    """In opset 10, coordinates of an axis are rounded down if the axis grows, else up.

    A second axis may have a different scale.
    """
    given = np.array([1, 1, *scales], np.float32)
    check_node("Resize", [floats(1, 2, 3, 5), given], constants=[1], opset=10, mode=mode)
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 10]>
    g (float[1,2,3,5] x, float[4] s) => (float[a,b,c,d] y) {{
      y = Resize<mode = "{mode}">(x, s) }}""")
    feeds = {"x": floats(1, 2, 3, 5), "s": given}
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    found = rammer_mlir.compile(model, cache=False).run(feeds)
    assert isinstance(expected, np.ndarray)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-6)


def test_linear_coordinates_beyond_the_last_element() -> None:
    """Linear interpolation beyond the last element gives the last element."""
    scales = np.array([1, 1, 2.6], np.float32)
    check_node(
        "Resize",
        [floats(1, 1, 3), None, scales],
        constants=[2],
        mode="linear",
        coordinate_transformation_mode="asymmetric",
    )


@pytest.mark.parametrize("rounding", ["floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel"])
def test_nearest_elements_of_axes_that_differ(coordinates: str, rounding: str) -> None:
    """Resize is right if axes are repeated, stretched by a fraction, shrunk and kept at once."""
    check_node(
        "Resize",
        [floats(3, 4, 5, 6), None, None, np.array([6, 6, 3, 6])],
        constants=[3],
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )


@pytest.mark.parametrize("size", [2, 5, 7, 9])
def test_pixel_centers_of_the_nearest_element(size: int) -> None:
    """TensorFlow's mode, which ONNX removed in opset 13, does not move the coordinate back."""
    check_node(
        "Resize",
        [floats(1, 1, 6), np.zeros(0, np.float32), np.array([1, 1, (size + 0.5) / 6], np.float32)],
        constants=[1, 2],
        opset=11,
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
