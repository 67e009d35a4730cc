"""Tests that a host program shares the code of equal parts, and of no others."""

from __future__ import annotations

import numpy as np
import pytest

from rammer_mlir.frontends.onnx.hosting.parts import Part
from rammer_mlir.frontends.onnx.hosting.structural_equality import identity
from rammer_mlir.frontends.onnx.model import Model
from tests.hosted.hosted_checks import check, floats, model_of

_LOOP = """(float[4] x, int64 n, bool c) => (float[4] y) {{
  p = Abs(x)
  y = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s) => (bool e, float[4] t) {{
    e = Identity(d)  {body} }}> }}"""


def _identity(body: str) -> bytes:
    model = model_of(_LOOP.format(body=body))
    return identity(Part(Model(model, {}), (), is_repeated=False, is_eager=True))


@pytest.mark.parametrize("other", [
    "u = Relu(s)  v = Neg(u)  t = Add(v, v)",
    "u = Relu(s)  v = Neg(u)  t = Add(u, u)",
    "u = Relu(s)  v = Neg(u)  t = Add(p, p)",
    "u = Relu(s)  v = Neg(u)  t = Add(x, x)",
])  # fmt: skip
def test_bodies_that_read_other_values_differ(other: str) -> None:
    assert _identity("u = Relu(s)  v = Neg(u)  t = Add(s, s)") != _identity(other)


def test_names_do_not_matter() -> None:
    first = _identity("u = Relu(s)  v = Neg(u)  t = Add(v, s)")
    assert first == _identity("a = Relu(s)  b = Neg(a)  t = Add(b, s)")


def test_constants_of_bodies() -> None:
    """Constants of a body do not take the numbers of its other values."""

    def of(value: float, result: str) -> bytes:
        constant = f"k = Constant<value = float {{{value}}}>()"
        return _identity(f"{constant}  u = Mul(s, k)  v = Neg(u)  t = Add({result}, s)")

    digests = {of(value, result) for value in (1.0, 2.0) for result in "sukvxp"}
    assert len(digests) == 12


def test_two_loops_of_different_bodies() -> None:
    """Each of two loops computes by its own body."""
    loops = "".join(
        f"""{result} = Loop(n, c, x) <body = b (int64 i, bool d, float[4] s)
          => (bool e, float[4] t) {{
        w = Loop(i, d, s) <body = b2 (int64 j, bool d2, float[4] q) => (bool e2, float[4] r) {{
          e2 = Identity(d2)  u = Relu(q)  v = Neg(u)  r = Add({value}, {value}) }}>
        t = Mul(w, w)  e = Identity(d) }}>\n"""
        for result, value in (("y", "q"), ("z", "v"))
    )
    model = model_of(f"(float[4] x, int64 n, bool c) => (float[4] y, float[4] z) {{ {loops} }}")
    check(model, [{"x": floats(4), "n": np.array(3), "c": np.array(True)}])
