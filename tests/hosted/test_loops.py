"""Tests that loops give right results if they are not unrolled.

The body of such a loop is a program that runs in each iteration.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.errors import InputError
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.runtime.executable import Executable
from tests.hosted.hosted_checks import check, floats, hosted, model_of

TRUE = np.array(True)

CELL = """(float[T,1,8] xs, float[1,8] h0) => (float[1,8] h, float[T,1,8] ys) {
  h, ys = Scan<num_scan_inputs = 1, body = b (float[1,8] s, float[1,8] x)
    => (float[1,8] t, float[1,8] o) { u = Add(s, x)  t = Tanh(u)  o = Mul(t, x) }>(h0, xs) }"""

STACKING = """(float[4] x, int64 n, bool c) => (float[4] y, float[K,4] z) {
  y, z = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s)
    => (bool e, float[4] t, float[4] o) {
      f = Cast<to = 1>(i)  t = Add(s, f)  o = Mul(t, x)  e = Identity(d) }> }"""


def cell(steps: int) -> dict[str, Any]:
    return {"xs": floats(steps, 1, 8), "h0": floats(1, 8)}


@pytest.mark.parametrize("steps", [1, 64, 65, 200])
@pytest.mark.parametrize("num_veus", [1, 2])
def test_scans(steps: int, num_veus: int) -> None:
    """Scans are right for any number of steps: short ones are unrolled, long ones are repeated."""
    check(model_of(CELL), [cell(steps)], num_veus=num_veus)


def test_the_body_is_repeated_by_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    repeat = Executable.repeat

    def counted(self: Executable, steps: int, *rest: Any) -> int:
        taken.append(repeat(self, steps, *rest))
        return taken[-1]

    monkeypatch.setattr(Executable, "repeat", counted)
    check(model_of(CELL), [cell(5000)])
    assert taken == [4096, 904]


def test_axes_and_directions_of_scans() -> None:
    model = model_of("""(float[2,3,100] xs, float[100,2,3] zs, float[2,3] h0)
      => (float[2,3] h, float[2,100,3] ys, float[100,2,3] us) {
      h, ys, us = Scan<num_scan_inputs = 2, scan_input_axes = [-1, 0],
        scan_input_directions = [1, 0], scan_output_axes = [1, 0],
        scan_output_directions = [0, 1], body = b (float[2,3] s, float[2,3] x, float[2,3] z)
        => (float[2,3] t, float[2,3] o, float[2,3] p) {
          a = Mul(x, z)  t = Add(s, a)  o = Neg(t)  p = Identity(x) }>(h0, xs, zs) }""")
    feeds = {"xs": floats(2, 3, 100), "zs": floats(100, 2, 3), "h0": floats(2, 3)}
    assert isinstance(check(model, [feeds]), HostedModel)


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 100])
def test_a_count_that_the_run_brings(steps: int) -> None:
    feeds = {"x": floats(4), "n": np.array(steps), "c": TRUE}
    hosted(model_of(STACKING), [feeds])


def test_a_loop_that_does_not_begin() -> None:
    hosted(model_of(STACKING), [{"x": floats(4), "n": np.array(9), "c": np.array(False)}])


@pytest.mark.parametrize("limit", [-1.0, 2.5, 6000.0])
def test_a_condition_that_the_body_computes(limit: float) -> None:
    """A loop without a trip count is right: its body's condition ends it, after 1 to 6000 steps."""
    model = model_of("""(float[4] x, float l) => (float[4] y, int64 n, float[K] z) {
      c = Constant<value = bool {1}>()  zero = Constant<value_int = 0>()
      y, n, z = Loop(, c, x, zero) <body = b (int64 i, bool d, float[4] s, int64 k)
        => (bool e, float[4] t, int64 m, float o) {
          one = Constant<value_float = 1.0>()  step = Constant<value_int = 1>()
          t = Add(s, one)  m = Add(k, step)  o = ReduceMax<keepdims = 0>(t)  e = Less(o, l) }> }""")
    hosted(model, [{"x": floats(4), "l": np.array(limit, np.float32)}])


def test_states_that_grow() -> None:
    """A state may grow in each step, as a list of tokens does."""
    model = model_of("""(float[1] x, int64 n) => (float[N] y) {
      c = Constant<value = bool {1}>()
      y = Loop(n, c, x) <body = b (int64 i, bool d, float[M] s) => (bool e, float[L] t) {
        e = Identity(d)  last = ReduceSum<keepdims = 0>(s)  axes = Constant<value_ints = [0]>()
        more = Unsqueeze(last, axes)  t = Concat<axis = 0>(s, more) }> }""")
    hosted(model, [{"x": floats(1), "n": np.array(5)}])


def test_slices_of_several_shapes_are_refused() -> None:
    """All iterations must give slices of the same shape, and the error names the output."""
    model = model_of("""(float[K] x, int64 n) => (float[N] y, float[S,M] slices) {
      y, slices = Loop(n, "", x) <body = b (int64 i, bool d, float[M] s) =>
        (bool e, float[L] t, float[L] o) {
        e = Identity(d)  one = Constant<value = float[1] {1}>()  t = Concat<axis = 0>(s, one)
        o = Identity(t) }> }""")
    made = rammer_mlir.compile(model, cache=False)
    assert made.run({"x": floats(2), "n": np.array(1)})["slices"].shape == (1, 3)
    message = r"'Loop:y' \(Loop\): expected slices .* 'slices', found 3 and, in iteration 1, 4;"
    with pytest.raises(InputError, match=message):
        made.run({"x": floats(2), "n": np.array(3)})


def test_slices_by_the_number_of_the_step() -> None:
    """The host slices a tensor at the iteration index, so that all iterations share a program."""
    model = model_of("""(float[9,4] x, int64 n) => (float[4] y) {
      c = Constant<value = bool {1}>()  zero = Constant<value = float[4] {0, 0, 0, 0}>()
      y = Loop(n, c, zero) <body = b (int64 i, bool d, float[4] s) => (bool e, float[4] t) {
        e = Identity(d)  axes = Constant<value_ints = [0]>()  one = Constant<value_int = 1>()
        begin = Unsqueeze(i, axes)  j = Add(i, one)  end = Unsqueeze(j, axes)
        row = Slice(x, begin, end, axes)  flat = Squeeze(row, axes)  t = Add(s, flat) }> }""")
    made = hosted(model, [{"x": floats(9, 4), "n": np.array(n)} for n in (3, 9)])
    (body,) = made.parts
    assert isinstance(body, OpenModel)
    assert len(body.specializations) == 1


def test_a_loop_within_a_loop() -> None:
    model = model_of("""(float[3] x, int64 n, int64 m) => (float[3] y) {
      c = Constant<value = bool {1}>()
      y = Loop(n, c, x) <body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) {
        e = Identity(d)
        t = Loop(m, d, s) <body = g (int64 j, bool f, float[3] u) => (bool h, float[3] v) {
          h = Identity(f)  half = Constant<value_float = 0.5>()  w = Mul(u, half)
          v = Add(w, x) }> }> }""")
    hosted(model, [{"x": floats(3), "n": np.array(4), "m": np.array(7)}])


def test_what_the_run_brings_stays_as_it_is() -> None:
    feeds = cell(100)
    before = {name: value.copy() for name, value in feeds.items()}
    check(model_of(CELL), [feeds, feeds])
    assert all(np.array_equal(feeds[name], before[name]) for name in feeds)


def test_code_and_time_do_not_grow_with_the_steps() -> None:
    def compiled(steps: int) -> tuple[float, list[int]]:
        model = model_of(CELL.replace("[T,", f"[{steps},"))
        begin = time.process_time()
        made = rammer_mlir.compile(model, cache=False)
        assert isinstance(made, HostedModel)
        assert made.prepare() == []
        (body,) = made.parts
        assert isinstance(body, OpenModel)
        with body.held() as ((_, program),):
            assert isinstance(program, Executable)
            return time.process_time() - begin, [program.stats["code_bytes"]]

    compiled(100)  # what is loaded at first use
    (short, few), (long, many) = compiled(100), compiled(10_000)
    assert few == many
    assert long < 2 * short + 0.2


def test_bodies_of_many_nodes_are_not_unrolled() -> None:
    nodes = " ".join(f"s{n + 1} = Tanh(s{n})" for n in range(100))
    model = model_of(f"""(float[4] x) => (float[4] y) {{
      c = Constant<value = bool {{1}}>()  n = Constant<value_int = 50>()
      y = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s0) => (bool e, float[4] s100) {{
        e = Identity(d) {nodes} }}> }}""")
    hosted(model, [{"x": floats(4)}])


def test_a_vector_of_one_element_counts() -> None:
    """The count, the index of the step, and the condition may be vectors of one element."""
    model = model_of("""(float[4] x, int64[1] n) => (float[4] y) {
      c = Constant<value = bool[1] {1}>()
      y = Loop(n, c, x) <body = b (int64[1] i, bool[1] d, float[4] s) => (bool[1] e, float[4] t) {
        f = Cast<to = 1>(i)  t = Add(s, f)  e = Identity(d) }> }""")
    assert isinstance(model, onnx.ModelProto)
    made = rammer_mlir.compile(model, cache=False)
    found = made.run({"x": np.zeros(4, np.float32), "n": np.array([5])})
    np.testing.assert_array_equal(found["y"], np.full(4, 10, np.float32))


def test_long_loops_allocate_their_results_in_parts() -> None:
    """A loop that ends early does not allocate the results of its largest number of iterations."""
    text = """(int64 M, bool c) => (float[k,512,1024] s) {
        start = Constant <value = float {0}> ()
        last, s = Loop (M, c, start) <body = b (int64 i, bool ci, float v)
            => (bool co, float vo, float[512,1024] so) {
                one = Constant <value = float {1}> ()  vo = Add (v, one)
                end = Constant <value = float {5}> ()  co = Less (vo, end)
                shape = Constant <value_ints = [512, 1024]> ()  so = Expand (vo, shape) } > }"""
    feeds = {"M": np.array(2**63 - 1), "c": np.array(True)}
    with rammer_mlir.compile(model_of(text), num_veus=1) as compiled:
        tracemalloc.start()
        found = compiled.run(feeds)["s"]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.shape == (5, 512, 1024)
    np.testing.assert_array_equal(found[:, 0, 0], [1, 2, 3, 4, 5])
    assert peak < 1 << 30


def test_outputs_of_a_host_program_may_be_left_to_the_run() -> None:
    text = "(float[n] x) => (int64[1,q] z, float[n] y) { z = NonZero (x)  y = Exp (x) }"
    x = np.array([0, 2, 0, 3], np.float32)
    with rammer_mlir.compile(model_of(text), num_veus=1) as compiled:
        y = np.empty(4, np.float32)
        found = compiled.run({"x": x}, out={"z": None, "y": y})
        np.testing.assert_array_equal(found["z"], [[1, 3]])
        assert found["y"] is y
        y.flags.writeable = False
        with pytest.raises(InputError, match="output 'y': expected a writable array"):
            compiled.run({"x": x}, out={"y": y})


def test_a_loop_of_a_trip_count_alone() -> None:
    """A loop without a condition and without states has one input."""
    for count in ("n", "c3", "c100"):
        model = model_of(f"""(int64 n, bool x) => (int64[K] y)
        <int64 c3 = {{3}}, int64 c100 = {{100}}> {{
          y = Loop({count}, x) <body = b (int64 i, bool d) => (bool e, int64 o) {{
            e = Identity(d)  o = Add(i, i) }}> }}""")
        model.graph.node[0].input[1] = ""  # which ONNX's syntax cannot express at the end
        with rammer_mlir.compile(model, cache=False) as made:
            steps = {"n": 5, "c3": 3, "c100": 100}[count]
            found = made.run({"n": np.array(5), "x": TRUE})["y"]
        np.testing.assert_array_equal(found, 2 * np.arange(steps))


@pytest.mark.parametrize("lengths", [(2, 3), (80, 5), (1, 100)])
def test_sequences_of_a_scan_have_equal_lengths(lengths: tuple[int, int]) -> None:
    """The lengths depend on data; the shorter sequence must not be read beyond its end."""
    model = model_of("""(float[M] x, bool[M] c, float[N] y, bool[N] d) => (float s, float[K] z) {
      zero = Constant<value_float = 0.0>()  xs = Compress<axis = 0>(x, c)
      ys = Compress<axis = 0>(y, d)
      s, z = Scan<num_scan_inputs = 2, body = b (float h, float p, float q) => (float t, float o) {
          a = Add(p, q)  t = Add(h, a)  o = Neg(t) }>(zero, xs, ys) }""")
    with rammer_mlir.compile(model, cache=False) as made:
        feeds = {
            name: values
            for (name, mask), length in zip(("xc", "yd"), lengths, strict=True)
            for name, values in ((name, floats(length)), (mask, np.ones(length, np.bool_)))
        }
        with pytest.raises(InputError, match="expected sequences of equal length"):
            made.run(feeds)
