"""Small models with open dimensions, and arrays as inputs of these models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.open_models.model import OpenModel

Array = np.ndarray[Any, np.dtype[Any]]
Dims = Sequence[int | str | None]


def weight(seed: int, *shape: int) -> Array:
    """Return normally distributed float32 numbers of a shape, which ``seed`` determines."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims | None],
    outputs: Mapping[str, Dims | None],
    **weights: Array,
) -> onnx.ModelProto:
    """Return a model of float tensors.

    A dimension is a size, a symbol, or None for an unnamed open dimension. None in place of the
    dimensions leaves the whole shape open.
    """

    def values(given: Mapping[str, Dims | None]) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in given.items()
        ]

    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(list(nodes), "open", values(inputs), values(outputs), initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("our.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def layer(first: Dims = ("batch", "length", 8)) -> onnx.ModelProto:
    """Return a model of ``y = relu(x @ w) @ v`` with constant weights that the compiler packs."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "v"], ["y"], name="second"),
    ]
    weights = {"w": weight(0, 8, 200), "v": weight(1, 200, 8)}
    return model_of(nodes, {"x": first}, {"y": first}, **weights)


def decoder(layers: int = 2) -> onnx.ModelProto:
    """Return a decoder of one head whose caches of keys and values grow.

    In each layer, ``t`` new rows attend to ``past`` cached rows and to the new rows.
    """
    names = [f"{kind}{number}" for number in range(layers) for kind in "kv"]
    nodes: list[onnx.NodeProto] = []
    hidden = "x"
    for n in range(layers):
        nodes += [
            helper.make_node("MatMul", [hidden, f"wk{n}"], [f"key{n}"]),
            helper.make_node("MatMul", [hidden, f"wv{n}"], [f"value{n}"]),
            helper.make_node("Concat", [f"k{n}", f"key{n}"], [f"new_k{n}"], axis=1),
            helper.make_node("Concat", [f"v{n}", f"value{n}"], [f"new_v{n}"], axis=1),
            helper.make_node("Transpose", [f"new_k{n}"], [f"kt{n}"], perm=[0, 2, 1]),
            helper.make_node("MatMul", [hidden, f"kt{n}"], [f"score{n}"]),
            helper.make_node("Softmax", [f"score{n}"], [f"share{n}"], axis=-1),
            helper.make_node("MatMul", [f"share{n}", f"new_v{n}"], [f"mixed{n}"]),
            helper.make_node("Add", [hidden, f"mixed{n}"], [f"y{n}"]),
        ]
        hidden = f"y{n}"
    weights = {f"w{kind}{n}": weight(n, 8, 8) for n in range(layers) for kind in "kv"}
    inputs: dict[str, Dims | None] = {"x": ("batch", "t", 8)}
    inputs |= {name: ("batch", "past", 8) for name in names}
    outputs: dict[str, Dims | None] = {hidden: ("batch", "t", 8)}
    outputs |= {f"new_{name}": ("batch", "total", 8) for name in names}
    return model_of(nodes, inputs, outputs, **weights)


def decoder_feeds(batch: int, t: int, past: int, layers: int = 2) -> dict[str, Array]:
    """Return inputs of a decoder: ``t`` new rows, and caches of ``past`` rows."""
    caches = {f"{k}{n}": weight(n, batch, past, 8) for n in range(layers) for k in "kv"}
    return {"x": weight(9, batch, t, 8), **caches}


def compiled(model: onnx.ModelProto | Path, **options: Any) -> OpenModel:
    """Compile a model that has open dimensions, by default without the compile cache."""
    given: dict[str, Any] = {"cache": False, "specializations": 16, **options}
    made = rammer_mlir.compile(model, **given)
    assert isinstance(made, OpenModel)
    return made


def expected(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs that ONNX Runtime computes, by name."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, dict(feeds))), strict=True))


def check_run(model: onnx.ModelProto, made: OpenModel, feeds: Mapping[str, Array]) -> None:
    """Check that a compiled model computes the outputs that ONNX Runtime computes."""
    found = made.run(feeds)
    reference = expected(model, feeds)
    assert found.keys() == reference.keys()
    for name, array in reference.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4)
