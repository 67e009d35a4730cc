"""Models with negative sizes, which would crash ONNX's shape inference, are refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import rammer_mlir
from rammer_mlir.errors import ModelError

HEADER = '<ir_version: 9, opset_import: ["": 17]>'
SLICE = "int64[1] s = {0}, int64[1] e = {1}, int64[1] a = {0}"


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        (f"(float[1] x) => (float[n] y) <int64[1] k = {{-2}}, {SLICE}> {{ t = Expand(x, k)", "-2"),
        (f"(float[1] x) => (float[n] y) <int64[2] k = {{-2, -3}}, {SLICE}> {{ t = Pad(x, k)", "-4"),
        (
            f"(float[1,1,3] x, float[1,1,9] w) => (float[1,1,n] y) <{SLICE}> {{ t = Conv(x, w)",
            "1, 1, -5",
        ),
    ],
)
def test_negative_sizes_before_slices(graph: str, found: str) -> None:
    model = parser.parse_model(f"{HEADER} g {graph}  r = Relu(t)  y = Slice(r, s, e, a) }}")
    with pytest.raises(ModelError, match=rf"expected sizes of at least 0, found \[{found}\]"):
        rammer_mlir.compile(model, cache=False)


def test_negative_sizes_between_slices() -> None:
    model = parser.parse_model(f"""{HEADER} g (float[1,1,9] x, float[1,1,4] w) => (float[1,1,n] y)
      <int64[1] s = {{0}}, int64[1] e = {{3}}, int64[1] a = {{2}}, int64[3] k = {{1, 1, -3}}> {{
      h = Slice(x, s, e, a)  t = Conv(h, w)  u = Conv(t, w)  r = Relu(u)
      y = Slice(r, s, e, a) }}""")
    with pytest.raises(ModelError, match=r"found \[1, 1, -3\] for 'u'"):
        rammer_mlir.compile(model, cache=False)


def test_negative_sizes_after_a_constant_of_an_earlier_stage() -> None:
    model = parser.parse_model(f"""{HEADER} g (float[9] x) => (float[n] y)
      <int64[1] s = {{0}}, int64[1] e = {{1}}> {{
      k = Constant <value = int64[1] {{-4}}> ()
      h = Slice(x, s, e)  t = Expand(h, k)  y = Slice(t, s, e) }}""")
    with pytest.raises(ModelError, match=r"found \[-4\] for 't'"):
        rammer_mlir.compile(model, cache=False)


@pytest.mark.parametrize(("split", "found"), [("<num_outputs = 5> (x)", "-2"), ("(x, k)", "-1")])
def test_negative_parts_before_slices(split: str, found: str) -> None:
    """The last part of a Split, of too many parts or of a negative size, is not sliced."""
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
      g (float[6] x) => (float[n] y)
      <int64[5] k = {{2, 2, 2, 1, -1}}, int64[1] s = {{0}}, int64[1] e = {{1}}> {{
      a, b, c, d, t = Split {split}  y = Slice(t, s, e) }}""")
    with pytest.raises(ModelError, match=rf"expected sizes of at least 0, found \[{found}\]"):
        rammer_mlir.compile(model, cache=False)


def test_empty_tensors_are_sliced() -> None:
    model = parser.parse_model(f"""{HEADER} g (float[1,1,3] x, float[1,1,4] w) => (float[1,1,n] y)
      <int64[1] s = {{-1}}, int64[1] e = {{-9}}, int64[1] a = {{2}}, int64[1] p = {{-1}}> {{
      t = Conv(x, w)  y = Slice(t, s, e, a, p) }}""")
    x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 4), np.float32)
    with rammer_mlir.compile(model, cache=False) as exe:
        assert exe.run({"x": x, "w": w})["y"].shape == (1, 1, 0)


def test_operators_that_crash_inference_read_values_of_unknown_type() -> None:
    """A model compiles although the search for negative sizes does not know all types.

    That search leaves out Slices and similar operators, so that the types of their results are
    unknown.
    """
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
      g (float[2,19] x) => (float[3,5] y) <int64[2] c = {5, 3}> {
      t = CenterCropPad <axes = [1, 0]> (x, c)  y = EyeLike <dtype = 1, k = 1> (t) }""")
    with rammer_mlir.compile(model, cache=False) as exe:
        found = exe.run({"x": np.ones((2, 19), np.float32)})["y"]
    np.testing.assert_array_equal(found, np.eye(3, 5, k=1, dtype=np.float32))
