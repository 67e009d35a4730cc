"""Tests that Scan of opset 8, which has a batch dimension, gives ONNX Runtime's outputs."""

from __future__ import annotations

import pytest

import rammer_mlir
from rammer_mlir.errors import UnsupportedError
from tests.hosted.hosted_checks import check, floats, model_of


def scan(steps: int, directions: str = "", lengths: str = "") -> str:
    given = ", int64[2] lens" if lengths else ""
    return f"""(float[2,4] h0, float[2,{steps},4] x, float[4] w{given})
      => (float[2,4] h, float[2,{steps},4] ys) {{
        before = Neg(x)
        h, ys = Scan<num_scan_inputs=1{directions}, body = b (float[4] s, float[4] e)
          => (float[4] t, float[4] y) {{ u = Add(s, e) v = Mul(u, w) t = Tanh(v) y = Neg(t) }}
        >({lengths}, h0, before) }}"""


@pytest.mark.parametrize("directions", ["", ", directions=[1]"])
@pytest.mark.parametrize("steps", [5, 100])
def test_every_sequence_has_its_state(steps: int, directions: str) -> None:
    feeds = {"h0": floats(2, 4), "x": floats(2, steps, 4, seed=1), "w": floats(4, seed=2)}
    check(model_of(scan(steps, directions), version=8), [feeds])


def test_lengths_of_sequences_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"expected no sequence_lens, .*, found 'lens': exp"):
        rammer_mlir.compile(model_of(scan(5, lengths="lens"), version=8))
