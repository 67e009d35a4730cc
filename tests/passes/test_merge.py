"""Tests that random models with merged convolutions or products give ONNX Runtime's outputs."""

from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build
from rammer_mlir.benchmarks.models.feeds import random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError


class _Model:
    """Builds a random model of two to four convolutions of one image, which ``seed`` determines."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def _weight(self, name: str, *shape: int) -> str:
        values = self._numbers.standard_normal(shape).astype(np.float32)
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def build(self) -> onnx.ModelProto:
        rng = self._rng
        batch, channels, size = rng.choice((1, 1, 2)), rng.randint(1, 9), rng.randint(6, 11)
        stride, activation = rng.choice((1, 1, 2)), rng.choice(("", "Relu", "Sigmoid"))
        outputs: list[str] = []
        for number in range(rng.randint(2, 4)):
            window = rng.choice(((1, 1), (3, 3), (1, 3), (5, 5), (3, 1)))
            pads = [side // 2 for side in window] * 2
            inputs = ["x", self._weight(f"w{number}", rng.randint(1, 20), channels, *window)]
            if rng.random() < 0.8:
                filters = self._weights[-1].dims[0]
                inputs.append(self._weight(f"b{number}", filters))
            name = f"c{number}"
            strides = [stride if rng.random() < 0.9 else 1] * 2
            node = helper.make_node("Conv", inputs, [name], pads=pads, strides=strides)
            self._nodes.append(node)
            if activation and rng.random() < 0.9:
                self._nodes.append(helper.make_node(activation, [name], [f"a{number}"]))
                name = f"a{number}"
            outputs.append(name)
        if rng.random() < 0.5:
            self._joined(outputs, stride)
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, size, size])
        graph = helper.make_graph(self._nodes, "g", [image], infos, self._weights)
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)

    def _joined(self, outputs: list[str], stride: int) -> None:
        """Concatenate the outputs if all convolutions have the same stride."""
        steps = [list(a.ints) for n in self._nodes for a in n.attribute if a.name == "strides"]
        if all(step == [stride, stride] for step in steps):
            self._nodes.append(helper.make_node("Concat", outputs, ["y"], axis=1))
            outputs[:] = ["y"]


def _run(model: onnx.ModelProto, merge: float, image: np.ndarray) -> tuple[str, list[np.ndarray]]:
    options = check_options("cpu", policy="wavefront", num_veus=2, merge=merge)
    compilation = Compilation.of_model(model, options)
    text = compilation.emit("operators").decode()
    with compilation.executable() as executable:
        found = executable.run({"x": image})
    return text, [np.asarray(found[spec.name], np.float32) for spec in model.graph.output]


def _check(model: onnx.ModelProto, merge: float, seed: int) -> str:
    """Check a model against ONNX Runtime; return its IR at the `operators` stage.

    ``merge`` is the allowed growth of arithmetic by merging; ``seed`` determines the input.
    """
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected = OnnxRuntime(model.SerializeToString(), 1).run({"x": x})
    text, found = _run(model, merge, x)
    for spec, array in zip(model.graph.output, found, strict=True):
        reference = np.asarray(expected[spec.name], np.float32)
        np.testing.assert_allclose(array, reference, rtol=1e-4, atol=1e-4)
    return text


@pytest.mark.parametrize("seed", range(12))
def test_merged_convolutions_are_right(seed: int) -> None:
    _check(_Model(seed).build(), 30.0, seed)


def test_most_of_them_are_merged() -> None:
    """At least 8 of the 12 random models have merged operators; otherwise they test little."""
    merged = 0
    for seed in range(12):
        options = check_options("cpu", policy="wavefront", num_veus=2, merge=30.0)
        text = Compilation.of_model(_Model(seed).build(), options).emit("operators").decode()
        merged += "rtask.parts" in text
    assert merged >= 8


def _fire() -> onnx.ModelProto:
    """Return a fire module: a 1x1 and a 3x3 convolution of one image, concatenated."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (16, 8, 1, 1), "b1": (16,), "w3": (16, 8, 3, 3), "b3": (16,)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"]),
        helper.make_node("Conv", ["x", "w3", "b3"], ["c3"], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["c1", "c3"], ["y"], axis=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 6, 6])
    graph = helper.make_graph(nodes, "fire", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_growth_decides() -> None:
    """Operators are merged only if the arithmetic grows by no more than the option allows.

    Extending 16 filters from 1x1 to 3x3 gives 1.8 times the arithmetic.
    """
    for merge, is_merged in ((0.0, False), (1.0, False), (1.79, False), (1.81, True)):
        options = check_options("cpu", policy="wavefront", num_veus=1, merge=merge)
        text = Compilation.of_model(_fire(), options).emit("operators").decode()
        assert ("rtask.parts" in text) == is_merged


def test_a_concatenation_of_all_results_is_the_merged_result() -> None:
    options = check_options("cpu", policy="wavefront", num_veus=1, merge=2.0)
    text = Compilation.of_model(_fire(), options).emit("operators").decode()
    assert "extract_slice" not in text
    assert "dim(1)" not in text


def test_who_merges() -> None:
    assert check_options("cpu", policy="ios", num_veus=1).merge_growth == 1.0
    assert check_options("cpu", policy="wavefront", num_veus=1).merge_growth == 0.0
    assert check_options("cpu", policy="ios", num_veus=1, merge=0).merge_growth == 0.0
    for growth in (0.5, -1.0, float("inf"), float("nan")):
        with pytest.raises(OptionError, match="merge: expected 0 for no merging, or a growth"):
            check_options("cpu", policy="ios", num_veus=1, merge=growth)


def test_images_that_were_merged_themselves() -> None:
    """Convolutions of a value that is itself a part of a merged result are merged correctly."""
    weights = np.random.default_rng(5).standard_normal((4, 8, 8, 1, 1)).astype(np.float32)
    text = """<ir_version: 9, opset_import: ["" : 17]>
g (float[1,8,5,5] x) => (float[1,8,5,5] b, float[1,8,5,5] c, float[1,8,5,5] d) {
  a = Conv(x, w0)
  b = Conv(x, w1)
  c = Conv(a, w2)
  d = Conv(a, w3)
}"""
    model = onnx.parser.parse_model(text)
    for number, weight in enumerate(weights):
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"w{number}"))
    x = np.random.default_rng(6).standard_normal((1, 8, 5, 5)).astype(np.float32)
    w = weights[..., 0, 0].astype(np.float64)
    a, b = (np.einsum("oc,nchw->nohw", w[n], x) for n in (0, 1))
    c, d = (np.einsum("oc,nchw->nohw", w[n], a) for n in (2, 3))
    with rammer_mlir.compile(model, policy="ios", num_veus=2) as executable:
        for found, expected in zip(executable(x), (b, c, d), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def _products(seed: int) -> onnx.ModelProto:
    """Return a random model of products of one matrix, each with a bias and a ReLU.

    Some weights are transposed.
    """
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    rows, inner = rng.randint(1, 9), rng.randint(1, 40)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    outputs: list[str] = []
    for number in range(rng.randint(2, 4)):
        columns, order = rng.randint(1, 40), rng.random() < 0.5
        shape = (columns, inner) if order else (inner, columns)
        for name, size in ((f"w{number}", shape), (f"b{number}", (columns,))):
            values = numbers.standard_normal(size).astype(np.float32)
            weights.append(numpy_helper.from_array(values, name))
        inputs = ["x", f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Gemm", inputs, [f"p{number}"], transB=int(order)))
        nodes.append(helper.make_node("Relu", [f"p{number}"], [f"y{number}"]))
        outputs.append(f"y{number}")
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    matrix = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, inner])
    graph = helper.make_graph(nodes, "g", [matrix], infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("seed", range(8))
def test_merged_products_are_right(seed: int) -> None:
    assert "rtask.parts" in _check(_products(seed), 1.0, seed)


def test_a_merged_product_stands_in_front_of_all_that_read_from_it() -> None:
    """A merged product is placed before all operations that read it.

    IOS orders operators differently from the module, so that the later product may come first.
    """
    text = """<ir_version: 9, opset_import: ["" : 17]>
g (float[2,96] x) => (float[2,96] a, float[2,96] b, float[2,96] c, float[2,96] d) {
  t = Tanh(x)
  q = MatMul(x, w0)
  s = Sigmoid(t)
  p = MatMul(s, w0)
  r = Tanh(p)
  a = Tanh(q)
  b = MatMul(t, w0)
  m = ReduceMean <axes = [0], keepdims = 1> (w1)
  u = Add(r, m)
  o = MatMul(s, w1)
  c = Tanh(o)
  n = ReduceMean <axes = [0], keepdims = 1> (w0)
  d = Add(u, n)
}"""
    model = onnx.parser.parse_model(text)
    weights = np.random.default_rng(7).standard_normal((2, 96, 96)).astype(np.float32) / 10
    for number, weight in enumerate(weights):
        model.graph.initializer.append(numpy_helper.from_array(weight, f"w{number}"))
    x = np.random.default_rng(8).standard_normal((2, 96)).astype(np.float32)
    expected = OnnxRuntime(model.SerializeToString(), 1).run({"x": x})
    with rammer_mlir.compile(model, policy="ios", num_veus=1) as executable:
        outcome = compare(expected, executable.run({"x": x}))
    assert outcome.ok, outcome


def test_products_behind_views_and_in_front_of_them() -> None:
    """Queries, keys and values of an attention layer are computed by one merged product.

    Its parts are read as strided views.
    """
    model = build("attention", 2, "small")
    feeds = random_feeds(model, seed=3)
    expected = OnnxRuntime(model.SerializeToString(), 1).run(feeds)
    compilation = Compilation.of_model(
        model, check_options("cpu", policy="wavefront", num_veus=2, merge=1.0)
    )
    text = compilation.emit("operators").decode()
    merged = re.findall(r'rtask\.constant = "[^"+]+\+[^"+]+\+[^"+]+"', text)
    assert len(set(merged)) == 2  # the weights, and the biases
    with compilation.executable() as executable:
        found = executable.run(feeds)
    outcome = compare(expected, found)
    assert outcome.ok, outcome


def test_casts_to_different_types_are_not_merged() -> None:
    """The chains after two products of one input differ only in the types of their casts."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
      g (float[16,32] x) => (float[16,24] y, float[16,24] z) {
        a = MatMul(x, v)  c = Cast<to = 10>(a)  y = Cast<to = 1>(c)
        b = MatMul(x, w)  d = Cast<to = 16>(b)  z = Cast<to = 1>(d) }""")
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((32, 24)).astype(np.float32) for name in "vw"}
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    x = rng.standard_normal((16, 32)).astype(np.float32)
    with rammer_mlir.compile(model, cache=False, num_veus=1, merge=1) as made:
        found = made.run({"x": x})
    for name, weight, dtype in (("y", "v", np.float16), ("z", "w", ml_dtypes.bfloat16)):
        exact = (x @ weights[weight]).astype(dtype).astype(np.float32)
        assert (found[name] != exact).mean() < 0.05, name  # sums are rounded in another order
