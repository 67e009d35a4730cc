"""Tests that models like exported object detectors give ONNX Runtime's outputs.

Data selects boxes in these models; layers and a non-maximum suppression process the boxes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rammer_mlir.compiler.models import Compiling, Request
from rammer_mlir.compiler.options import check_options
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.pool import Key
from rammer_mlir.runtime.compiled import RunnableModel
from tests.hosted.hosted_checks import assert_equal, floats, hosted, model_of, reference

LABELS = """(float[40,4] x, float[4,30] w) => (float[N,30] y, int64[M] labels) {
  one = Constant<value_ints = [1]>()  all = Constant<value_ints = [-1]>()
  m = ReduceMax<keepdims = 0>(x, one)  zero = Constant<value_float = 0.5>()
  keep = Greater(m, zero)  at = NonZero(keep)  flat = Reshape(at, all)
  rows = Gather(x, flat)  y = MatMul(rows, w)
  size = Shape(y)  a = Constant<value_int = 0>()  b = Constant<value_int = 30>()
  c = Constant<value_int = 1>()  range = Range(a, b, c)
  each = Expand(range, size)  labels = Reshape(each, all) }"""


def test_a_large_constant_that_a_part_returns() -> None:
    """A part's outputs are right if one of them becomes a large constant when the part is compiled.

    The labels depend on nothing but the number of selected rows. The part is compiled for a fixed
    number of rows, so constant folding computes them.
    """
    model = model_of(LABELS.replace("m = ReduceMax<keepdims = 0>(x, one)",
                                    "m = ReduceMax<axes = [1], keepdims = 0>(x)"))  # fmt: skip
    hosted(model, [{"x": floats(40, 4, seed=n) + 3, "w": floats(4, 30)} for n in range(2)])


def test_a_host_program_behind_a_shape_value() -> None:
    """A specialization for a shape value is a host program, in which the shape is a constant."""
    proto = model_of("""(float[6] x, int64[2] s) => (int64[M,N] y, float[A,B] z) {
      y = NonZero(x)  w = Exp(x)  z = Reshape(w, s) }""")
    request = Request(proto, check_options(num_veus=2), cached=False)
    model, fixed = request.load()
    signature = replace(fixed.signature, shape_values=("s",))
    compiling = Compiling(model, request.compiler(), request.options, signature)
    made = OpenModel(signature, compiling, 1)
    feeds = {"x": floats(6), "s": np.array([2, 3])}
    assert_equal(made.run(feeds), reference(proto, feeds))
    (found,) = (found for _, found in _held(made))
    assert isinstance(found, HostedModel) and list(found.input_names) == ["x"]


def _held(model: OpenModel) -> list[tuple[Key, RunnableModel]]:
    with model.held() as held:
        return held


SUPPRESSED = """(float[30,4] boxes, float[30] scores) => (float[N,4] y) {
  limit = Constant<value_float = 0.0>()  all = Constant<value_ints = [-1]>()
  good = Greater(scores, limit)  at = NonZero(good)  flat = Reshape(at, all)
  b = Gather(boxes, flat)  s = Gather(scores, flat)
  n = Size(b)  zero = Constant<value_int = 0>()  none = Equal(n, zero)
  kept = If(none) <
    then_branch = t () => (int64[K] k) {
      k = Constant<value = int64[1] {0}>() },
    else_branch = e () => (int64[L] l) {
      first = Constant<value_ints = [0]>()  two = Constant<value_ints = [0, 1]>()
      bb = Unsqueeze(b, first)  ss = Unsqueeze(s, two)
      most = Constant<value_ints = [5]>()  overlap = Constant<value_floats = [0.5]>()
      found = NonMaxSuppression(bb, ss, most, overlap)
      last = Constant<value_int = 2>()  l = Gather<axis = 1>(found, last) }>
  y = Gather(boxes, kept) }"""


def test_a_branch_for_any_number_of_boxes() -> None:
    """A branch with an open number of boxes is one host program for all numbers."""
    runs = [
        {"boxes": np.abs(floats(30, 4, seed=n)), "scores": floats(30, seed=n) + shift}
        for n, shift in enumerate((0.0, 1.0, -1.0, -9.0))
    ]
    made = hosted(model_of(SUPPRESSED), runs)
    assert not any(isinstance(part, OpenModel) and part.signature.symbols for part in made.parts)
    assert any(isinstance(part, HostedModel) for part in made.parts)
