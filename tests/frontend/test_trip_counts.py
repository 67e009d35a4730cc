"""Tests of loops that end when a counter reaches a limit.

TensorFlow exports recurrent layers as such loops.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from node_checks import Array, expected_outputs

import rammer_mlir
from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx import import_model


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> {text}')


def check(text: str, **feeds: Array) -> None:
    model = parsed(text)
    shapes = {name: value.shape for name, value in feeds.items()}
    with rammer_mlir.compile(model, shapes=shapes, num_veus=1, cache=False) as executable:
        found = executable.run(feeds)
    for name, value in expected_outputs(model, feeds).items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_a_trip_count_of_several_numbers_is_refused() -> None:
    text = """g (float x) => (float y) <int64[2] n={4,4}, bool t={1}> {
      y = Loop<body=b (int64 i, bool d, float s) => (bool e, float u) {
        e = Identity(d)  u = Tanh(s) }>(n, t, x) }"""
    with pytest.raises(ModelError, match=r"one number as trip count, found .* \[2\]") as found:
        rammer_mlir.compile(parsed(text), cache=False)
    assert "\n" not in str(found.value)


SUMS = """(int64 k, bool c, int64 at, int64 end, float[2] state)
      => (bool goes_on, int64 next, int64 same, float[2] sum, float[2] scanned)
      <int64 step={%d}>
    { frame = Gather(x, at)
      sum = Add(state, frame)
      scanned = Identity(sum)
      next = Add(at, step)
      same = Identity(end)
      early = Less(next, end)
      few = Less(k, most)
      goes_on = And(early, few) }"""


def _sums(trips: str = "", step: int = 1, most: int = 100) -> str:
    return f"""g (float[N,2] x) => (float[2] z, float[M,2] s)
      <int64 zero={{0}}, int64 many={{9}}, int64 most={{{most}}}, float[2] state={{0, 0}}>
    {{ size = Shape<start=0,end=1>(x)
       length = Squeeze(size)
       start = Less(zero, length)
       i, n, z, s = Loop({trips}, start, zero, length, state) <body = b {SUMS % step}> }}"""


@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("trips", ["", "many"])
def test_loops_that_count_to_a_length(trips: str, length: int) -> None:
    check(_sums(trips), x=np.arange(2 * length, dtype="f4").reshape(length, 2))


@pytest.mark.parametrize(("step", "most"), [(3, 100), (1, 2)])
def test_loops_that_count_by_more_or_end_early(step: int, most: int) -> None:
    check(_sums(step=step, most=most), x=np.arange(14, dtype="f4").reshape(7, 2))


def test_loops_over_the_results_of_loops() -> None:
    text = f"""g (float[N,2] input) => (float[2] total)
      <int64 zero={{0}}, int64 most={{100}}, bool start={{1}}, float[2] state={{0, 0}}>
    {{ given = Shape<start=0,end=1>(input)
       n = Squeeze(given)
       i, j, z, x = Loop(, start, zero, n, state)
         <body = a {(SUMS % 1).replace("Gather(x, at)", "Gather(input, at)")}>
       size = Shape<start=0,end=1>(x)
       length = Squeeze(size)
       k, l, total, y = Loop(, start, zero, length, state) <body = b {SUMS % 1}> }}"""
    check(text, input=np.arange(10, dtype="f4").reshape(5, 2))


def test_a_loop_that_counts_up_to_data_is_the_hosts() -> None:
    text = """g (float[2] x, int64 n) => (float[2] y) <int64 zero={0}, bool start={1}>
    { i, y = Loop(, start, zero, x) <body = b (int64 k, bool c, int64 at, float[2] a)
        => (bool goes_on, int64 next, float[2] r) <int64 one={1}>
      { next = Add(at, one)
        r = Add(a, a)
        goes_on = Less(next, n) }> }"""
    with pytest.raises(UnsupportedError, match="found some that the host runs"):
        import_model(parsed(text))


def test_a_loop_that_never_ends_is_not_unrolled() -> None:
    text = """g (float[2] x) => (float[2] y) <int64 zero={0}, bool start={1}>
    { i, y = Loop(, start, zero, x) <body = b (int64 k, bool c, int64 at, float[2] a)
        => (bool goes_on, int64 next, float[2] r) <int64 one={1}, int64 bound={-1}>
      { next = Add(at, one)
        r = Add(a, a)
        goes_on = Greater(next, bound) }> }"""
    with pytest.raises(UnsupportedError, match="found some that the host runs"):
        import_model(parsed(text))
