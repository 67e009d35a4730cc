"""Tests that loops are rewritten before the host runs them, with the same results.

A sequence that a loop appends to becomes a stack: a tensor with a slice for each iteration. A read
at the iteration's index becomes an input of a Scan.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.compiler import steps
from rammer_mlir.errors import InputError, RammerError
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.loops.scans import sources_of
from rammer_mlir.frontends.onnx.prepare import fold
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.programs.host_program import Evaluate, Repeat
from tests.hosted.hosted_checks import (
    assert_equal,
    check,
    floats,
    hosted,
    model_of,
    reference,
)

STEPS = 70


def loops_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return the loops that folding leaves to the host."""
    return [n for n in fold(load(model)).model.graph.node if n.op_type in ("Loop", "Scan")]


def evaluated(made: HostedModel) -> set[str]:
    """Return the operators that the host evaluates."""
    return {step.kind for step in made.program.steps if isinstance(step, Evaluate)}


def operators_of(model: onnx.ModelProto) -> list[str]:
    """Return the operators in the body of the only loop that folding leaves, sorted."""
    (loop,) = loops_of(model)
    return sorted(node.op_type for graph in subgraphs(loop) for node in graph.node)


def sources(model: onnx.ModelProto) -> list[str]:
    """Return the names of the tensors that the only loop, a Scan, scans.

    Each step reads one element of each of them.
    """
    (loop,) = loops_of(model)
    assert loop.op_type == "Scan"
    return sorted(source.value for source, _ in sources_of(loop))


def appending(after: str, result: str, *, count: str = "", insert: str = "(t, v)") -> str:
    """Return a graph with a loop that appends a tensor to a sequence in each step.

    Args:
        after: nodes after the loop, which read the sequence ``s``.
        result: outputs of the graph, as text.
        count: number of steps; without it, the count is the input ``n``.
        insert: operands of SequenceInsert in the loop's body.
    """
    given, make = (", int64 n", "") if count == "" else ("", f"n = Constant<value_int = {count}>()")
    return f"""(float[2,{STEPS},4] x{given}) => ({result}) {{
      c = Constant<value = bool {{1}}>()  e = SequenceEmpty()  z = Constant<value_int = 0>()
      begin = Constant<value = float[2,4] {{0, 0, 0, 0, 0, 0, 0, 0}}>()  {make}
      h, s = Loop(n, c, begin, e)
        <body = b (int64 i, bool d, float[2,4] a, seq(float[?,?]) t)
          => (bool f, float[2,4] k, seq(float[?,?]) u) {{
          f = Identity(d)  g = Gather<axis = 1>(x, i)  k = Add(a, g)  v = Tanh(k)
          u = SequenceInsert{insert} }}>
      {after} }}"""


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_what_is_appended_is_stacked(axis: int) -> None:
    after = f"y = ConcatFromSequence<axis = {axis}, new_axis = 1>(s)"
    model = model_of(appending(after, "float[A,B,C] y", count=str(STEPS)))
    made = hosted(model, [{"x": floats(2, STEPS, 4)}])
    assert not {"ConcatFromSequence", "SplitToSequence"} & evaluated(made)
    assert sources(model) == ["x"]


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_what_is_appended_is_concatenated(axis: int) -> None:
    after = f"y = ConcatFromSequence<axis = {axis}>(s)"
    model = model_of(appending(after, "float[A,B] y", count=str(STEPS)))
    made = hosted(model, [{"x": floats(2, STEPS, 4)}])
    assert not {"ConcatFromSequence", "SplitToSequence"} & evaluated(made)


def test_other_uses_find_a_sequence() -> None:
    after = "m = Constant<value_int = -3>()  y = SequenceAt(s, m)  k = SequenceLength(s)"
    result = "float[A,B] y, int64 k, seq(float[A,B]) s, float[2,4] h"
    model = model_of(appending(after, result, count=str(STEPS)))
    hosted(model, [{"x": floats(2, STEPS, 4)}])
    (loop,) = loops_of(model)
    assert loop.op_type == "Scan"


@pytest.mark.parametrize("steps", [0, 1, 3, STEPS])
def test_a_count_that_the_run_brings(steps: int) -> None:
    """A loop whose count is an input stacks its results; a count of 0 gives an empty sequence."""
    model = model_of(appending("k = SequenceLength(s)", "seq(float[A,B]) s, int64 k"))
    made = hosted(model, [{"x": floats(2, STEPS, 4), "n": np.array(steps)}])
    assert "SplitToSequence" in evaluated(made)
    assert len(loops_of(model)[0].input) == 3
    with pytest.raises(InputError, match="output 's': expected no array in 'out' for an output"):
        made.run({"x": floats(2, STEPS, 4), "n": np.array(steps)}, {"s": np.zeros(1)})


def test_nothing_cannot_be_joined() -> None:
    model = model_of(appending("y = ConcatFromSequence<axis = 0>(s)", "float[A,B] y"))
    made = rammer_mlir.compile(model, cache=False)
    with pytest.raises(RammerError, match=r"ConcatFromSequence:y' \(ConcatFromSequence\)"):
        made.run({"x": floats(2, STEPS, 4), "n": np.array(0)})


@pytest.mark.parametrize("insert", ["(t, v, z)", "(t, v, i)"])
def test_tensors_that_are_inserted_elsewhere(insert: str) -> None:
    """Tensors that are inserted at a position instead of appended stay a sequence."""
    after = "y = ConcatFromSequence<axis = 0, new_axis = 1>(s)"
    model = model_of(appending(after, "float[A,B,C] y", count=str(STEPS), insert=insert))
    hosted(model, [{"x": floats(2, STEPS, 4)}])
    assert "SequenceInsert" in operators_of(model)


def test_a_sequence_that_does_not_begin_empty() -> None:
    text = appending("k = SequenceLength(s)", "seq(float[A,B]) s, int64 k", count=str(STEPS))
    text = text.replace("e = SequenceEmpty()", "")
    model = model_of(text.replace("h, s = Loop", "e = SequenceConstruct(begin)  h, s = Loop"))
    hosted(model, [{"x": floats(2, STEPS, 4)}])
    assert "SequenceInsert" in operators_of(model)


def test_a_sequence_that_the_steps_read() -> None:
    text = appending("k = SequenceLength(s)", "seq(float[A,B]) s, int64 k", count=str(STEPS))
    body = "l = SequenceLength(t)  q = Cast<to = 1>(l)  w = Mul(v, q)  u = SequenceInsert(t, w)"
    model = model_of(text.replace("u = SequenceInsert(t, v)", body))
    hosted(model, [{"x": floats(2, STEPS, 4)}])
    assert "SequenceInsert" in operators_of(model)


def test_tensors_of_different_shapes() -> None:
    """Tensors of different shapes stay a sequence: a stack has elements of one shape."""
    model = model_of(f"""(float[{STEPS}] x) => (float[N] y) {{
      c = Constant<value = bool {{1}}>()  n = Constant<value_int = {STEPS}>()
      e = SequenceEmpty()
      s = Loop(n, c, e) <body = b (int64 i, bool d, seq(float[K]) t) => (bool f, seq(float[L]) u) {{
        f = Identity(d)  axes = Constant<value_ints = [0]>()  zero = Constant<value_ints = [0]>()
        end = Unsqueeze(i, axes)  v = Slice(x, zero, end, axes)  u = SequenceInsert(t, v) }}>
      y = ConcatFromSequence<axis = 0>(s) }}""")
    hosted(model, [{"x": floats(STEPS)}])


def test_states_that_grow_stay_with_their_loop() -> None:
    model = model_of(f"""(float[{STEPS},2] x, float[1,2] a) => (float[N,2] y) {{
      c = Constant<value = bool {{1}}>()  n = Constant<value_int = {STEPS}>()
      y = Loop(n, c, a) <body = b (int64 i, bool d, float[M,2] s) => (bool e, float[L,2] t) {{
        e = Identity(d)  g = Gather<axis = 0>(x, i)  axes = Constant<value_ints = [0]>()
        r = Unsqueeze(g, axes)  t = Concat<axis = 0>(s, r) }}> }}""")
    (loop,) = loops_of(model)
    assert loop.op_type == "Loop"


READS = """(float[80,4] x, float[4,{n}] z) => (float[4] y, float[{n},4] o) {{
  c = Constant<value = bool {{1}}>()  n = Constant<value_int = {n}>()
  zero = Constant<value = float[4] {{0, 0, 0, 0}}>()
  y, o = Loop(n, c, zero) <body = b (int64 i, bool d, float[4] s)
    => (bool e, float[4] t, float[4] u) {{
    e = Identity(d)  axes = Constant<value_ints = [0]>()  one = Constant<value_int = 1>()
    none = Constant<value_ints = [0]>()  most = Constant<value_ints = [9223372036854775807]>()
    begin = Unsqueeze(i, axes)  j = Add(i, one)  end = Unsqueeze(j, axes)
    row = Slice(x, begin, end, axes)  flat = Squeeze(row, axes)
    all = Slice(z, none, most, axes)  column = Gather<axis = -1>(all, i)
    f = Cast<to = 1>(i)  g = Mul(flat, f)  t = Add(s, g)  u = Add(t, column) }}> }}"""


def test_reads_by_the_number_of_the_step() -> None:
    """Reads at the index of the step become inputs of a Scan.

    They read a tensor with more elements than steps, along another axis, or after a slice of all.
    """
    model = model_of(READS.format(n=STEPS))
    hosted(model, [{"x": floats(80, 4), "z": floats(4, STEPS)}])
    assert not {"Gather", "Slice"} & set(operators_of(model))
    assert len(sources(model)) == 3


def test_reads_out_of_bounds_stay_as_they_are() -> None:
    assert "Slice" in operators_of(model_of(READS.format(n=90)))


def test_a_loop_without_states() -> None:
    model = model_of(f"""(float[{STEPS},4] x) => (float[{STEPS},4] y) {{
      c = Constant<value = bool {{1}}>()  n = Constant<value_int = {STEPS}>()
      y = Loop(n, c) <body = b (int64 i, bool d) => (bool e, float[4] o) {{
        e = Identity(d)  g = Gather<axis = 0>(x, i)  o = Tanh(g) }}> }}""")
    hosted(model, [{"x": floats(STEPS, 4)}])
    assert sources(model) == ["x"]


def test_the_condition_as_a_value() -> None:
    model = model_of(f"""(float[{STEPS},4] x) => (float[{STEPS},4] y) {{
      c = Constant<value = bool {{1}}>()  n = Constant<value_int = {STEPS}>()
      y = Loop(n, c) <body = b (int64 i, bool d) => (bool e, float[4] o) {{
        e = Identity(d)  g = Gather<axis = 0>(x, i)  f = Cast<to = 1>(d)  o = Add(g, f) }}> }}""")
    hosted(model, [{"x": floats(STEPS, 4)}])
    assert sources(model) == ["x"]


def test_a_condition_that_counts() -> None:
    text = READS.format(n=STEPS).replace(
        "e = Identity(d)",
        """k = Constant<value_int = 66>()
      e = Less(i, k)""",
    )
    model = model_of(text.replace("float[70,4] o", "float[N,4] o"))
    hosted(model, [{"x": floats(80, 4), "z": floats(4, STEPS)}])
    assert loops_of(model)[0].op_type == "Scan"


def expression(nodes: str, result: str = "") -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model with a Scan over ``v``, and random inputs for the model.

    ``nodes`` compute ``v`` from the model's inputs; ``result`` has further outputs, as text.
    """
    outputs = f"float[3,5] y, float[{STEPS},3,5] z{result}"
    text = f"""(float[{STEPS},3] a, float[{STEPS},1,5] b, float[3,5] c, float[3,5] h0)
      => ({outputs}) {{ two = Constant<value_ints = [2]>()  {nodes}
      y, z = Scan<num_scan_inputs = 1, body = g (float[3,5] h, float[3,5] e)
        => (float[3,5] k, float[3,5] o) {{ k = Mul(h, e)  o = Tanh(k) }}>(h0, v) }}"""
    feeds = {
        "a": floats(STEPS, 3),
        "b": floats(STEPS, 1, 5, seed=1),
        "c": floats(3, 5, seed=2),
        "h0": floats(3, 5, seed=3),
    }
    return model_of(text), feeds


@pytest.mark.parametrize(
    ("nodes", "moved"),
    [
        ("v = Einsum<equation = 'lm,lbn->lmn'>(a, b)", {"Mul"}),
        ("p = Einsum<equation = 'lm,mn->lmn'>(a, c)  v = Exp(p)", {"Exp", "Mul"}),
        ("p = Unsqueeze(a, two)  q = Sigmoid(p)  v = Mul(q, b)", {"Mul"}),
        ("p = Unsqueeze(a, two)  q = Mul(p, c)  v = Sub(q, b)", {"Mul", "Sub"}),
        (
            "p = Unsqueeze(a, two)  w = Less(p, b)  q = Neg(c)  v = Where(w, q, b)",
            {"Where"},
        ),
    ],
)
def test_expressions_of_smaller_elements_move_into_the_body(nodes: str, moved: set[str]) -> None:
    nodes = nodes.replace("'", '"')
    model, feeds = expression(nodes)
    made = check(model, [feeds])
    assert moved <= set(operators_of(model)), made.summary
    assert "v" not in sources(model)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("p = Add(b, c)  v = Exp(p)  w = ReduceSum<keepdims = 0>(v)", "something else reads it"),
        ("s = Constant<value_ints = [70, 3, 5]>()  p = Expand(c, s)  v = Exp(p)", "no rule"),
    ],
)
def test_other_expressions_stay_outside(nodes: str, why: str) -> None:
    model, feeds = expression(nodes, result=", float w" if "ReduceSum" in nodes else "")
    check(model, [feeds])
    assert "Exp" not in operators_of(model), why


def test_expressions_of_reversed_scans() -> None:
    nodes = "p = Unsqueeze(a, two)  v = Mul(p, b)"
    model, feeds = expression(nodes)
    loop = next(node for node in model.graph.node if node.op_type == "Scan")
    loop.attribute.append(onnx.helper.make_attribute("scan_input_directions", [1]))
    check(model, [feeds])
    assert "v" not in sources(model)


def test_elements_of_the_last_axis_are_turned_by_a_part() -> None:
    """A Scan over the last axis is right; a part transposes the elements before the first step."""
    model = model_of(f"""(float[3,{STEPS}] x, float[3] h0) => (float[3] y, float[{STEPS},3] z) {{
      u = Tanh(x)  w = Relu(u)
      y, z = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = g (float[3] h, float[3] e)
        => (float[3] k, float[3] o) {{ k = Add(h, e)  o = Neg(k) }}>(h0, w) }}""")
    hosted(model, [{"x": floats(3, STEPS), "h0": floats(3)}])


def layers(factors: list[float]) -> onnx.ModelProto:
    """Return a model of layers that differ in weights, and in a constant factor of their loops."""
    nodes = "".join(
        f"""p{n} = MatMul(x{n}, m{n})  e{n} = Exp(w{n})
        y{n}, x{n + 1} = Scan<num_scan_inputs = 1, body = b (float[64] h{n}, float[64] a{n})
          => (float[64] k{n}, float[64] o{n}) {{
          c{n} = Unsqueeze(a{n}, axes)  d{n} = Mul(c{n}, e{n})
          r{n} = ReduceSum<keepdims = 0>(d{n}, axes)  k{n} = Add(h{n}, r{n})
          f{n} = Constant<value = float {{{factor}}}>()  o{n} = Mul(k{n}, f{n}) }}>(h, p{n}) """
        for n, factor in enumerate(factors)
    )
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
      g (float[{STEPS},64] x0, float[64] h) => (float[{STEPS},64] x{len(factors)}) {{
      axes = Constant<value_ints = [1]>() {nodes} }}""")
    for n in range(len(factors)):
        weights = {f"m{n}": floats(64, 64, seed=n) / 800, f"w{n}": floats(64, 20, seed=9 - n) / 8}
        for name, value in weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


@pytest.mark.parametrize(("factors", "bodies"), [([0.5, 0.5, 0.5], 1), ([0.5, 0.25, 0.5], 2)])
def test_equal_bodies_are_compiled_once(factors: list[float], bodies: int) -> None:
    """Loop bodies that differ in weights are one part; bodies that differ in constants are not."""
    made = hosted(layers(factors), [{"x0": floats(STEPS, 64), "h": floats(64, seed=1)}])
    calls = [step.body.part for step in made.program.steps if isinstance(step, Repeat)]
    assert len(calls) == len(factors)
    assert len(set(calls)) == bodies
    assert len(made.parts) == len(factors) + bodies


def test_equal_bodies_in_artifacts(tmp_path: Path) -> None:
    model = layers([0.5, 0.5])
    made = hosted(model, [{"x0": floats(STEPS, 64), "h": floats(64, seed=1)}])
    made.save(tmp_path / "model.rammer")
    feeds = {"x0": floats(STEPS, 64, seed=5), "h": floats(64, seed=6)}
    loaded = rammer_mlir.load(tmp_path / "model.rammer")
    assert_equal(loaded.run(feeds), reference(model, feeds))


@pytest.mark.parametrize(("factors", "objects"), [([0.5, 0.5, 0.5], 2), ([0.5, 0.25, 0.5], 3)])
def test_code_of_equal_parts_is_made_once(
    factors: list[float], objects: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object is made for the products of all layers, and one for each different loop body."""
    made: list[int] = []
    emit = steps.emit_object

    def counted(*arguments: Any) -> bytes:
        made.append(len(made))
        return emit(*arguments)

    monkeypatch.setattr(steps, "emit_object", counted)
    hosted(layers(factors), [{"x0": floats(STEPS, 64), "h": floats(64, seed=1)}])
    assert len(made) == objects
