"""Tests that folding moves expressions that a Scan reads into its body, and keeps the results.

The expressions are random.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.prepare import fold
from rammer_mlir.frontends.onnx.traversal import subgraphs
from tests.hosted.hosted_checks import assert_equal, floats, model_of, reference

STEPS, ROWS, COLUMNS = 66, 3, 5

_UNARY = ("Exp", "Tanh", "Neg", "Sigmoid", "Softplus")
_BINARY = ("Add", "Mul", "Sub", "Max", "Min")


class Expression:
    """Generates random nodes, as text, on the inputs of the model of ``model_for``.

    The operands have the shape ``[STEPS, ROWS, COLUMNS]`` or broadcast to it. The methods that add
    nodes return the name of the result; ``depth`` limits how deep the operations are nested.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[str] = []

    def node(self, text: str) -> str:
        self.nodes.append(f"n{len(self.nodes)} = {text}")
        return f"n{len(self.nodes) - 1}"

    def make(self, depth: int) -> str:
        kinds = [self.leaf, self.unary, self.binary, self.product, self.turned, self.chosen]
        kinds += [self.flipped]
        return kinds[int(self.rng.integers(len(kinds))) if depth else 0](depth - 1)

    def leaf(self, depth: int) -> str:
        return str(self.rng.choice(["rows", "columns", "once", "row", "all"]))

    def unary(self, depth: int) -> str:
        return self.node(f"{self.rng.choice(_UNARY)}({self.make(depth)})")

    def binary(self, depth: int) -> str:
        return self.node(f"{self.rng.choice(_BINARY)}({self.make(depth)}, {self.make(depth)})")

    def chosen(self, depth: int) -> str:
        less = self.node(f"Less({self.make(depth)}, {self.make(depth)})")
        return self.node(f"Where({less}, {self.make(depth)}, {self.make(depth)})")

    def product(self, depth: int) -> str:
        equation = self.rng.choice(["tr,ct->trc", "ct,tr,rc->trc", "tr,ct,tr->trc"])
        third = {"ct,tr,rc->trc": ["ct", "tr", "once"], "tr,ct->trc": ["tr", "ct"]}
        operands = third.get(str(equation), ["tr", "ct", "tr"])
        return self.node(f'Einsum<equation = "{equation}">({", ".join(operands)})')

    def turned(self, depth: int) -> str:
        whole = self.node(f"Add({self.make(depth)}, all)")
        perm = [int(n) for n in self.rng.permutation(3)]
        there = self.node(f"Transpose<perm = {perm}>({whole})")
        changed = self.node(f"{self.rng.choice(_UNARY)}({there})")
        return self.node(f"Transpose<perm = {[perm.index(n) for n in range(3)]}>({changed})")

    def flipped(self, depth: int) -> str:
        """Add an operation on tensors with permuted dimensions, and transpose its result back.

        Return the name of the transposed result.
        """
        pair, perm = [("lines, flat", [0, 2, 1]), ("last, deep", [2, 1, 0])][self.rng.integers(2)]
        whole = self.node(f"{self.rng.choice(_BINARY)}({pair})")
        return self.node(f"Transpose<perm = {perm}>({whole})")


def model_for(seed: int) -> onnx.ModelProto:
    """Return a model with a Scan over a random expression; odd seeds scan backwards."""
    made = Expression(seed)
    whole = made.node("Add(rows, columns)")
    v = made.node(f"Mul({made.make(3)}, {whole})")
    return model_of(f"""(float[{STEPS},{ROWS},1] rows, float[{STEPS},1,{COLUMNS}] columns,
      float[{ROWS},{COLUMNS}] once, float[{ROWS},1] row, float[1,{ROWS},{COLUMNS}] all,
      float[{STEPS},1,{ROWS}] lines, float[1,{COLUMNS},{ROWS}] flat,
      float[1,{ROWS},{STEPS}] last, float[{COLUMNS},{ROWS},1] deep,
      float[{STEPS},{ROWS}] tr, float[{COLUMNS},{STEPS}] ct)
      => (float[{ROWS},{COLUMNS}] y, float[{STEPS},{ROWS},{COLUMNS}] z) {{
      {" ".join(made.nodes)}
      y, z = Scan<num_scan_inputs = 1, scan_input_directions = [{seed % 2}],
        body = g (float[{ROWS},{COLUMNS}] h, float[{ROWS},{COLUMNS}] e)
        => (float[{ROWS},{COLUMNS}] k, float[{ROWS},{COLUMNS}] o) {{
          half = Constant<value = float {{0.5}}>()  p = Mul(h, half)  k = Add(p, e)
          o = Identity(k) }}>(once, {v}) }}""")


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the folded model in a form that ONNX Runtime accepts, with its weights."""
    found = fold(load(model)).model
    proto = onnx.ModelProto.FromString(found.proto.SerializeToString())
    inputs = [value for value in found.inputs]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    for name, value in found.weights.items():
        proto.graph.initializer.append(numpy_helper.from_array(value, name))
    return proto


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(seed: int) -> None:
    model = model_for(seed)
    feeds = {
        value.name: floats(*(dim.dim_value for dim in value.type.tensor_type.shape.dim), seed=n)
        for n, value in enumerate(model.graph.input)
    }
    assert_equal(reference(rewritten(model), feeds), reference(model, feeds))


def test_most_of_them_move() -> None:
    """At least 15 of the 40 random expressions move into the Scan's body.

    Otherwise ``test_random_expressions`` would compare models that folding does not change.
    """
    moved = 0
    for seed in range(40):
        (scan,) = (node for node in rewritten(model_for(seed)).graph.node if node.op_type == "Scan")
        moved += sum(len(body.node) > 3 for body in subgraphs(scan))
    assert moved >= 15
