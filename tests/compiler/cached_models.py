"""Models for tests of the cache, and changes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from rammer_mlir.runtime.executable import Executable

Array = np.ndarray[Any, np.dtype[Any]]


def retrained(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return the model with other values of all weights of more than 16 elements."""
    copy, rng = onnx.ModelProto.FromString(model.SerializeToString()), np.random.default_rng(seed)
    for tensor in copy.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32 and value.size > 16:
            noise = 1 + 0.1 * rng.standard_normal(value.shape)
            tensor.CopyFrom(numpy_helper.from_array((value * noise).astype("f4"), tensor.name))
    return copy


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with other names of all nodes, weights and values, and of its interface."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    names: dict[str, str] = {}

    def new(name: str) -> str:
        return names.setdefault(name, f"value {len(names)}") if name else ""

    graph = copy.graph
    del graph.value_info[:]
    for item in (*graph.input, *graph.output, *graph.initializer):
        item.name = new(item.name)
    for number, node in enumerate(graph.node):
        node.name = f"node {number}"
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    return copy


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    rng, feeds = np.random.default_rng(seed), dict[str, Array]()
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        is_float = value.type.tensor_type.elem_type == TensorProto.FLOAT
        numbers = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = np.asarray(numbers).astype(kind)
    return feeds


def check(executable: Executable, model: onnx.ModelProto, seed: int) -> None:
    """Compare results on random inputs with ONNX Runtime's."""
    feeds = feeds_of(model, seed)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs = [value.name for value in model.graph.output]
    expected = dict(zip(outputs, map(np.asarray, session.run(outputs, feeds)), strict=True))
    found = executable.run(feeds)
    assert list(found) == outputs
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-3, atol=2e-4)


def network(
    *,
    size: int = 24,
    scale: float = 0.5,
    axis: int = 1,
    operator: str = "Relu",
    shared: bool = False,
    swapped: bool = False,
    reordered: bool = False,
) -> onnx.ModelProto:
    """Return a model of two branches, each with a product, their difference, and a softmax.

    Args:
        size: number of columns of the products.
        scale: constant by which the second branch is multiplied.
        axis: axis of the softmax.
        operator: activation of the first branch.
        shared: whether both products have the same weight.
        swapped: whether the operands of the difference are exchanged.
        reordered: whether the nodes of the second branch come first.
    """
    rng = np.random.default_rng(3)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    second = "a" if shared else "b"
    left = [
        helper.make_node("MatMul", ["x", "a"], ["l0"]),
        helper.make_node(operator, ["l0"], ["l1"]),
    ]
    right = [
        helper.make_node("MatMul", ["x", second], ["r0"]),
        helper.make_node("Mul", ["r0", "scale"], ["r1"]),
    ]
    operands = ["r1", "l1"] if swapped else ["l1", "r1"]
    nodes = [*right, *left] if reordered else [*left, *right]
    nodes.append(helper.make_node("Sub", operands, ["d"]))
    nodes.append(helper.make_node("Softmax", ["d"], ["y"], axis=axis))
    initializers = [
        weight("a", 16, size),
        numpy_helper.from_array(np.array(scale, np.float32), "scale"),
    ]
    if not shared:
        initializers.append(weight("b", 16, size))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, size])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


DIFFERENT: dict[str, onnx.ModelProto] = {
    "attribute": network(axis=0),
    "scalar": network(scale=0.25),
    "shape": network(size=25),
    "operator": network(operator="Sigmoid"),
    "sharing": network(shared=True),
    "wiring": network(swapped=True),
}

EQUAL: dict[str, Callable[[], onnx.ModelProto]] = {
    "other weights": lambda: retrained(network(), 1),
    "other names": lambda: renamed(network()),
    "another order": lambda: network(reordered=True),
    "all of these": lambda: renamed(retrained(network(reordered=True), 2)),
}
"""Changes of ``network()`` with which its program is the same, but for weights and names."""
