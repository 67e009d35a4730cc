"""Tests that ONNX models written without the package `onnx` equal those written with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rammer_mlir.engines.graphs.entry import constant_array, dtype_of
from rammer_mlir.engines.graphs.onnx_model import onnx_model
from rammer_mlir.programs.json_graph import Graph, GraphConstant, GraphNode, GraphTensor
from tests.codegens.test_graphs import MODELS, feeds_of, model_of, offloaded


def by_package(graph: Graph, weights: dict[str, Any]) -> onnx.ModelProto:
    """Return the model of a graph as the package ``onnx`` makes it.

    ``weights`` are the arrays of the model's weights by name, besides the graph's constants.
    """

    def info(tensor: GraphTensor) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(dtype_of(tensor))
        return helper.make_tensor_value_info(tensor.name, kind, tensor.shape)

    arrays = {c.name: constant_array(c) for c in graph.constants} | weights
    nodes: list[onnx.NodeProto] = []
    for node in graph.nodes:
        attributes: dict[str, Any] = dict(node.attributes)
        nodes.append(helper.make_node(node.op, node.inputs, node.outputs, **attributes))
    made = helper.make_graph(
        nodes, graph.name, [info(t) for t in graph.inputs if t.name not in weights],
        [info(t) for t in graph.outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def check(graph: Graph, weights: dict[str, Any]) -> None:
    found = onnx.ModelProto.FromString(onnx_model(graph, weights))
    assert found.SerializeToString() == by_package(graph, weights).SerializeToString()


ALL_KINDS = Graph(
    "kinds",
    (GraphTensor("x", (2, 3)), GraphTensor("w", (3, 300), "i8"), GraphTensor("h", (), "f16")),
    (GraphTensor("y", (2, 3), "i32"), GraphTensor("é", (1,), "i64")),
    (
        GraphConstant("c", (3,), (-1, 0, 1 << 40)),
        GraphConstant("n", (), (0.5,), "f32"),
        GraphConstant("none", (0,), ()),
    ),
    (
        GraphNode("One", ("x", "", "c"), ("y",), {"i": -3, "s": "no", "big": 1 << 62}),
        GraphNode("Two", (), ("a", "é"), {"is": [1, -1, 300], "fs": [0.5, 2.0], "f": -0.25}),
    ),
)


def test_each_kind_of_field() -> None:
    weights = {"w": np.arange(900, dtype=np.int8).reshape(3, 300), "h": np.float16(2).reshape(())}
    check(ALL_KINDS, weights)
    check(ALL_KINDS, {})


@pytest.mark.parametrize("case", MODELS)
def test_graphs_of_models(case: str) -> None:
    with offloaded(model_of(case), "numpy") as exe:
        for module in exe.image.modules:
            graph = Graph.from_json(module.content)
            held = {t.name: np.ones(t.shape, dtype_of(t)) for t in graph.inputs[1:]}
            check(graph, held)
            onnx.checker.check_model(onnx_model(graph, held))


BLOCK = """
import sys
for name in ("torch_mlir", "mlir", "llvmlite", "onnx", "google.protobuf"):
    sys.modules[name] = None
import importlib.metadata as metadata
known = metadata.distribution
def distribution(name):
    if name == "onnx":
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.distribution = distribution
import numpy as np, rammer_mlir
feeds = dict(np.load(sys.argv[2]))
found = rammer_mlir.load(sys.argv[1]).run(feeds)
print({k: v.tobytes().hex() for k, v in found.items()})
"""


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_process_without_the_package(name: str, tmp_path: Path) -> None:
    """An artifact runs in a process in which the package ``onnx`` cannot be imported."""
    model = model_of("convolutions")
    feeds = feeds_of(model)
    np.savez(tmp_path / "feeds.npz", **feeds)
    with offloaded(model, name) as exe:
        exe.save(tmp_path / "model.rammer")
        wanted = str({k: v.tobytes().hex() for k, v in exe.run(feeds).items()})
    command = [
        sys.executable,
        "-c",
        BLOCK,
        str(tmp_path / "model.rammer"),
        str(tmp_path / "feeds.npz"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == wanted
