"""Small models, samples of their inputs, and helpers that quantize models and compare outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.runtime.executable import Executable

Array = NDArray[Any]

LENET = """(float[1,1,20,20] x) => (float[1,10] y) {
    a = Conv<kernel_shape=[5,5]>(x, w6155, b6)  b = Relu(a)
    c = MaxPool<kernel_shape=[2,2],strides=[2,2]>(b)  d = Conv<pads=[1,1,1,1]>(c, w16_6_3_3, b16)
    e = Relu(d)  f = MaxPool<kernel_shape=[2,2],strides=[2,2]>(e)  g = Flatten(f)
    h = Gemm<transB=1>(g, w30_256, b30)  i = Relu(h)  y = Gemm(i, w30_10, b10) }"""

RESNET = """(float[1,4,8,8] x) => (float[1,5] y) {
    s = Conv<pads=[1,1,1,1]>(x, w8433, b8)  r = Relu(s)
    a = Conv<pads=[1,1,1,1]>(r, w8833, b8)  b = Relu(a)
    c = Conv<pads=[1,1,1,1],group=2>(b, w8433, b8)  d = Add(c, r)  e = Relu(d)
    f = Conv<pads=[1,1,1,1],strides=[2,2],group=8>(e, w8133)
    p = GlobalAveragePool(f)  q = Flatten(p)  y = Gemm(q, w85, b5) }"""

SMALL = """(float[1,4,8,8] x) => (float[1,5] y) {
    a = Conv<pads=[1,1,1,1],group=2>(x, w8233, b8)  b = Relu(a)
    c = Conv<pads=[1,1,1,1],strides=[2,2],group=8>(b, w8133)
    p = MaxPool<kernel_shape=[2,2],strides=[2,2]>(c)  q = Flatten(p)  y = Gemm(q, w32_5, b5) }"""
"""A model of three layers of different kinds, for tests that compile several programs."""

ATTENTION = """(float[2,5,8] x) => (float[2,5,8] y) {
    q = MatMul(x, w88)  k = MatMul(x, w8_8)  v = MatMul(x, w_8_8)
    t = Transpose<perm=[0,2,1]>(k)  a = MatMul(q, t)  s = Softmax(a)  y = MatMul(s, v) }"""


def model_of(text: str, weights: Mapping[str, Array] | None = None) -> onnx.ModelProto:
    """Return the model of ``text``, a graph in ONNX's syntax, with random weights.

    An input of a node whose name is a shape is such a weight: ``w8133`` has the shape [8, 1, 3, 3],
    ``w30_256`` the shape [30, 256], and ``b30`` the shape [30]. ``weights`` has the values of
    weights with other names.
    """
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {text}')
    rng = np.random.default_rng(5)
    for word in dict.fromkeys(name for node in model.graph.node for name in node.input):
        if word[0] not in "wb" or not word[1:].replace("_", "").isdigit():
            continue
        text = word[1:].strip("_")
        is_split = "_" in text or word[0] == "b"
        shape = tuple(map(int, text.split("_") if is_split else text))
        array = rng.standard_normal(shape).astype(np.float32) / 2
        model.graph.initializer.append(numpy_helper.from_array(array, word))
    for name, array in (weights or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    return model


def samples_of(model: onnx.ModelProto, count: int = 8, seed: int = 0) -> dict[str, Array]:
    """Return random samples of each input, stacked along a new first dimension."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.standard_normal(
            (count, *(dim.dim_value for dim in value.type.tensor_type.shape.dim))
        ).astype(np.float32)
        for value in model.graph.input
    }


def feeds_of(samples: Mapping[str, Array], number: int = 0) -> dict[str, Array]:
    """Return the inputs of a run: those of the sample of index ``number``."""
    return {name: array[number] for name, array in samples.items()}


def quantized(model: onnx.ModelProto, samples: Any, bits: int = 8, **options: Any) -> Executable:
    """Compile a model with quantized regions, calibrated on ``samples``.

    Without the option ``offload``, each layer is a region.
    """
    found = rammer_mlir.compile(
        model, quantize=bits, calibration=samples, cache=False, num_veus=2, **options
    )
    assert isinstance(found, Executable)
    return found


def expected(model: onnx.ModelProto, feeds: Any) -> dict[str, Array]:
    """Return the outputs that ONNX Runtime computes, by name."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, feeds)), strict=True))


def decibels(exact: Array, found: Array) -> float:
    """Return the signal-to-noise ratio in decibels of ``found``, whose noise is its error."""
    reference = exact.astype(np.float64)
    return float(10 * np.log10(np.square(reference).sum() / np.square(reference - found).sum()))
