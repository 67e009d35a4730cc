"""Tests that matrix products with the same weights are batched into one product.

The results are compared with float64.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.passes.contractions.row_batches import equal_parts

SIZE = 96
"""Rows and columns of a weight, which therefore has more than 32 KiB."""


class _Network:
    """A network under construction: products of rows with weights, and Tanh of sums of rows.

    Each value is also computed in float64, as the reference.
    """

    def __init__(self, seed: int) -> None:
        numbers = np.random.default_rng(seed)
        self._weights = {
            f"w{n}": (numbers.standard_normal((SIZE, SIZE)) / SIZE**0.5).astype(np.float32)
            for n in range(4)
        }
        self.image = numbers.standard_normal((4, SIZE)).astype(np.float32)
        self._nodes: list[onnx.NodeProto] = []
        self._values: dict[str, NDArray[np.float64]] = {"x": self.image.astype(np.float64)}

    def product(self, source: str, weight: str, transposed: bool = False) -> str:
        values, weights = self._values[source], self._weights[weight]
        if transposed:
            return self._add("Gemm", [source, weight], values @ weights.T, transB=1)
        return self._add("MatMul", [source, weight], values @ weights)

    def activation(self, left: str, right: str) -> str:
        added = self._add("Add", [left, right], self._values[left] + self._values[right])
        return self._add("Tanh", [added], np.tanh(self._values[added]))

    def row(self, number: int) -> str:
        self._weights[f"row{number}"] = np.array([number])
        return self._add("Gather", ["x", f"row{number}"], self._values["x"][[number]], axis=0)

    def _add(self, kind: str, inputs: list[str], value: NDArray[np.float64], **more: Any) -> str:
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], **more))
        self._values[name] = value
        return name

    def check(self, outputs: list[str]) -> int:
        """Compile the network and check its outputs; return the number of matmul rOperators."""
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, SIZE]) for n in outputs]
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, SIZE])
        weights = [numpy_helper.from_array(value, name) for name, value in self._weights.items()]
        graph = helper.make_graph(self._nodes, "g", [image], infos, weights)
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        options = check_options("cpu", policy="wavefront", num_veus=2)
        text = Compilation.of_model(model, options).emit("operators")
        found = Compilation.of_model(model, options).executable().run({"x": self.image})
        for name in outputs:
            np.testing.assert_allclose(found[name], self._values[name], rtol=1e-4, atol=1e-5)
        return len(re.findall(rb'rtask.operator "[^"]*" @matmul', text))


def _random(seed: int) -> None:
    """Check a random network, in which products and activations read random earlier values.

    Batching must not increase the number of products: the program has at most one matmul
    rOperator for each product of the network.
    """
    rng, network = random.Random(seed), _Network(seed)
    rows = [network.row(number) for number in range(4)]
    products = 12
    for _ in range(products):
        transposed = rng.random() < 0.3
        rows.append(network.product(rng.choice(rows), f"w{rng.randrange(4)}", transposed))
        rows.append(network.activation(*rng.sample(rows, 2)))
    assert network.check(rows[-6:]) <= products


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_keep_their_results(seed: int) -> None:
    _random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 40))
def test_more_random_networks_keep_their_results(seed: int) -> None:
    _random(seed)


@pytest.mark.parametrize("by_steps", [False, True])
def test_inputs_of_a_recurrent_layer_are_batched_and_its_states_are_not(by_steps: bool) -> None:
    """A layer's products of inputs are batched over time steps, its products of states are not.

    ``by_steps`` selects the order of the cells in the model: by time step, or by layer.
    """
    network, steps, layers = _Network(0), 4, 2
    inputs = {(0, step): network.row(step) for step in range(steps)}
    cells = [(layer, step) for layer in range(layers) for step in range(steps)]
    for layer, step in sorted(cells, key=lambda cell: cell[::-1] if by_steps else cell):
        x = network.product(inputs[layer, step], f"w{layer}")
        before = inputs.get((layer + 1, step - 1), inputs[0, 0])
        state = network.product(before, f"w{layers + layer}")
        inputs[layer + 1, step] = network.activation(x, state)
    assert network.check([inputs[layers, steps - 1]]) == layers + layers * steps


@pytest.mark.parametrize(
    ("total", "most", "sizes"),
    [(100, 16, [10] * 10), (12, 16, [12]), (17, 16, [8, 9]), (13, 4, [3, 3, 3, 4]), (2, 1, [1, 1])],
)
def test_parts_are_equal_where_that_is_possible(total: int, most: int, sizes: list[int]) -> None:
    parts = equal_parts(range(total), most)
    assert [len(part) for part in parts] == sizes
    assert [number for part in parts for number in part] == list(range(total))
