"""Tests which sums and products of floats become fma instructions on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from ptx_models import Interpreted

COUNT = 64
X = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
Z = np.random.default_rng(1).standard_normal(COUNT).astype(np.float32)

Node = tuple[str, tuple[str, ...], str]


def run(
    nodes: list[Node], results: list[str], **feeds: NDArray[Any]
) -> tuple[dict[str, NDArray[Any]], str]:
    """Run elementwise nodes (operator, inputs, output) on vectors; return the results and PTX."""
    made = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [COUNT]) for name in names]
        for names in (feeds, results)
    )
    graph = helper.make_graph(made, "elementwise", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    interpreted = Interpreted(model, num_veus=2)
    found = interpreted.executable().run(feeds)
    return {name: np.asarray(array) for name, array in found.items()}, interpreted.ptx


@pytest.mark.parametrize(
    "difference",
    [
        [("Sub", ("a", "b"), "c")],
        [("Neg", ("b",), "negative"), ("Add", ("a", "negative"), "c")],
    ],
)
def test_differences_of_products(difference: list[Node]) -> None:
    """The difference of the squares of equal numbers is zero, not a negative rounding error."""
    squares: list[Node] = [("Mul", ("x", "x"), "a"), ("Mul", ("z", "z"), "b")]
    found, _ = run([*squares, *difference, ("Sqrt", ("c",), "y")], ["y"], x=X, z=X.copy())
    np.testing.assert_array_equal(found["y"], 0.0)


def test_shared_products() -> None:
    """A product with two uses is rounded before one of them subtracts from it."""
    nodes: list[Node] = [
        ("Mul", ("x", "z"), "product"),
        ("Sub", ("product", "w"), "difference"),
        ("Div", ("difference", "product"), "y"),
    ]
    found, _ = run(nodes, ["y"], x=X, z=Z, w=X * Z)
    np.testing.assert_array_equal(found["y"], 0.0)


def test_sums_with_one_product() -> None:
    nodes: list[Node] = [("Mul", ("x", "z"), "product"), ("Add", ("product", "w"), "y")]
    found, ptx = run(nodes, ["y"], x=X, z=Z, w=Z)
    assert "fma.rn.f32" in ptx
    np.testing.assert_allclose(found["y"], X * Z + Z, rtol=1e-5, atol=1e-6)
