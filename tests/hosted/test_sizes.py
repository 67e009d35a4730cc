"""Tests of models whose sizes are known only in a run: they give ONNX Runtime's outputs.

Either the size of a result depends on data, or the values of an input decide a shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import InputError
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.programs.host_program import Compute, Evaluate
from tests.hosted.hosted_checks import check, floats, hosted, model_of

SELECTION = """(float[9,4] x, float[4,5] w) => (float[N,5] y, int64[1,N] at) {
  m = ReduceMax<axes = [1], keepdims = 0>(x)  l = Constant<value_float = 1.0>()
  keep = Greater(m, l)  at = NonZero(keep)
  axes = Constant<value_ints = [0]>()  flat = Squeeze(at, axes)
  rows = Gather(x, flat)  z = MatMul(rows, w)  y = Relu(z) }"""


def test_rows_that_data_selects() -> None:
    model = model_of(SELECTION)
    runs = [{"x": floats(9, 4, seed=n), "w": floats(4, 5)} for n in range(4)]
    runs.append({"x": np.zeros((9, 4), np.float32), "w": floats(4, 5)})  # which selects none
    hosted(model, runs)


@pytest.mark.parametrize("node", [
    "u, a, b, c = Unique(x)",
    "u, a, b, c = Unique<sorted = 0>(x)",
    "u, a, b, c = Unique<axis = 0>(x)",
    "u, a, b, c = Unique<axis = 1, sorted = 0>(x)",
])  # fmt: skip
def test_distinct_values(node: str) -> None:
    outputs = "float[N] u, int64[A] a, int64[B] b, int64[C] c"
    outputs = outputs.replace("float[N]", "float[N,M]") if "axis" in node else outputs
    model = model_of(f"(float[6,3] x) => ({outputs}) {{ {node} }}")
    x = np.random.default_rng(0).integers(0, 3, (6, 3)).astype(np.float32)
    hosted(model, [{"x": x}, {"x": np.zeros((6, 3), np.float32)}])


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("least", [None, 0.3])
@pytest.mark.parametrize("count", [20, 150])  # candidates are compared in blocks of 64
def test_non_maximum_suppression(centered: int, least: float | None, count: int) -> None:
    inputs = f"float[2,{count},4] boxes, float[2,3,{count}] scores, int64[1] most, float[1] overlap"
    inputs += ", float[1] least" if least is not None else ""
    names = "boxes, scores, most, overlap" + (", least" if least is not None else "")
    model = model_of(f"""({inputs}) => (int64[N,3] y) {{
      y = NonMaxSuppression<center_point_box = {centered}>({names}) }}""")
    random = np.random.default_rng(1)
    for most in (0, 2, 50, 200):
        feeds: dict[str, Any] = {
            "boxes": random.random((2, count, 4)).astype(np.float32),
            "scores": random.random((2, 3, count)).astype(np.float32),
            "most": np.array([most]),
            "overlap": np.array([0.4], np.float32),
        }
        if least is not None:
            feeds["least"] = np.array([least], np.float32)
        hosted(model, [feeds])


def test_detections() -> None:
    """A detector that suppresses overlapping boxes gives ONNX Runtime's outputs.

    The host evaluates all operators after the suppression, since they are light.
    """
    model = model_of("""(float[1,16,3,3] x, float[28,144] w) => (float[K,4] best, float[K] score) {
      flat = Flatten(x)  wt = Transpose(w)  z = MatMul(flat, wt)
      part = Constant<value_ints = [16, 12]>()  one = Constant<value_int = 1>()
      corners, raw = Split<axis = 1>(z, part)
      bs = Constant<value_ints = [1, 4, 4]>()  boxes = Reshape(corners, bs)
      four = Constant<value_ints = [4]>()  zero = Constant<value_ints = [0]>()
      axis = Constant<value_ints = [1]>()
      first = Slice(raw, zero, four, axis)  ss = Constant<value_ints = [1, 1, 4]>()
      sc = Sigmoid(first)  scores = Reshape(sc, ss)
      most = Constant<value_ints = [3]>()  overlap = Constant<value_floats = [0.5]>()
      least = Constant<value_floats = [0.2]>()
      kept = NonMaxSuppression(boxes, scores, most, overlap, least)
      two = Constant<value_int = 2>()  which = Gather<axis = 1>(kept, two)
      sq = Constant<value_ints = [0]>()  plain = Squeeze(boxes, sq)
      rows = Gather(plain, which)  lines = Constant<value_ints = [-1]>()
      line = Reshape(scores, lines)  own = Gather(line, which)
      number = Shape(own)  top = Constant<value_ints = [2]>()  k = Min(number, top)
      score, order = TopK(own, k)  best = Gather(rows, order) }""")
    runs = [{"x": floats(1, 16, 3, 3, seed=n), "w": floats(28, 144) / 5} for n in range(5)]
    made = hosted(model, runs)
    # What follows the suppression is light: the host evaluates it, whatever its size.
    computes = [step for step in made.program.steps if isinstance(step, Compute)]
    assert len(computes) == 1


SHAPE_VALUES = {
    "Reshape": ("(float[4,6] x, int64[2] s) => (float[M,N] y) { z = Exp(x)  y = Reshape(z, s) }",
                [[6, 4], [-1, 8], [2, 12]]),
    "Expand": ("(float[1,6] x, int64[2] s) => (float[M,N] y) { z = Exp(x)  y = Expand(z, s) }",
               [[2, 6], [5, 1]]),
    "Tile": ("(float[2,3] x, int64[2] s) => (float[M,N] y) { z = Exp(x)  y = Tile(z, s) }",
             [[1, 2], [3, 1]]),
    "TopK": ("(float[4,6] x, int64[1] s) => (float[4,N] y, int64[4,N] i) "
             "{ z = Exp(x)  y, i = TopK(z, s) }", [[1], [4]]),
    "ReduceSum": ("(float[4,6] x, int64[1] s) => (float[M,N] y) { z = Exp(x)  "
                  "y = ReduceSum(z, s) }", [[0], [1], [-1]]),
    "CumSum": ("(float[4,6] x, int64 s) => (float[4,6] y) { z = Exp(x)  y = CumSum(z, s) }",
               [0, 1]),
    "Trilu": ("(float[4,6] x, int64 s) => (float[4,6] y) { z = Exp(x)  y = Trilu(z, s) }",
              [0, -2, 3]),
    "Pad": ("(float[4,6] x, int64[4] s) => (float[M,N] y) { z = Exp(x)  y = Pad(z, s) }",
            [[0, 1, 2, 0], [1, 1, 1, 1]]),
    "Slice": ("(float[4,6] x, int64[1] s) => (float[M,N] y) { z = Exp(x)  "
              "a = Constant<value_ints = [1]>()  e = Constant<value_ints = [5]>()  "
              "y = Slice(z, s, e, a) }", [[0], [3], [5]]),
    "Resize": ("(float[1,1,4,6] x, int64[4] s) => (float[A,B,C,D] y) { z = Exp(x)  "
               "y = Resize<mode = \"linear\">(z, , , s) }", [[1, 1, 8, 9], [1, 1, 3, 3]]),
    "Range": ("(float[4] x, int64 s) => (int64[N] y, float[4] z) { z = Exp(x)  "
              "a = Constant<value_int = 2>()  b = Constant<value_int = 1>()  "
              "y = Range(a, s, b) }", [5, 9, 0]),
    "OneHot": ("(int64[4] x, int64 s, float[2] v) => (float[4,N] y) { y = OneHot(x, s, v) }",
               [3, 7]),
    "ConstantOfShape": ("(float[4] x, int64[2] s) => (float[M,N] y, float[4] z) { z = Exp(x)  "
                        "y = ConstantOfShape<value = float[1] {2}>(s) }", [[2, 3], [0, 4]]),
}  # fmt: skip


@pytest.mark.parametrize("operator", SHAPE_VALUES)
def test_values_that_the_run_brings(operator: str) -> None:
    """Each value of an input that decides a shape has a specialization; equal values share it."""
    text, values = SHAPE_VALUES[operator]
    model = model_of(text)
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input
    }
    feeds: dict[str, Any] = {
        name: np.arange(4) if operator == "OneHot" else floats(*shape)
        for name, shape in shapes.items()
        if name != "s"
    }
    if operator == "OneHot":
        feeds["v"] = floats(2)
    made = hosted(model, [{**feeds, "s": np.array(value)} for value in [*values, values[0]]])
    opened = [part for part in made.parts if isinstance(part, OpenModel)]
    assert all(len(part.specializations) <= len(values) for part in opened)


def test_a_length_that_data_decides() -> None:
    """A model is right if data decides the greatest length, on which a mask and a slice depend."""
    model = model_of("""(float[3,D] x, int64[3] lengths) => (float[3,N] y) {
      most = ReduceMax<keepdims = 0>(lengths)  zero = Constant<value_int = 0>()
      one = Constant<value_int = 1>()  places = Range(zero, most, one)
      ax = Constant<value_ints = [1]>()  column = Unsqueeze(lengths, ax)
      mask = Less(places, column)  m = Cast<to = 1>(mask)
      b = Constant<value_ints = [0]>()  ones = Constant<value_ints = [-1]>()
      end = Reshape(most, ones)  cut = Slice(x, b, end, ax)  y = Mul(cut, m) }""")
    runs = [{"x": floats(3, 8), "lengths": np.array(n)} for n in ([3, 5, 1], [2, 2, 2], [8, 1, 4])]
    check(model, runs)


def test_light_operators_need_no_program() -> None:
    made = hosted(model_of("(float[9] x) => (int64[1,N] y) { y = NonZero(x) }"), [{"x": floats(9)}])
    assert [type(step) for step in made.program.steps] == [Evaluate]
    assert made.parts == ()


def test_operands_that_an_operator_is_not_defined_for() -> None:
    made = hosted(
        model_of("(float[9] x, int64[1] s) => (float[N] y) { n = NonZero(x)  y = Reshape(x, s) }"),
        [{"x": floats(9), "s": np.array([9])}],
    )
    with pytest.raises(rammer_mlir.RammerError, match="Reshape"):
        made.run({"x": floats(9), "s": np.array([4])})


def test_everything_wrong_with_arrays_is_said_at_once() -> None:
    made = hosted(model_of(SELECTION), [])
    with pytest.raises(InputError) as error:
        made.run({"x": np.zeros((9, 4)), "z": floats(1)})
    text = str(error.value)
    assert "unknown input 'z'" in text and "'w' is missing" in text and "dtype float32" in text


def test_arrays_of_the_caller_are_written() -> None:
    made = hosted(model_of(SELECTION), [])
    feeds = {"x": 3 + floats(9, 4) / 9, "w": floats(4, 5)}
    out = {"y": np.zeros((9, 5), np.float32)}
    found = made.run(feeds, out)
    assert found["y"] is out["y"]
    np.testing.assert_array_equal(found["y"], made.run(feeds)["y"])
    with pytest.raises(InputError, match=r"output 'y': expected float32 of shape \(9, 5\)"):
        made.run(feeds, {"y": np.zeros((8, 5), np.float32)})
    with pytest.raises(InputError, match="unknown output 'q'"):
        made.run(feeds, {"q": out["y"]})


@pytest.mark.parametrize("threshold", [np.float64(0.1), np.array(0.1), np.int64(0)])
def test_scalars_of_other_dtypes_are_refused(threshold: Any) -> None:
    """The host compares numbers of the declared dtypes only."""
    model = model_of("""(float[5] x, float s) => (int64[1,K] n, float t) {
      p = Greater(x, s)  n = NonZero(p)  t = Mul(s, s) }""")
    x = np.full(5, 0.1, np.float32)
    with rammer_mlir.compile(model, cache=False) as made:
        assert made.run({"x": x, "s": np.float32(0.1)})["n"].shape == (1, 0)
        with pytest.raises(InputError, match="input 's': expected dtype float32"):
            made.run({"x": x, "s": threshold})
