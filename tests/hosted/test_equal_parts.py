"""Tests that a host program shares the code of equal parts, and of no others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

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


@pytest.mark.parametrize(("first", "second"), [
    ("t, u = Split<axis = 0>(s)", "t, u, v = Split<axis = 0>(s)"),
    ("t = Abs(s)", "t, u = Abs(s)"),
    ("t = MaxPool<kernel_shape = [1]>(s)", ", t = MaxPool<kernel_shape = [1]>(s)"),
])  # fmt: skip
def test_results_count_with_their_positions(first: str, second: str) -> None:
    digests = {
        _identity_of_nodes(onnx.parser.parse_graph(f"b (float[4] s) => (float[2] t) {{ {body} }}"))
        for body in (first, second, second)
    }
    assert len(digests) == 2


def test_lists_of_subgraphs_and_overloads() -> None:
    """Subgraphs in a list count without their names; overloads of a function differ."""

    def of(text: str, overload: str = "") -> bytes:
        inner = onnx.parser.parse_graph(f"b () => (float[4] {text[0]}) {{ {text} }}")
        node = helper.make_node("Call", ["s"], ["t"], domain="my", overload=overload)
        node.attribute.append(helper.make_attribute("bodies", [inner]))
        outer = onnx.parser.parse_graph("b (float[4] s) => (float[4] t) { t = Abs(s) }")
        outer.node[0].CopyFrom(node)
        return _identity_of_nodes(outer)

    assert of("u = Relu(s)") == of("v = Relu(s)")
    assert len({of("u = Relu(s)"), of("u = Neg(s)"), of("u = Relu(s)", "other")}) == 3


def _identity_of_nodes(graph: onnx.GraphProto) -> bytes:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return identity(Part(Model(model, {}), (), is_repeated=False, is_eager=True))


def test_branches_that_split_differently() -> None:
    branches = ", ".join(
        f"""{kind}_branch = {kind} () => (float[k] {parts[0]}) {{
          {kind}_s = Sigmoid(x)  {", ".join(parts)} = Split<axis = 0>({kind}_s) }}"""
        for kind, parts in (("then", "ab"), ("else", "pqr"))
    )
    model = model_of(
        f"(float[6] x, bool c) => (float[k] y) {{ y = If(c) <{branches}> }}", version=13
    )
    check(model, [{"x": floats(6), "c": np.array(condition)} for condition in (True, False)])


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
