"""Models that need no simplification are recognized without the optimizer."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnxscript.optimizer import _constant_folding

import rammer_mlir
from rammer_mlir.benchmarks.models import MODELS, build
from rammer_mlir.frontends.onnx.folding.evaluate import evaluate_constants
from rammer_mlir.frontends.onnx.folding.simplify import REWRITTEN, is_simple, simplify
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.shapes import infer_shapes

SIMPLE = [
    "resnet50", "inception_v3", "mobilenet_v2", "squeezenet", "vgg19", "lstm_tc_unrolled",
    "light_densenet121", "darknet53",
]  # fmt: skip


def folded(proto: onnx.ModelProto) -> Model:
    """Return a loaded model with inferred shapes and folded constants."""
    model = load(proto)
    model = model.with_proto(infer_shapes(model.proto))
    evaluate_constants(model)
    return model.with_proto(infer_shapes(model.proto))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_simple_models_are_not_changed(name: str) -> None:
    model = folded(build(name, scale="small"))
    assert is_simple(model) or name not in SIMPLE
    if not is_simple(model):
        return
    found = simplify(model)
    assert [n.SerializeToString(deterministic=True) for n in found.graph.node] == [
        n.SerializeToString(deterministic=True) for n in model.graph.node
    ]
    assert [v.name for v in found.graph.input] == [v.name for v in model.graph.input]
    assert [v.name for v in found.graph.output] == [v.name for v in model.graph.output]
    assert found.weights.keys() == model.weights.keys()
    for key, array in found.weights.items():
        np.testing.assert_array_equal(array, model.weights[key])


@pytest.mark.parametrize(
    "body",
    [
        "y = Relu(x)  unused = Neg(x)",
        "z = Identity(x)  y = Relu(z)",
        "z = Concat <axis = 0> (x)  y = Relu(z)",
        "s = Shape(x)  z = Reshape(x, s)  y = Relu(z)",
        "z, mask = Dropout(x)  y = Relu(z)",
    ],
)
def test_models_to_simplify_are_recognized(body: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4, 3] x) => (float[4, 3] y) '
        f"{{ {body} }}"
    )
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    loaded = load(model)
    loaded = loaded.with_proto(infer_shapes(loaded.proto))
    assert not is_simple(loaded)
    assert [node.op_type for node in simplify(loaded).graph.node] == ["Relu"]


@pytest.mark.parametrize("names", ['a, ""', '"", a'])
def test_results_without_a_name(names: str) -> None:
    """A Split is right if a result has no name, though the optimizer names or drops this result.

    Clip's omitted bound, which has no name either, must not become this result.
    """
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[6, 4] x, bool[6] m) => (float[n, 2] y) '
        f"<float top = {{3.0}}> {{ z = Compress <axis = 0> (x, m)  "
        f'{names} = Split <axis = 1, num_outputs = 2> (z)  y = Clip(a, "", top) }}'
    )
    x, kept = np.arange(24, dtype=np.float32).reshape(6, 4) - 10, np.arange(6) % 2 == 0
    half = x[kept][:, :2] if names[0] == "a" else x[kept][:, 2:]
    with rammer_mlir.compile(model, cache=False) as compiled:
        found = compiled.run({"x": x, "m": kept})["y"]
    np.testing.assert_array_equal(found, np.minimum(half, 3))


@pytest.mark.parametrize("names", ['"", y, ""', '"", "", y'])
def test_splits_without_a_name_of_the_first_result(names: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4, 6] x) => (float[4, 2] y) '
        f"{{ {names} = Split <axis = 1, num_outputs = 3> (x) }}"
    )
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    with rammer_mlir.compile(model, cache=False) as compiled:
        found = compiled.run({"x": x})["y"]
    np.testing.assert_array_equal(found, x[:, 4:] if names.endswith("y") else x[:, 2:4])


def test_the_optimizers_operators_are_known() -> None:
    rewritten = {operator for _, operator in _constant_folding.registry.op_evaluators}
    # Concat is rewritten if it has an empty operand or a single one, the others only where they
    # compute with results of Shape and Size.
    assert rewritten <= REWRITTEN | {"Abs", "Add", "Concat", "Gather", "Squeeze"}
