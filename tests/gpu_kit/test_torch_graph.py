"""Tests that the kit's networks, as PyTorch graphs on the CPU, give ONNX Runtime's outputs.

The tests need torch, and are skipped without it.
"""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.gpu.kit.cases import SUBJECTS, Network, Subject
from rammer_mlir.benchmarks.gpu.kit.sources import network_model
from rammer_mlir.benchmarks.gpu.kit.store import Array, Reference
from rammer_mlir.benchmarks.gpu.kit.torch_graph import Graph, describe_graph, module_of
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.errors import UnsupportedError

NETWORKS = [subject for subject in SUBJECTS if subject.baselines and "product" not in subject.name]


@pytest.mark.parametrize("subject", NETWORKS, ids=lambda subject: subject.name)
def test_networks_agree_with_onnx_runtime(subject: Subject) -> None:
    torch = pytest.importorskip("torch")
    assert isinstance(subject.source, Network)
    model = network_model(Network(subject.source.model, "small")).model
    arrays: dict[str, Array] = {}

    def put(name: str, array: Array) -> Reference:
        arrays[name] = array
        return {"file": name}

    graph = Graph.of_json(describe_graph(model, put).to_json())
    assert graph.arrays.keys() == arrays.keys()
    feeds = random_feeds(model, 1)
    module = module_of(torch, graph, arrays)
    with torch.no_grad():
        found = module(*(torch.from_numpy(feeds[name]) for name in graph.inputs))
    outputs = {name: o.numpy() for name, o in zip(graph.outputs, found, strict=True)}
    comparison = compare(OnnxRuntime(model).run(feeds), outputs)
    assert comparison.ok, str(comparison)


def test_an_operator_that_is_not_there_is_named() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Erf", ["x"], ["y"])], "g", [x], [y])
    with pytest.raises(UnsupportedError, match=r"baseline in PyTorch: .*, found Erf; add them"):
        describe_graph(helper.make_model(graph), lambda name, array: {"file": name})
