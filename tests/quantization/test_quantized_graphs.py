"""Tests that the JSON graphs for engines state the element types of quantized values.

Version 1 of the graphs' format has no element types.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rammer_mlir.engines.graphs.entry import constant_array
from rammer_mlir.engines.graphs.numpy_engine import evaluate
from rammer_mlir.programs.json_graph import Graph, GraphConstant, GraphNode, GraphTensor


def test_types_are_written_and_read() -> None:
    graph = Graph(
        "g", (GraphTensor("x", (2, 3)), GraphTensor("w", (3, 2), "i8")),
        (GraphTensor("y", (2, 2), "i32"),),
        (GraphConstant("s", (), (0.5,), "f32"), GraphConstant("z", (), (-3,), "i8")),
        (GraphNode("QuantizeLinear", ("x", "s", "z"), ("q",)),
         GraphNode("MatMulInteger", ("q", "w"), ("y",))),
    )  # fmt: skip
    assert Graph.from_json(graph.to_json()) == graph
    x = np.array([[0.25, 0.75, 100], [-100, 1.25, -0.25]], np.float32)
    w = np.arange(6, dtype=np.int8).reshape(3, 2)
    found = evaluate(graph, {"x": x, "w": w})
    # Ties round to even, ends are clipped.
    np.testing.assert_array_equal(found["q"], [[-3, -1, 127], [-128, -1, -3]])
    np.testing.assert_array_equal(found["y"], found["q"].astype(np.int32) @ w)
    assert found["q"].dtype == np.int8 and found["y"].dtype == np.int32


def first_version(**changed: Any) -> bytes:
    constants = [
        {"name": "a", "shape": [2], "values": [3, 4]}, {"name": "b", "shape": [], "values": [0.5]},
    ]  # fmt: skip
    tensor = {"name": "x", "shape": [2]}
    head = {"format": "rammer-graph", "version": 1, "opset": 20, "name": "g", "nodes": []}
    return json.dumps(
        {**head, "inputs": [tensor], "outputs": [], "constants": constants, **changed}
    ).encode()


def test_the_first_version_is_read() -> None:
    graph = Graph.from_json(first_version())
    assert graph.inputs == (GraphTensor("x", (2,), "f32"),)
    assert [constant_array(each).dtype for each in graph.constants] == [np.int64, np.float32]


def test_refused() -> None:
    with pytest.raises(ValueError, match="3, 20 instead of rammer-graph, 2, 20"):
        Graph.from_json(first_version(version=3))
    tensor = {"name": "x", "shape": [2], "element_type": "u4"}
    with pytest.raises(ValueError, match="expected elements of f32, f16, i8, i32, i64, found u4"):
        Graph.from_json(first_version(version=2, inputs=[tensor]))
