"""Tests that the operator If gives right results if its condition depends on data.

Only the branch that is taken is compiled; cheap branches of equal shapes are both computed.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.open_models.model import OpenModel
from tests.hosted.hosted_checks import assert_equal, check, floats, hosted, model_of, reference

YES, NO = np.array(True), np.array(False)

PRODUCTS = """(float[3,4] x, bool c) => (float[M,N] y) {
  t = Transpose(x)
  y = If(c)<then_branch = a () => (float[3,3] p) { p = MatMul(x, t) },
            else_branch = b () => (float[4,4] q) { q = MatMul(t, x) }> }"""


def test_branches_of_different_shapes() -> None:
    runs = [{"x": floats(3, 4, seed=n), "c": c} for n, c in enumerate((YES, NO, YES))]
    hosted(model_of(PRODUCTS), runs)


def test_a_branch_is_compiled_when_it_is_taken() -> None:
    made = hosted(model_of(PRODUCTS), [{"x": floats(3, 4), "c": YES}])
    then, otherwise = (part for part in made.parts if isinstance(part, OpenModel))
    assert (len(then.specializations), len(otherwise.specializations)) == (1, 0)


@pytest.mark.parametrize("rows", ["3", "N"])
def test_threads_and_cores(rows: str) -> None:
    """Parts get threads of their own, pinned to cores; a timeline is refused.

    With open dimensions, the specialization is a host program.
    """
    core = min(os.sched_getaffinity(0))
    model = model_of(PRODUCTS.replace("[3,4]", f"[{rows},4]").replace("[3,3]", f"[{rows},{rows}]"))
    with rammer_mlir.compile(model, cache=False, num_veus=2) as made:
        feeds = {"x": floats(3, 4), "c": YES}
        made.use_threads(1)
        made.pin([core])
        assert_equal(made.run(feeds), {"y": feeds["x"] @ feeds["x"].T})
        with pytest.raises(OptionError, match="pinning: expected 1 cores"):
            made.pin([core, core])
        with pytest.raises(OptionError, match="threads: expected an integer"):
            made.use_threads(0)
        with pytest.raises(OptionError, match="the host runs in parts"):
            made.record(feeds)
        with pytest.raises(OptionError, match="the host runs in parts"):
            made.timeline("none.html", feeds)


def test_a_branch_may_contradict_the_shapes_at_hand() -> None:
    """A model with a branch whose shapes contradict each other is compiled.

    A run fails only if it takes that branch. A voice detector has such a branch for another
    sampling rate.
    """
    model = model_of("""(float[2,3] x, bool c) => (float[M,N] y) {
      y = If(c)<then_branch = a () => (float[2,3] p) { p = Relu(x) },
                else_branch = b () => (float[I,J] q) <int64[2] s = {4, 4}> {
                  r = Reshape(x, s)  q = MatMul(r, r) }> }""")
    feeds = {"x": floats(2, 3), "c": YES}
    made = rammer_mlir.compile(model, cache=False)
    assert_equal(made.run(feeds), {"y": np.maximum(feeds["x"], 0)})
    with pytest.raises(RammerError, match="Reshape"):
        made.run({**feeds, "c": NO})


def test_cheap_branches_of_equal_shapes_are_both_computed() -> None:
    model = model_of("""(float[3] x, bool c) => (float[3] y) {
      y = If(c)<then_branch = a () => (float[3] p) { p = Relu(x) },
                else_branch = b () => (float[3] q) { q = Neg(x) }> }""")
    made = check(model, [{"x": floats(3), "c": c} for c in (YES, NO)])
    assert isinstance(made, rammer_mlir.Executable)


def test_a_condition_that_data_decides() -> None:
    model = model_of("""(float[8,8] x) => (float[M,N] y) {
      m = ReduceMax<keepdims=0>(x)  l = Constant<value_float = 1.0>()  c = Greater(m, l)
      y = If(c)<then_branch = a () => (float[8,8] p) { p = MatMul(x, x) },
                else_branch = b () => (float[8,16] q) { q = Concat<axis=1>(x, x) }> }""")
    hosted(model, [{"x": scale * floats(8, 8)} for scale in (1, np.float32(0.01))])


def test_a_choice_within_a_choice() -> None:
    model = model_of("""(float[4,4] x, bool c, bool d) => (float[M,N] y) {
      y = If(c)<then_branch = a () => (float[I,J] p) {
                  p = If(d)<then_branch = e () => (float[4,4] u) { u = MatMul(x, x) },
                            else_branch = f () => (float[2,8] v) <int64[2] s = {2, 8}> {
                              v = Reshape(x, s) }> },
                else_branch = b () => (float[4,4] q) { q = Identity(x) }> }""")
    hosted(model, [{"x": floats(4, 4), "c": c, "d": d} for c in (YES, NO) for d in (YES, NO)])


def test_open_dimensions_around_a_choice() -> None:
    model = model_of("""(float[B,4] x, bool c) => (float[M,N] y) {
      t = Transpose(x)
      y = If(c)<then_branch = a () => (float[I,J] p) { p = MatMul(x, t) },
                else_branch = b () => (float[K,L] q) { q = MatMul(t, x) }> }""")
    runs = [{"x": floats(size, 4), "c": c} for size in (1, 3) for c in (YES, NO)]
    made = check(model, runs)
    assert isinstance(made, OpenModel)
    assert made.specializations == [{"B": 1}, {"B": 3}]


def test_emulated_on_a_gpu() -> None:
    runs = [{"x": floats(3, 4), "c": c} for c in (YES, NO)]
    hosted(model_of(PRODUCTS), runs, target="nvvm:sm_90", emulate=True)


def test_outputs_are_no_memory_of_inputs() -> None:
    model = model_of("""(float[4] x, int64[1] s) => (float[N] y, int64[1] t) {
      y = Reshape(x, s)  t = Identity(s) }""")
    feeds = {"x": floats(4), "s": np.array([4])}
    found = hosted(model, [feeds]).run(feeds)
    assert not any(np.shares_memory(a, b) for a in found.values() for b in feeds.values())
    assert_equal(found, reference(model, feeds))
