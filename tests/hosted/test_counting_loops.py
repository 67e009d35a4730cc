"""Tests that loops as TensorFlow writes them become scans without needless states.

The states of these loops include the counter and the weights; the condition compares the counter
with a limit.
"""

from __future__ import annotations

import numpy as np
import pytest

from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.prepare import fold
from rammer_mlir.frontends.onnx.traversal import subgraphs
from tests.hosted.hosted_checks import floats, hosted, model_of

_STEPS = 90
"""Iterations of the loops, which are too many to be unrolled."""


def cell(
    start: int = 0, step: int = 1, *, kind: str = "int32", shape: str = "", limit: str = ""
) -> str:
    """Return the text of a graph: a recurrent cell in a Loop, as TensorFlow exports it.

    The loop's states are the counter, the cell's state, a weight and the limit. The counter, of
    type ``kind``, counts from ``start`` by ``step`` up to the limit; it is a scalar, or a vector of
    one element if ``shape`` is not empty. ``limit`` is the node that gives the limit; by default, a
    constant that gives ``_STEPS`` iterations.
    """
    brackets = "[1]" if shape else ""
    limit = limit or f"Constant<value = {kind} {{{start + _STEPS * step}}}>()"
    given = ", int64 n" if "(n)" in limit else ""
    return f"""(float[{start + _STEPS * step},2,4] x, float[4,4] w{given})
      => (float[2,4] h, {kind}{brackets} last, float[4,4] kept, float[A,2,4] hs) {{
      begin = Constant<value = float[2,4] {{1, 2, 3, 4, 5, 6, 7, 8}}>()
      zero = Constant<value = {kind}{brackets} {{{start}}}>()
      one = Constant<value = {kind}{brackets} {{{step}}}>()
      scalar = Constant<value = int64[0] {{}}>()
      c = Constant<value = bool {{1}}>()
      most = {limit}
      last, h, kept, end, hs = Loop(, c, zero, begin, w, most)
        <body = b (int64 i, bool d, {kind}{brackets} t, float[2,4] s, float[4,4] v, {kind} m)
          => (bool goes, {kind}{brackets} next, float[2,4] r, float[4,4] u, {kind} k,
              float[2,4] y) {{
          next = Add(t, one)
          place = Reshape(t, scalar)
          e = Gather(x, place)
          p = MatMul(s, v)
          q = Add(p, e)
          r = Tanh(q)
          y = Identity(r)
          u = Identity(v)
          k = Identity(m)
          after = Reshape(next, scalar)
          goes = Less(after, m) }}> }}"""


def loops_of(text: str) -> list[tuple[str, int]]:
    """Return each loop that folding leaves in the graph ``text``.

    A loop is given by its operator, Loop or Scan, and the number of its body's inputs.
    """
    nodes = fold(load(model_of(text))).model.graph.node
    return [
        (node.op_type, len(graph.input))
        for node in nodes
        if node.op_type in ("Loop", "Scan")
        for graph in subgraphs(node)
    ]


def feeds(first: int = 0, step: int = 1) -> dict[str, object]:
    x = floats(first + _STEPS * step, 2, 4)
    return {"x": x, "w": floats(4, 4)}


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_counted_cell_is_a_scan(kind: str) -> None:
    """A recurrent cell in a counting loop becomes a Scan whose only state is that of the cell."""
    text = cell(kind=kind)
    hosted(model_of(text), [feeds()])
    assert loops_of(text) == [("Scan", 2)]


@pytest.mark.parametrize("shape", ["", "[1]"])
@pytest.mark.parametrize(("start", "step"), [(3, 1), (0, 2), (5, 3)])
def test_counters_begin_and_step_anywhere(start: int, step: int, shape: str) -> None:
    text = cell(start, step, shape=shape)
    hosted(model_of(text), [feeds(start, step)])
    ((_, inputs),) = loops_of(text)
    assert inputs <= 3, "a state, and at most the element or the iteration number"


def test_a_limit_of_the_run() -> None:
    """If the limit is an input, the loop stays a Loop; its weight and its limit are no states."""
    text = cell(kind="int64", limit="Identity(n)")
    model = model_of(text)
    for number in (1, 7, _STEPS):
        hosted(model, [{**feeds(), "n": np.array(number)}])
    assert loops_of(text) == [("Loop", 4)]


def test_a_state_that_only_looks_like_an_invariant() -> None:
    """Two states that each iteration swaps are not taken for loop invariants."""
    text = """(float[4] x, float[4] y) => (float[4] a, float[4] b) {
      n = Constant<value = int64 {71}>()  c = Constant<value = bool {1}>()
      a, b = Loop(n, c, x, y) <body = g (int64 i, bool d, float[4] s, float[4] t)
        => (bool e, float[4] u, float[4] v) {
          e = Identity(d)  u = Identity(t)  v = Identity(s) }> }"""
    hosted(model_of(text), [{"x": floats(4), "y": floats(4)}])
