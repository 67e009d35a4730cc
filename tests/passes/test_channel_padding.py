"""Tests that random networks with padded channels give ONNX Runtime's outputs."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.ir.body_values import evaluate_body

SEEDS = range(16)
CELL_SEEDS = range(8)


class _Network:
    """A random network under construction; each layer reads a random earlier value."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._values: dict[str, tuple[int, int]] = {}

    def layers(self) -> onnx.ModelProto:
        """Return a network of random layers with an image ``x`` as input and one or two outputs."""
        rng = self._rng
        self._values["x"] = (3, rng.randint(7, 11))
        self._convolution("x")
        for _ in range(rng.randint(5, 9)):
            layer = rng.choice(
                (self._convolution, self._convolution, self._depthwise, self._pool, self._scale,
                 self._activation, self._sum, self._concat, self._softmax, self._slice)
            )  # fmt: skip
            layer(rng.choice(list(self._values)[1:][-3:]))
        self._convolution(list(self._values)[-1])
        return self._model()

    def cells(self) -> onnx.ModelProto:
        """Return a network of two cells; each concatenates values with equal channel counts."""
        rng = self._rng
        self._values["x"] = (3, rng.randint(7, 11))
        channels, source = rng.choice((12, 13, 24, 28)), "x"
        for _ in range(2):
            block = self._convolution(source, channels)
            blocks = [block, self._depthwise(block), self._softmax(block)]
            blocks += [self._pool(rng.choice(blocks), 1), self._activation(rng.choice(blocks))]
            blocks += [self._sum(blocks[-1])]
            source = self._joined(rng.sample(blocks, rng.randint(2, 4)))
        self._convolution(self._activation(source))
        return self._model()

    def _model(self) -> onnx.ModelProto:
        rng = self._rng
        last = list(self._values)[-1]
        results = dict.fromkeys([last, rng.choice(list(self._values)[1:])])
        shape = [rng.choice((1, 2)), *self._shape("x")]
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "g", [image], infos, self._weights)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)

    def _shape(self, name: str) -> tuple[int, int, int]:
        channels, size = self._values[name]
        return channels, size, size

    def _weight(self, *shape: int) -> str:
        name = f"w{len(self._weights)}"
        values = self._numbers.standard_normal(shape).astype(np.float32)
        self._weights.append(
            numpy_helper.from_array(values / math.sqrt(math.prod(shape[1:])), name)
        )
        return name

    def _add(
        self, kind: str, inputs: list[str], channels: int, size: int, **attributes: Any
    ) -> str:
        name = f"v{len(self._values)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self._values[name] = (channels, size)
        return name

    def _convolution(self, source: str, filters: int = 0) -> str:
        channels, size = self._values[source]
        window = self._rng.choice((1, 3))
        filters = filters or self._rng.choice((12, 13, 15, 16, 24, 28, 31, 40))
        inputs = [source, self._weight(filters, channels, window, window)]
        if self._rng.random() < 0.7:
            inputs.append(self._weight(filters))
        return self._add("Conv", inputs, filters, size, pads=[window // 2] * 4)

    def _depthwise(self, source: str) -> str:
        channels, size = self._values[source]
        weight = self._weight(channels, 1, 3, 3)
        return self._add("Conv", [source, weight], channels, size, pads=[1] * 4, group=channels)

    def _pool(self, source: str, pad: int | None = None) -> str:
        channels, size = self._values[source]
        kind = self._rng.choice(("MaxPool", "AveragePool"))
        pad = self._rng.choice((0, 1)) if pad is None else pad
        if size <= 3:
            return source
        out = size - 2 + 2 * pad
        return self._add(kind, [source], channels, out, kernel_shape=[3, 3], pads=[pad] * 4)

    def _scale(self, source: str) -> None:
        """Append a Mul, Add or Sub node, at random, whose operands are ``source`` and a constant.

        The constant has a number for each channel (in 7 of 10 cases) or a single number.
        """
        channels, size = self._values[source]
        weight = self._weight(channels, 1, 1) if self._rng.random() < 0.7 else self._weight(1)
        self._add(self._rng.choice(("Mul", "Add", "Sub")), [source, weight], channels, size)

    def _activation(self, source: str) -> str:
        kind = self._rng.choice(("Relu", "Sigmoid", "HardSwish", "Tanh", "LeakyRelu", "Exp"))
        if kind == "Exp":  # and one over it: what divides zero by zero in further channels
            source = self._add("Tanh", [source], *self._values[source])
            source = self._add("Exp", [source], *self._values[source])
            kind = "Reciprocal"
        return self._add(kind, [source], *self._values[source])

    def _sum(self, source: str) -> str:
        others = [name for name, shape in self._values.items() if shape == self._values[source]]
        kind = self._rng.choice(("Add", "Mul"))
        return self._add(kind, [source, self._rng.choice(others)], *self._values[source])

    def _concat(self, source: str) -> None:
        size = self._values[source][1]
        others = [name for name, shape in self._values.items() if shape[1] == size]
        self._joined([source, self._rng.choice(others)])

    def _joined(self, parts: list[str]) -> str:
        channels = sum(self._values[name][0] for name in parts)
        return self._add("Concat", parts, channels, self._values[parts[0]][1], axis=1)

    def _softmax(self, source: str) -> str:
        return self._add("Softmax", [source], *self._values[source], axis=1)

    def _slice(self, source: str) -> None:
        channels, size = self._values[source]
        bounds = [np.array([n], np.int64) for n in (self._rng.choice((0, 1)), channels - 1, 1)]
        names: list[str] = []
        for bound in bounds:
            names.append(f"n{len(self._weights)}")
            self._weights.append(numpy_helper.from_array(bound, names[-1]))
        kept = int(bounds[1][0] - bounds[0][0])
        self._add("Slice", [source, *names], kept, size)


def _compile(model: onnx.ModelProto) -> Compilation:
    return Compilation.of_model(model, check_options("cpu", policy="wavefront", num_veus=2))


@pytest.mark.parametrize("seed", SEEDS)
def test_padded_networks_are_right(seed: int) -> None:
    _check(_Network(seed).layers(), seed)


@pytest.mark.parametrize("seed", CELL_SEEDS)
def test_networks_with_runs_of_channels_are_right(seed: int) -> None:
    _check(_Network(seed).cells(), seed)


def _check(model: onnx.ModelProto, seed: int) -> None:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    image = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected = OnnxRuntime(model.SerializeToString(), 1).run({"x": image})
    with _compile(model).executable() as executable:
        outcome = compare(expected, executable.run({"x": image}))
    assert outcome.ok, outcome


def _operators(model: onnx.ModelProto) -> str:
    return _compile(model).emit("operators").decode()


def test_most_of_them_are_padded() -> None:
    """At least half of the random networks have padded channels; otherwise they test little."""
    texts = [_operators(_Network(seed).layers()) for seed in SEEDS]
    assert sum("rtask.parts" in text for text in texts) >= len(SEEDS) // 2


def test_many_of_them_have_runs() -> None:
    """In at least half of the networks of cells, some weights are padded run by run.

    A run has the channels of one operand of a concatenation.
    """
    runs = re.compile(r"shape = array<i64: [2-9], (12|13|24|28), ")
    texts = [_operators(_Network(seed).cells()) for seed in CELL_SEEDS]
    assert sum(runs.search(text) is not None for text in texts) >= len(CELL_SEEDS) // 2


BODY = """
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {{
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %0 = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}}
      ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%z : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    {0}
    linalg.yield %r : f32
  }} -> tensor<4xf32>
  return %0 : tensor<4xf32>
}}
"""

NAN = math.nan


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("%r = arith.addf %a, %half : f32", (1.0, None, None), 1.5),
        ("%r = arith.addf %a, %b : f32", (1.0, None, None), None),
        ("%r = arith.divf %a, %b : f32", (1.0, 0.0, None), None),
        ("%r = math.exp %a : f32", (1e6, None, None), None),
        ("%r = math.sqrt %a : f32", (-1.0, None, None), None),
        ("%r = math.log %a : f32", (1.0, None, None), None),  # not in the table
        ("%r = arith.maximumf %a, %b : f32", (1.0, NAN, None), NAN),
        ("%r = arith.maxnumf %a, %zero : f32", (-1.0, None, None), 0.0),
        (
            "%p = arith.cmpf olt, %a, %zero : f32\n%r = arith.select %p, %zero, %a : f32",
            (-2.0, None, None),
            0.0,
        ),
        (
            "%p = arith.cmpf uge, %a, %b : f32\n%r = arith.select %p, %a, %half : f32",
            (3.0, NAN, None),
            3.0,
        ),
        (
            "%p = arith.cmpf une, %a, %b : f32\n%r = arith.select %p, %a, %half : f32",
            (3.0, 3.0, None),
            0.5,
        ),
        (
            "%p = arith.cmpf ord, %a, %b : f32\n%r = arith.select %p, %a, %half : f32",
            (3.0, NAN, None),
            0.5,
        ),
    ],
)
def test_bodies_of_numbers(
    body: str, arguments: tuple[float | None, ...], expected: float | None
) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(BODY.format(body))
        function = next(iter(module.body.operations))
        generic = next(
            op
            for op in function.operation.regions[0].blocks[0].operations
            if op.operation.name == "linalg.generic"
        )
        (found,) = evaluate_body(generic, arguments)
    assert found == expected or (found is not None and expected is not None and found != found)
