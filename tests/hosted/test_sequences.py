"""Tests that sequences of tensors and optional values are lists and None in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.cli import run as run_tool
from rammer_mlir.cli.arrays import write_arrays
from rammer_mlir.errors import RammerError, TargetError
from tests.hosted.hosted_checks import assert_equal, check, floats, hosted, model_of


def test_parts_of_a_tensor() -> None:
    model = model_of(
        """(float[6,4] x, int64[3] parts, int64 n) => (float[M,N] y, int64 length) {
      s = SplitToSequence<axis = 0>(x, parts)  a = SequenceAt(s, n)  y = MatMul(x, b)
      b = Transpose(a)  length = SequenceLength(s) }""".replace(
            "y = MatMul(x, b)\n      b = Transpose(a)", "b = Transpose(a)  y = MatMul(x, b)"
        )
    )
    runs = [
        {"x": floats(6, 4), "parts": np.array(parts), "n": np.array(n)}
        for parts, n in (([1, 2, 3], 0), ([3, 3, 0], -2), ([2, 2, 2], 2))
    ]
    hosted(model, runs)


def test_a_sequence_that_a_loop_collects() -> None:
    model = model_of("""(float[4] x, int64 n) => (float[N] y, seq(float[M]) s) {
      c = Constant<value = bool {1}>()  e = SequenceEmpty()
      s = Loop(n, c, e) <body = b (int64 i, bool d, seq(float[K]) t) => (bool f, seq(float[L]) u) {
        f = Identity(d)  g = Cast<to = 1>(i)  v = Add(x, g)  u = SequenceInsert(t, v) }>
      y = ConcatFromSequence<axis = 0>(s) }""")
    hosted(model, [{"x": floats(4), "n": np.array(n)} for n in (1, 3)])


def test_sequences_as_inputs_and_outputs() -> None:
    model = model_of("""(seq(float[N]) s, float[N] x) => (seq(float[N]) t, float[N] y) {
      z = Constant<value_int = 0>()  t = SequenceInsert(s, x, z)  a = SequenceAt(s, z)
      y = Add(a, x) }""")
    runs: list[dict[str, Any]] = [
        {"s": [floats(n, seed=1), floats(n, seed=2)], "x": floats(n)} for n in (3, 5)
    ]
    hosted(model, runs)


def test_optional_values() -> None:
    model = model_of(
        """(optional(float[4]) o, float[4] x) => (float[4] y, bool has) {
      has = OptionalHasElement(o)
      y = If(has)<then_branch = a () => (float[4] p) { v = OptionalGetElement(o)  p = Add(v, x) },
                  else_branch = b () => (float[4] q) { q = Identity(x) }> }""",
        18,
    )
    made = rammer_mlir.compile(model, cache=False)
    x, o = floats(4), floats(4, seed=1)
    assert_equal(made.run({"o": o, "x": x}), {"y": o + x, "has": np.array(True)})
    assert_equal(made.run({"o": None, "x": x}), {"y": x, "has": np.array(False)})


def test_a_place_that_a_sequence_lacks() -> None:
    model = model_of("""(float[6,4] x, int64 n) => (float[M,N] y) {
      s = SplitToSequence<axis = 0>(x)  y = SequenceAt(s, n) }""")
    made = rammer_mlir.compile(model, cache=False)
    with pytest.raises(RammerError, match=r"'SequenceAt:y' \(SequenceAt\): expected operands"):
        made.run({"x": floats(6, 4), "n": np.array(9)})


def test_sequences_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The elements of a sequence are arrays ``x/0``, ``x/1``; there are no random sequences."""
    model, given, target = (tmp_path / name for name in ("m.onnx", "in.npz", "out.npz"))
    text = "(seq(float[3]) x) => (float[N] y) { y = ConcatFromSequence<axis=0>(x) }"
    onnx.save(model_of(text), model)
    write_arrays(given, {"x/0": np.ones(3, np.float32), "x/1": np.zeros(3, np.float32)})
    assert run_tool.main([str(model), "--inputs", str(given), "--outputs", str(target)]) == 0
    with np.load(target) as outputs:
        assert outputs["y"].tolist() == [1, 1, 1, 0, 0, 0]
    capsys.readouterr()
    assert run_tool.main([str(model)]) == 1
    assert "input 'x' is a sequence or optional" in capsys.readouterr().err


def test_a_closed_model() -> None:
    """A model without compiled parts refuses runs after ``close`` too."""
    text = "(seq(float[3]) x) => (float[N] y) { y = ConcatFromSequence<axis=0>(x) }"
    made = rammer_mlir.compile(model_of(text), cache=False)
    feeds = {"x": [floats(3)]}
    assert_equal(made.run(feeds), {"y": feeds["x"][0]})
    made.close()
    with pytest.raises(TargetError, match="the model is closed"):
        made.run(feeds)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_known_axis_without_elements_has_no_parts(dtype: str) -> None:
    kind = dtype.removesuffix("32")
    model = model_of(f"""({kind}[0,4] x) => (int64 n, seq({kind}[N,4]) parts) <int64 s = {{2}}> {{
      parts = SplitToSequence<axis=0>(x, s)  n = SequenceLength(parts) }}""")
    check(model, [{"x": np.zeros((0, 4), dtype)}])


def test_an_axis_whose_elements_depend_on_data_has_no_parts() -> None:
    """An axis without elements has no parts of two elements; three elements have two parts."""
    model = model_of("""(float[4,2] x, bool[4] b) => (int64 length) <int64 s = {2}> {
      k = Compress<axis=0>(x, b)  parts = SplitToSequence<axis=0>(k, s)
      length = SequenceLength(parts) }""")
    chosen = ([True, True, False, True], [False] * 4)
    check(model, [{"x": floats(4, 2), "b": np.array(each)} for each in chosen])


@pytest.mark.parametrize(
    ("kind", "split", "message"),
    [
        ("int64[2]", [2, 0], r"found others \(sizes 2, 0 of the parts of 3 elements\); change"),
        ("int64[2]", [4, -1], r"found others \(sizes 4, -1 of the parts of 3 elements\); change"),
        ("int64", 0, r"found others \(size 0 of each part\); change"),
        ("int64", -2, r"found others \(size -2 of each part\); change"),
    ],
)
def test_parts_that_do_not_add_up(kind: str, split: Any, message: str) -> None:
    """Sizes of parts that do not add up to the size of the axis are refused in one line."""
    model = model_of(f"""(float[4] x, bool[4] b, {kind} s) => (int64 length) {{
      k = Compress<axis=0>(x, b)  parts = SplitToSequence<axis=0>(k, s)
      length = SequenceLength(parts) }}""")
    made = rammer_mlir.compile(model, cache=False)
    chosen = np.array([True, True, False, True])
    with pytest.raises(RammerError, match=message):
        made.run({"x": floats(4), "b": chosen, "s": np.array(split)})


def test_parts_of_negative_size() -> None:
    model = model_of("""(float[3] x) => (float[4] y, float[N] z) <int64[2] s = {4, -1}> {
      y, z = Split<axis=0>(x, s) }""")
    with pytest.raises(RammerError, match="expected parts of at least 0 elements, found sizes 4, "):
        rammer_mlir.compile(model, cache=False)


def test_sequences_whose_elements_differ() -> None:
    """ONNX infers the first element's shape for all elements that iterations append."""
    model = model_of("""(float[2] x, float[Z] z, int64 n, bool c) => (float[K] w) {
      s0 = SequenceConstruct(x)
      s = Loop(n, c, s0) <body = b (int64 i, bool d, seq(float[]) si) => (bool e, seq(float[]) so) {
        e = Identity(d)  so = SequenceInsert(si, z) }>
      w = If(c) <
        then_branch = t () => (float[A] q) { q = ConcatFromSequence<axis = 0>(s) },
        else_branch = f () => (float[B] r) { r = SequenceAt(s, n) }> }""")
    feeds = {"x": floats(2), "z": floats(3), "n": np.array(3), "c": np.array(True)}
    check(model, [feeds])
