"""Tests that each engine computes regions in the form of graphs, which are stored as JSON.

The regions have each kind of operation; whole models are computed, too.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens import EntryHost, Reading
from rammer_mlir.codegens.graph import translate
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import MissingPackageError, TargetError
from rammer_mlir.programs.json_graph import Graph
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.runtime.executable import Executable
from tests.codegens.checks import exact, host_kernels

NAMES = ["numpy", "onnxruntime", "openvino"]

MODELS = {
    "convolutions": """(float[2,8,9,11] x) => (float[2,4,5,6] y) {
        a = Conv<kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1],group=2>(x, w4433, b4)
        r = Relu(a)  d = Conv<group=4,pads=[1,1,1,1]>(r, w4133)  s = Sigmoid(d)
        t = Mul(d, s)  y = Add(t, r) }""",
    "dilation": """(float[1,3,13,17] x) => (float[1,5,9,10] y) {
        y = Conv<dilations=[2,3],pads=[0,1,0,1]>(x, w5334) }""",
    "flat kernels": """(float[1,4,9,11] x) => (float[1,5,9,11] y) {
        a = Conv<pads=[0,3,0,3]>(x, w4417)  b = Conv<group=2,pads=[1,0,1,0]>(a, w4231)
        c = Conv<group=4,pads=[0,1,0,1]>(b, w4113)  d = Conv(c, w4411)
        y = Conv<pads=[2,0,2,0]>(d, w5451) }""",
    "one channel": """(float[2,1,9,11] x) => (float[2,1,9,11] y) {
        a = Conv<pads=[1,1,1,1]>(x, w4133, b4)  b = Relu(a)  c = Conv<pads=[1,1,1,1]>(b, w1433, b1)
        d = Sigmoid(c)  e = Conv<pads=[1,1,1,1]>(d, w1133)  y = Add(e, x) }""",
    "one filter a group": """(float[2,6,9] x) => (float[2,2,5] y) {
        a = Conv<group=2>(x, w233)  b = Relu(a)  y = Conv<group=2>(b, w213) }""",
    "one channel in space": """(float[1,1,5,6,7] x) => (float[1,1,4,5,6] y) {
        a = Conv(x, w31222)  y = Conv<pads=[0,0,0,0,0,0]>(a, w13111) }""",
    "weights of 8 bits": """(float[1,3,7,8] x) => (float[1,160,5,6] y) {
        w = DequantizeLinear<axis=0>(quantized, scales, zeros)  y = Conv(x, w) }""",
    "strides of one channel": """(float[1,6,11,13] x) => (float[1,4,5,4] y) {
        a = Conv<group=6,strides=[2,1],dilations=[1,2],pads=[1,0,0,1]>(x, w6133, b6)
        r = LeakyRelu(a)  c = Conv<group=2,strides=[1,2]>(r, w4313, b4)  y = HardSwish(c) }""",
    "one dimension": """(float[1,3,17] x) => (float[1,5,15] y) { y = Conv(x, w533, b5) }""",
    "pools": """(float[1,3,9,11] v) => (float[1,3] y) {
        x = Conv(v, w3311)  p = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],strides=[2,2]>(x)
        i = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1],strides=[2,2],count_include_pad=1>(x)
        m = MaxPool<kernel_shape=[2,3],pads=[0,1,0,1],strides=[2,2]>(x)  q = Add(p, i)
        n = GlobalAveragePool(m)  o = GlobalMaxPool(q)  s = Add(n, o)  y = Flatten(s) }""",
    "products": """(float[5,7] x, float[2,3,5] z) => (float[2,3,6] y) {
        a = MatMul(x, w76)  g = Gemm<transB=1>(x, w67, b6)  c = Add(a, g)  y = MatMul(z, c) }""",
    "batch of layers": """(float[3,5,7] x, float[3,7,9] z) => (float[3,5,9] y) {
        a = MatMul(x, z)  c = Add(a, b9)  y = Relu(c) }""",
    "softmaxes": """(float[3,5,7] x) => (float[3,5,9] y) {
        s = Softmax<axis=1>(x)  a = MatMul(s, w79)  t = Softmax<axis=0>(a)  y = Softmax(t) }""",
    "attention": """(float[2,3,5,4] q, float[2,3,5,4] k) => (float[2,5,3,4] y) {
        t = Transpose<perm=[0,1,3,2]>(k)  a = MatMul(q, t)  s = Softmax(a)  v = MatMul(s, k)
        y = Transpose<perm=[0,2,1,3]>(v) }""",
    "functions": """(float[4,6] x) => (float[4,6] y) {
        p = MatMul(x, w66)  a = Gelu(p)  b = HardSwish(a)  c = LeakyRelu<alpha=0.2>(b)
        d = Elu<alpha=0.7>(c)  e = Mish(d)  f = Softplus(e)  g = Softsign(f)
        h = HardSigmoid<alpha=0.3,beta=0.4>(g)  i = Erf(h)  j = Exp(i)  y = Sqrt(j) }""",
    "reductions": """(float[3,5,7] x) => (float[3,5,1] y) {
        p = MatMul(x, w77)  a = ReduceMean<keepdims=1>(p, last)  c = Sub(p, a)
        d = Mul(c, c)  v = ReduceSum<keepdims=1>(d, last)  m = ReduceMax<keepdims=1>(p, last)
        y = Add(v, m) }""",
    "moved": """(float[2,6,8] x) => (float[2,9,4] y) {
        p = MatMul(x, w88)  a, b = Split<axis=2,num_outputs=2>(p)  c = Add(a, b)
        d = Slice(c, one, six, one)  s = Slice(c, zero, four, one)  e = Concat<axis=1>(d, s)
        y = MatMul(e, w44) }""",
}


def model_of(name: str) -> onnx.ModelProto:
    text = (MODELS | PARTS)[name]
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {text}')
    rng = np.random.default_rng(5)
    numbers = {"last": [2], "zero": [0], "one": [1], "two": [2], "four": [4], "six": [6]}
    numbers |= {"nine": [9], "fourteen": [14]}
    large = {  # too many to be folded; equal zero points stay in the code
        "quantized": rng.integers(-128, 128, (160, 3, 3, 3)).astype(np.int8),
        "scales": rng.uniform(0, 0.01, 160).astype(np.float32),
        "zeros": np.full(160, 3, np.int8),
    }
    for word in dict.fromkeys(name for node in model.graph.node for name in node.input):
        if word in numbers:
            array = np.array(numbers[word], np.int64)
        elif word in large:
            array = large[word]
        elif word[0] in "wb" and word[1:].isdigit():
            array = rng.uniform(-0.5, 0.5, tuple(map(int, word[1:]))).astype(np.float32)
        else:
            continue
        model.graph.initializer.append(numpy_helper.from_array(array, word))
    if name == "moved":  # Slice takes starts, ends, axes, steps
        for node in model.graph.node:
            if node.op_type == "Slice":
                node.input.append("one")
    return model


def offloaded(model: Any, name: str, choice: str = "always", **options: Any) -> Executable:
    found = rammer_mlir.compile(model, offload=name, offload_choice=choice, cache=False, **options)
    assert isinstance(found, Executable)
    return found


def feeds_of(model: onnx.ModelProto) -> dict[str, Any]:
    return random_feeds(model, 2)


def check(exe: Executable, model: onnx.ModelProto) -> None:
    """Compare a run's outputs with double precision; 200 more runs must give the same bits."""
    feeds = feeds_of(model)
    found = exe.run(feeds)
    for key, value in exact(model, feeds).items():
        np.testing.assert_allclose(found[key], value, rtol=2e-5, atol=2e-5)
    for _ in range(200):
        again = exe.run(feeds)
        assert all(np.array_equal(again[key], value) for key, value in found.items())


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_each_kind(name: str, case: str) -> None:
    model = model_of(case)
    with offloaded(model, name, num_veus=2) as exe:
        assert exe.image.modules
        assert host_kernels(exe) == [], "the engine computes all of the model"
        check(exe, model)


PARTS = {
    "halves of images": """(float[2,8,9,11] x) => (float[2,7,9,11] y) {
        k, l = Split<axis=1,num_outputs=2>(x)  c = Conv<pads=[1,1,1,1]>(k, w4433, b4)
        d = Conv<pads=[1,1,1,1]>(l, w3433, b3)  y = Concat<axis=1>(c, d) }""",
    "every other column": """(float[5,14] x) => (float[5,6] y) {
        t = Exp(x)  s = Slice(t, zero, fourteen, one, two)  y = MatMul(s, w76) }""",
    "rows inside": """(float[2,9,7] x) => (float[2,4,5] y) {
        t = Tanh(x)  s = Slice(t, two, six, one)  y = MatMul(s, w75) }""",
    "joined, then cut": """(float[6,5] x, float[6,7] z) => (float[6,3] y) {
        c = MatMul(x, w54)  d = MatMul(z, w76)  e = Concat<axis=1>(c, d)
        f = Slice(e, two, nine, one)  y = MatMul(f, w73) }""",
}
"""Regions that read and write parts of larger tensors, if the host cuts and joins them."""


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("name", NAMES)
def test_parts_of_the_hosts_tensors(name: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines read and write dense operands only; the host's rOperators copy strided operands."""

    def is_expressible(reading: Reading) -> bool:
        return reading.kind not in ("slice", "concat") and translate.is_expressible(reading)

    monkeypatch.setattr("rammer_mlir.codegens.graph.codegen.is_expressible", is_expressible)
    model = model_of(case)
    with offloaded(model, name, num_veus=2) as exe:
        graphs = [Graph.from_json(module.content) for module in exe.image.modules]
        found = [node.op for graph in graphs for node in graph.nodes]
        given = [node.op_type for node in model.graph.node]
        assert all(found.count(op) == given.count(op) for op in ("Conv", "MatMul"))
        assert not {"Slice", "Concat"}.intersection(found)
        assert any(kernel.startswith("copy") for kernel in host_kernels(exe))
        check(exe, model)


@cache
def exact_of(name: str) -> dict[str, Any]:
    """Return the outputs of a small model in double precision, which takes some seconds."""
    model = build(name, scale="small")
    return exact(model, feeds_of(model))


@pytest.mark.parametrize("name", NAMES)
def test_whole_models(name: str, tmp_path: Path) -> None:
    cases = (
        ("mlp", 1, "list"), ("squeezenet", 2, "wavefront"), ("transformer_encoder", 3, "list")
    )  # fmt: skip
    for model_name, veus, policy in cases:
        model = build(model_name, scale="small")
        feeds = feeds_of(model)
        wanted = exact_of(model_name)
        for choice in ("always", "cost"):
            exe = offloaded(model, name, choice, num_veus=veus, policy=policy)
            for key, value in exe.run(feeds).items():
                np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-5)
            exe.save(tmp_path / "model.rammer")
            verify(tmp_path / "model.rammer")
            with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
                assert isinstance(loaded, Executable)
                for key, value in loaded.run(feeds).items():
                    np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-5)
            exe.close()


BLOCK = """
import sys
for name in ("torch_mlir", "mlir", "llvmlite", *sys.argv[3:]):
    sys.modules[name] = None
import numpy as np, rammer_mlir
feeds = dict(np.load(sys.argv[2]))
print({k: v.tobytes().hex() for k, v in rammer_mlir.load(sys.argv[1]).run(feeds).items()})
"""


def test_without_the_compiler(tmp_path: Path) -> None:
    model = model_of("pools")
    feeds = feeds_of(model)
    np.savez(tmp_path / "feeds.npz", **feeds)
    exe = offloaded(model, "numpy")
    exe.save(tmp_path / "pools.rammer")
    command = [sys.executable, "-c", BLOCK, str(tmp_path / "pools.rammer"),
               str(tmp_path / "feeds.npz"), "onnx"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str({k: v.tobytes().hex() for k, v in exe.run(feeds).items()})


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exe = offloaded(model_of("products"), "onnxruntime")
    exe.save(tmp_path / "products.rammer")
    monkeypatch.setattr(sys, "path", [])
    message = r"package onnxruntime, found none; install it with 'pip install rammer-mlir\[offload-"
    with pytest.raises(MissingPackageError, match=message):
        rammer_mlir.load(tmp_path / "products.rammer")
    with pytest.raises(MissingPackageError, match=message):
        exe.prepare()


def test_what_is_no_graph() -> None:
    module = CodeModule("region", "graph", "numpy", b"{}")
    for content in (b"{}", b"[]", b"{", b'{"format": "rammer-graph", "version": 1, "opset": 20}'):
        host = EntryHost(CodeModule("region", "graph", "numpy", content), "f", [], lambda _: 0)
        with pytest.raises(TargetError, match="module 'region': expected a graph in JSON, found"):
            ENGINES.get(module.engine).open(host)


def test_a_failing_run_is_one_line() -> None:
    """If a callback raises an exception, the run fails, and its error names the exception."""
    from rammer_mlir.engines.graphs import numpy_engine

    model = model_of("dilation")
    exe = offloaded(model, "numpy")
    exe.prepare()
    known: Any = numpy_engine
    before = known.evaluate
    known.evaluate = None
    try:
        with pytest.raises(TargetError, match="expected status 0, found 'TypeError: "):
            exe.run(feeds_of(model))
    finally:
        known.evaluate = before
    exe.run(feeds_of(model))


def test_json_and_back() -> None:
    (module,) = offloaded(model_of("convolutions"), "numpy").image.modules
    graph = Graph.from_json(module.content)
    assert Graph.from_json(graph.to_json()) == graph
    assert [node.op for node in graph.nodes].count("Conv") == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("case", "number"), [("flat kernels", 5), ("one channel", 3)])
def test_convolutions_without_an_axis_are_in_one_graph(case: str, number: int, name: str) -> None:
    """All convolutions are in one graph, even if their operands lack the axes of size 1."""
    (module,) = offloaded(model_of(case), name).image.modules
    assert [node.op for node in Graph.from_json(module.content).nodes].count("Conv") == number


@pytest.mark.filterwarnings("ignore:offload. expected regions")  # too small to pay
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_extreme_constants(number: str) -> None:
    text = "g (float[4,64] x) => (float[4,64] y) { r = Relu(x)  y = Add(r, c) }"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    constant = np.float32(number)
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(constant), "c"))
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    with rammer_mlir.compile(model, offload="numpy", offload_choice="always") as compiled:
        np.testing.assert_array_equal(compiled(x), np.maximum(x, 0) + constant)
