"""Tests that functions that a model defines give right results.

The reference is ONNX Runtime, or a computation in the test.
"""

from __future__ import annotations

import cpu_runner
import numpy as np
import onnx
import pytest
from node_checks import Array, expected_outputs, floats

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx import import_model

LEAKY = """<domain: "my", opset_import: ["": 18]>
leaky <alpha: float=2.0>(p) => (r) { r = LeakyRelu<alpha: float=@alpha>(p) }"""

NESTED = (
    LEAKY
    + """
<domain: "my", opset_import: ["": 18, "my": 1]>
outer <beta>(p) => (r) { q = my.leaky<alpha: float=@beta>(p)
  r = my.leaky<alpha=0.25>(q) }"""
)


def parsed(body: str, functions: str, opset: int = 18) -> onnx.ModelProto:
    """Return a model with inputs ``x`` and ``c`` and output ``y``.

    ``body`` is the text of its nodes, ``functions`` that of its functions.
    """
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "my": 1]>\n'
        f"test (float[6] x, bool c) => (float[6] y) {{ {body} }}\n{functions}"
    )


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    """Import and run a model; return its output ``y``."""
    return cpu_runner.run(import_model(model), feeds)["y"]


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ("y = my.leaky(x)", LEAKY),
        ("y = my.leaky<alpha=0.5>(x)", LEAKY),
        ("a = my.leaky<alpha=0.5>(x)\n y = my.leaky(a)", LEAKY),
        ("y = my.outer<beta=3.0>(x)", NESTED),
        (
            "y = If(c)<then_branch = t () => (float[6] a) { a = my.leaky(x) },"
            "else_branch = e () => (float[6] a) { a = my.leaky<alpha=3.0>(x) }>",
            LEAKY,
        ),
    ],
)
def test_attributes_have_their_defaults(body: str, functions: str) -> None:
    model = parsed(body, functions)
    for condition in (True, False):
        feeds: dict[str, Array] = {"x": floats(6), "c": np.array(condition)}
        expected = expected_outputs(model, feeds)["y"]
        np.testing.assert_allclose(run(model, feeds), expected, rtol=1e-6)


def test_a_reference_to_what_is_not_given_takes_the_inner_default() -> None:
    x = floats(6)
    found = run(parsed("y = my.outer(x)", NESTED), {"x": x, "c": np.array(True)})
    first = np.where(x < 0, np.float32(2) * x, x)
    np.testing.assert_allclose(found, np.where(first < 0, np.float32(0.25) * first, first))


def test_an_argument_handed_back() -> None:
    functions = """<domain: "my", opset_import: ["": 18]>
    both (p) => (r, p) { r = Exp(p) }"""
    x = floats(6)
    found = run(
        parsed("a, b = my.both(x)\n y = Sub(a, b)", functions), {"x": x, "c": np.array(True)}
    )
    np.testing.assert_allclose(found, np.exp(x) - x, rtol=1e-5, atol=1e-6)


def test_a_function_of_an_older_opset() -> None:
    x = floats(6)
    found = run(parsed("y = my.leaky(x)", LEAKY, opset=21), {"x": x, "c": np.array(True)})
    np.testing.assert_allclose(found, np.where(x < 0, np.float32(2) * x, x))


def test_names_that_look_like_those_inside_a_function() -> None:
    functions = """<domain: "my", opset_import: ["": 18]>
    twice (p) => (r) { a = Exp(p)
      r = Add(a, a) }"""
    model = parsed('"y/a" = Neg(x)\n b = my.twice(x)\n y = Add("y/a", b)', functions)
    model.graph.node[1].name = "y"
    x = floats(6)
    np.testing.assert_allclose(
        run(model, {"x": x, "c": np.array(True)}), 2 * np.exp(x) - x, rtol=1e-5
    )


def test_a_function_that_calls_itself() -> None:
    functions = """<domain: "my", opset_import: ["": 18, "my": 1]>
    endless (p) => (r) { r = my.endless(p) }"""
    with pytest.raises(ModelError, match="my::endless"):
        import_model(parsed("y = my.endless(x)", functions))
