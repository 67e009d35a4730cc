"""Tests that models whose regions a toy code generator takes give ONNX Runtime's outputs.

The whole pipeline compiles the models, and the host computes the regions.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from graphs import GENERAL
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions.codegen import CODEGENS, RegionFacts
from rammer_mlir.passes.regions.interval_partition import Limits
from rammer_mlir.passes.regions.patterns import CompositePattern, constant, op, wildcard
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.scheduling.device_costs import Device

Array = NDArray[Any]


class Chosen:
    """A code generator that takes a pseudo-random share of the operations.

    A convolution or matmul forms a composite with the bias and the ReLU that follow it.
    """

    name: ClassVar[str] = "chosen"

    def __init__(self, share: float, limits: Limits | None = None) -> None:
        self.share, self.held = share, limits or Limits()

    def patterns(self) -> Sequence[CompositePattern]:
        conv = op(("conv2d", "matmul"), wildcard("x"), constant("w"))
        biased = conv.optional(lambda c: op("add", c, constant("b")))
        return [CompositePattern("chosen.conv", biased.optional(lambda c: op("relu", c)))]

    def supports(self, reading: Reading) -> bool:
        text = f"{reading.kind} {reading.output.shape} {[each.shape for each in reading.inputs]}"
        return zlib.crc32(text.encode()) % 1000 < 1000 * self.share

    def limits(self) -> Limits:
        return self.held

    def worth(self, facts: RegionFacts, device: Device) -> bool:
        return True


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Iterator[Chosen]:
    codegen = Chosen(*request.param)
    CODEGENS.register("chosen", codegen)
    yield codegen
    CODEGENS.unregister("chosen")


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


class Graph:
    """An ONNX model under construction; ``seed`` determines its random weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(normal(self.rng, *shape), name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def model(self, shape: Sequence[int], *outputs: str) -> onnx.ModelProto:
        kind = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            self.weights,
        )
        opset = helper.make_opsetid("", 20)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def network(seed: int) -> onnx.ModelProto:
    """Return a small image network with convolutions, pooling, a concatenation and a softmax."""
    g = Graph(seed)
    stem = g.node("Conv", "x", g.weight(8, 3, 3, 3), g.weight(8), pads=[1] * 4, strides=[2, 2])
    stem = g.node("Relu", stem)
    left = g.node("Conv", stem, g.weight(8, 8, 1, 1), g.weight(8))
    right = g.node("Conv", stem, g.weight(8, 4, 3, 3), g.weight(8), group=2, pads=[1] * 4)
    right = g.node("Sigmoid", right)
    deep = g.node("Conv", right, g.weight(8, 1, 3, 3), group=8, pads=[0, 1, 2, 1])
    joined = g.node("Concat", left, g.node("Add", deep, stem), axis=1)
    pooled = g.node("MaxPool", joined, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    mean = g.node("AveragePool", joined, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    both = g.node("Mul", pooled, mean)
    flat = g.node("Flatten", g.node("GlobalAveragePool", both))
    scores = g.node("Gemm", flat, g.weight(10, 16), g.weight(10), transB=1)
    return g.model((2, 3, 15, 13), g.node("Softmax", scores), both)


def random_network(seed: int) -> onnx.ModelProto:
    """Return a network of operations on images of one size, connected at random."""
    rng, g = random.Random(seed), Graph(seed)
    values = ["x"]
    for _ in range(rng.randint(6, 14)):
        kind = rng.choice(("Conv", "Conv", "Relu", "Add", "Mul", "MaxPool", "Tanh", "Pad"))
        a, b = rng.choice(values[-4:]), rng.choice(values[-4:])
        if kind == "Conv":
            group = rng.choice((1, 1, 2, 4))
            bias = [g.weight(4)] if rng.random() < 0.5 else []
            new = g.node(kind, a, g.weight(4, 4 // group, 3, 3), *bias, pads=[1] * 4, group=group)
        elif kind == "MaxPool":
            new = g.node(kind, a, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "Pad":
            pads = g.node("Constant", value_ints=[0, 0, 1, 0, 0, 0, -1, 0])
            new = g.node(kind, a, pads)
        else:
            new = g.node(kind, *([a, b] if kind in ("Add", "Mul") else [a]))
        values.append(new)
    return g.model((1, 4, 7, 6), values[-1], values[-2])


def regions(passes: Sequence[str]) -> list[str]:
    return [
        *GENERAL,
        "rtask-match-composites{table=chosen}",
        "rtask-annotate-regions{codegens=chosen}",
        *passes,
        "rtask-outline-regions",
    ]


def check(model: onnx.ModelProto, *passes: str, policy: str = "wavefront") -> int:
    """Check a model compiled with regions against ONNX Runtime; return the number of regions."""
    imported = import_model(model)
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(imported.bytecode)
    run_pipeline(module, f"builtin.module({','.join(regions(passes))})")
    calls = [o for o in entry_block(module).operations if o.operation.name == "func.call"]
    options = check_options(num_veus=2, policy=policy)
    text = str(module).encode()
    compilation = Compilation(replace(imported, bytecode=text), options)
    (given,) = model.graph.input
    shape = [each.dim_value for each in given.type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with compilation.executable() as exe:
        found = exe.run({"x": x})
    for info, expected in zip(model.graph.output, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(found[info.name], np.asarray(expected), rtol=1e-4, atol=1e-5)
    return len(calls)


@pytest.mark.parametrize("chosen", [(1.0,)], indirect=True)
def test_everything_is_one_region(chosen: Chosen) -> None:
    assert check(network(0), "rtask-merge-regions", "rtask-split-regions") == 1


@pytest.mark.parametrize("chosen", [(1.0,)], indirect=True)
def test_every_operation_is_a_region(chosen: Chosen) -> None:
    assert check(network(0)) > 10


@pytest.mark.parametrize("chosen", [(0.6,)], indirect=True)
@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
def test_some_operations_are_regions(chosen: Chosen, policy: str) -> None:
    merged = "rtask-merge-regions{siblings=true}"
    assert check(network(0), merged, "rtask-split-regions", policy=policy) > 0


@pytest.mark.parametrize("chosen", [(0.7, Limits(operations=2))], indirect=True)
def test_random_networks(chosen: Chosen) -> None:
    counts = [
        check(random_network(seed), "rtask-merge-regions", "rtask-split-regions{min-macs=0}")
        for seed in range(6)
    ]
    assert sum(counts) > 6
