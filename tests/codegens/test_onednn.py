"""Tests that oneDNN, as a code generator, computes each operation and whole models right.

A run leaves the number of threads that the caller has set for OpenMP unchanged. A missing package
and a failing call of the library raise errors.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens import Region, RegionCode
from rammer_mlir.codegens.onednn import codegen
from rammer_mlir.codegens.onednn.codegen import OneDnn
from rammer_mlir.codegens.table_code import TableCode
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.runtime.executable import Executable
from tests.codegens.checks import exact, host_kernels, veus_with_modules
from tests.runtime.test_without_compiler import python

Arrays = dict[str, NDArray[Any]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Return a list that receives the names of operations of each region that oneDNN takes."""
    found: list[list[str]] = []
    generate: Callable[[OneDnn, Region], RegionCode | None] = OneDnn.generate

    def spied(self: OneDnn, region: Region) -> RegionCode | None:
        code = generate(self, region)
        if code is not None:
            found.append([each.name for each in region.operations])
        return code

    monkeypatch.setattr(OneDnn, "generate", spied)
    yield found


def model_of(body: str, inputs: str, output: str = "y", **weights: tuple[int, ...]) -> Any:
    """Return a model with random weights.

    Args:
        body: the nodes, in ONNX's text syntax.
        inputs: declarations of the inputs in this syntax, separated by commas.
        output: name of the float output ``y``; more declarations of outputs may follow it.
        weights: shapes of the weights, by name.
    """
    text = f'<ir_version: 10, opset_import: ["": 20]> g ({inputs}) => (float {output}) {{ {body} }}'
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        values = rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
        tensor = numpy_helper.from_array(values.astype(np.float32), name)
        model.graph.initializer.append(tensor)
    for each in model.graph.output:
        each.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


def feeds_of(model: Any, seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        each.name: rng.standard_normal(
            [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for each in model.graph.input
    }


def compiled(model: Any, **options: Any) -> Executable:
    given: Any = {"offload": "onednn", "offload_choice": "always", "cache": False, **options}
    found = rammer_mlir.compile(model, **given)
    assert isinstance(found, Executable)
    return found


def check(exe: Executable, model: Any, tolerance: float = 2e-5) -> None:
    feeds = feeds_of(model)
    found = exe.run(feeds)
    for name, wanted in exact(model, feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance)


IMAGE = "float[2,5,13,17] x"

CONVOLUTIONS: dict[str, tuple[str, Any]] = {
    "strides": ("y = Conv<strides=[2,3], pads=[1,0,2,1]>(x, w, b)", {"w": (7, 5, 3, 5), "b": (7,)}),
    "dilation": ("y = Conv<dilations=[2,3], pads=[2,2,1,2]>(x, w)", {"w": (19, 5, 3, 3)}),
    "depthwise": ("y = Conv<group=5, pads=[1,1,1,1]>(x, w, b)", {"w": (5, 1, 3, 3), "b": (5,)}),
    "multiplied": ("y = Conv<group=5, strides=[2,2]>(x, w)", {"w": (10, 1, 3, 3)}),
    "points": ("y = Conv(x, w, b)", {"w": (33, 5, 1, 1), "b": (33,)}),
    "points with many weights": ("y = Conv(x, w)", {"w": (900, 5, 1, 1)}),
    "steps-of-points": ("y = Conv<strides=[2,1]>(x, w)", {"w": (6, 5, 1, 1)}),
    "whole": ("y = Conv(x, w)", {"w": (3, 5, 13, 17)}),
    "groups": ("c = Conv(x, v)  y = Conv<group=3>(c, w, b)",
               {"v": (9, 5, 1, 1), "w": (6, 3, 3, 3), "b": (6,)}),
    "one channel": ("c = Conv<pads=[1,1,1,1]>(x, v, a)  d = Relu(c)  y = Conv(d, w, b)",
                    {"v": (1, 5, 3, 3), "a": (1,), "w": (4, 1, 3, 3), "b": (4,)}),
    "one filter and a tensor": (
        "c = Conv<pads=[1,1,1,1]>(x, w, b)  d = Conv<pads=[1,1,1,1]>(x, v)  y = Add(c, d)",
        {"w": (1, 5, 3, 3), "b": (1,), "v": (1, 5, 3, 3)},
    ),
    "padded-apart": ("p = Pad(x, widths)  y = Conv(p, w)", {"w": (4, 5, 3, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, taken: list[list[str]]) -> None:
    body, weights = CONVOLUTIONS[name]
    model = model_of(body, IMAGE, **weights)
    widths = np.array([0, 0, 1, 2, 0, 0, 0, 1])
    model.graph.initializer.append(numpy_helper.from_array(widths, "widths"))
    check(compiled(model), model)
    kinds = [kind for region in taken for kind in region]
    assert set(kinds) <= {"onednn.convolution", "reshape"}
    assert kinds.count("onednn.convolution") == body.count("Conv")


BEHIND = {
    "bias and relu": "c = Conv(x, w, b)  y = Relu(c)",
    "tensor added, then relu": "c = Conv<pads=[1,1,1,1]>(x, w, b)  a = Add(c, r)  y = Relu(a)",
    "tensor added in front": "c = Conv<pads=[1,1,1,1]>(x, w)  y = Add(r, c)",
    "relu, then tensor added": "c = Conv<pads=[1,1,1,1]>(x, w, b)  a = Relu(c)  y = Add(a, r)",
    "its own input added": "c = Conv<pads=[1,1,1,1]>(x, w, b)  y = Add(c, x)",
    "clip": "c = Conv(x, w, b)  y = Clip(c, low, high)",
    "leaky": "c = Conv(x, w, b)  y = LeakyRelu<alpha=0.3>(c)",
    "elu": "c = Conv(x, w, b)  y = Elu<alpha=0.7>(c)",
    "sigmoid": "c = Conv(x, w, b)  y = Sigmoid(c)",
    "tanh": "c = Conv(x, w, b)  y = Tanh(c)",
    "gelu": "c = Conv(x, w, b)  y = Gelu(c)",
    "mish": "c = Conv(x, w, b)  y = Mish(c)",
    "softplus": "c = Conv(x, w, b)  y = Softplus(c)",
    "hard sigmoid": "c = Conv(x, w, b)  y = HardSigmoid<alpha=0.25, beta=0.4>(c)",
    "hard swish": "c = Conv(x, w, b)  y = HardSwish(c)",
    "swish": "c = Conv(x, w, b)  d = Sigmoid(c)  y = Mul(c, d)",
    "exp, root, logarithm": "c = Conv(x, w, b)  d = Exp(c)  e = Sqrt(d)  f = Log(e)  y = Abs(f)",
    "maxima": "c = Conv(x, w)  y = MaxPool<kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]>(c)",
    "wide maxima": "c = Conv(x, w)  y = MaxPool<kernel_shape=[3,3], dilations=[2,2]>(c)",
    "averages": "c = Conv(x, w)  y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(c)",
    "averages with padding": """c = Conv(x, w)
        y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(c)""",
    "softmax of channels": "c = Conv(x, w)  y = Softmax<axis=1>(c)",
    "softmax of columns": "c = Conv(x, w)  y = Softmax(c)",
    "two readers": "c = Conv(x, w)  d = Relu(c)  e = Tanh(c)  y = Add(d, e)",
    "product of tensors": "c = Conv(x, w)  d = Conv(x, w)  e = Relu(d)  y = Mul(c, e)",
    "two layers": "c = Conv(x, w, b)  d = Relu(c)  y = Conv<pads=[2,2,0,1]>(d, w)",
    "returned and read": "z = Conv(x, w, b)  d = Relu(z)  y = Conv<pads=[2,2,0,1]>(d, w)",
}


POOLED = {
    "maxima": "max_pool",
    "averages": "average_pool",
    "averages with padding": "average_pool",
    "softmax of channels": "softmax",
    "softmax of columns": "softmax",
}
"""The second primitive of a region, beside the convolution."""


@pytest.mark.parametrize("name", BEHIND)
def test_steps_behind_a_convolution(name: str, taken: list[list[str]]) -> None:
    reads_another = "r)" in BEHIND[name] or "(r," in BEHIND[name]
    inputs = "float[2,5,9,11] x" + ", float[2,5,9,11] r" * reads_another
    output = "y, float z" if "z =" in BEHIND[name] else "y"
    model = model_of(BEHIND[name], inputs, output, w=(5, 5, 3, 3), b=(5,))
    for bound, value in {"low": -0.2, "high": 0.4}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), bound))
    exe = compiled(model)
    check(exe, model)
    assert len(taken) == 1 and len(exe.image.entries) == 1
    if name == "wide maxima":
        assert taken == [["onednn.convolution"]], "the library has no fast code of them"
    else:
        assert host_kernels(exe) == [], "the library computes all of the model"
    if name in POOLED:
        assert taken == [["onednn.convolution", POOLED[name]]]
    if name in ("bias and relu", "clip", "hard swish") or "added" in name:
        assert taken == [["onednn.convolution"]], "one primitive"


OTHERS = {
    "lines": ("y = Conv<pads=[2,1], strides=[2]>(x, w, b)", "float[2,5,31] x", (4, 5, 4), (4,)),
    "volumes": ("y = Conv<pads=[1,0,1,1,1,0]>(x, w, b)", "float[1,3,5,6,7] x",
                (4, 3, 2, 3, 3), (4,)),
    "product": ("c = MatMul(x, w)  d = Add(c, b)  y = Relu(d)", "float[5,7] x", (7, 11), (11,)),
    "transposed": ("y = Gemm<transB=1>(x, w, b)", "float[5,7] x", (11, 7), (11,)),
    "row": ("c = Gemm<transB=1>(x, w, b)  y = Gelu(c)", "float[1,7] x", (11, 7), (11,)),
    "rows of a stack": ("y = MatMul(x, w)", "float[3,5,7] x", (7, 9), (1,)),
    "stack": ("y = MatMul(x, r)", "float[3,5,7] x, float[3,7,9] r", (1,), (1,)),
    "attention": ("t = Transpose<perm=[0,2,1]>(r)  s = MatMul(x, t)  y = Softmax(s)",
                  "float[3,5,8] x, float[3,6,8] r", (1,), (1,)),
    "product with a sum": ("c = MatMul(x, w)  y = Add(c, r)", "float[5,7] x, float[5,9] r",
                           (7, 9), (1,)),
    "layers": ("c = Gemm(x, w, b)  d = Relu(c)  y = MatMul(d, v)", "float[6,7] x", (7, 9), (9,)),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_lines_volumes_and_products(name: str, taken: list[list[str]]) -> None:
    body, inputs, w, b = OTHERS[name]
    model = model_of(body, inputs, w=w, b=b, v=(9, 3))
    exe = compiled(model)
    check(exe, model)
    assert len(taken) == 1
    assert host_kernels(exe) == [], "the library computes all of the model"


@pytest.mark.parametrize("name", ["mlp", "squeezenet", "mobilenet_v2"])
def test_whole_models(name: str, tmp_path: Path) -> None:
    model = build(name, scale="small")
    feeds = random_feeds(model, 0)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    wanted = dict(zip(names, session.run(names, feeds), strict=True))
    for veus, policy, choice in (
        (1, "wavefront", "always"),
        (2, "list", "always"),
        (3, "wavefront", "always"),
        (2, "wavefront", "cost"),
        (3, "list", "cost"),
    ):
        exe = compiled(model, num_veus=veus, policy=policy, offload_choice=choice)
        # With vectors of 8, the library has no fast code for some of these few channels.
        some = name != "squeezenet" or host_machine().has_feature("avx512f")
        assert exe.image.modules or choice == "cost" or not some
        exe.save(tmp_path / "model.rammer")
        verify(tmp_path / "model.rammer")
        found = exe.run(feeds)
        for each in names:
            np.testing.assert_allclose(found[each], np.asarray(wanted[each]), rtol=1e-4, atol=1e-5)
        exe.close()


WEIGHTED = """a = Conv<pads=[1,1,1,1]>(x, w, b)  y = Relu(a)
    d = Conv<pads=[1,1,1,1]>(r, w, b)  z = Relu(d)"""

AT_ONCE = {
    "a state each": (WEIGHTED, "float[1,16,40,40] x, float[1,16,40,40] r", 2),
    "one state": ("y = MatMul(x, r)  z = MatMul(r, x)", "float[4,64,64] x, float[4,64,64] r", 1),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_two_regions_at_once(name: str) -> None:
    """Two vEUs run oneDNN's code in one program; all runs give the same bits."""
    body, inputs, states = AT_ONCE[name]
    model = model_of(body, inputs, "y, float z", w=(16, 16, 3, 3), b=(16,))
    exe = compiled(model, num_veus=2)
    assert len(exe.image.entries) == states
    assert veus_with_modules(exe) == 2, "both run code of the library"
    check(exe, model)
    feeds = feeds_of(model)
    first = exe.run(feeds)
    for _ in range(200):
        found = exe.run(feeds)
        assert all(np.array_equal(found[name], first[name]) for name in first)


@pytest.fixture(scope="module")
def layer() -> Any:
    """Return a model of a convolution, a ReLU and a max pool."""
    body = "c = Conv<pads=[1,1,1,1]>(x, w, b)  d = Relu(c)  y = MaxPool<kernel_shape=[2,2]>(d)"
    return model_of(body, "float[1,5,9,11] x", w=(19, 5, 3, 3), b=(19,))


def test_an_artifact_needs_the_library_alone(layer: Any, tmp_path: Path) -> None:
    exe, feeds = compiled(layer), feeds_of(layer)
    exe.save(tmp_path / "layer.rammer")
    np.save(tmp_path / "x.npy", feeds["x"])
    command = (
        "import numpy as np, rammer_mlir\n"
        "model = rammer_mlir.load(sys.argv[1])\n"
        "np.save(sys.argv[3], model.run({'x': np.load(sys.argv[2])})['y'])\n"
    )
    paths = [tmp_path / name for name in ("layer.rammer", "x.npy", "y.npy")]
    assert python(command, *paths) == (0, "", "")
    assert np.array_equal(np.load(tmp_path / "y.npy"), exe.run(feeds)["y"])


def test_a_missing_package(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install = r"'pip install rammer-mlir\[offload-onednn\]'"
    assert OneDnn().missing() is None
    for change, found in (
        ({"package": "no-such-package"}, "the package no-such-package 2023.2.0, found none"),
        ({"version": "2024.0.0"}, "the package onednn-cpu-gomp 2024.0.0, found 2023.2.0"),
    ):
        module = replace(codegen.CODE.module, needs=(replace(codegen.NEED, **change),))
        monkeypatch.setattr(codegen, "CODE", replace(codegen.CODE, module=module))
        assert re.match(f"{found}; install it with {install}", OneDnn().missing() or "")
        with pytest.raises(TargetError, match=f"{found}; install it with {install}"):
            compiled(layer)


def test_a_missing_library_of_the_system(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = compiled(layer)

    def fails(*_: object, **__: object) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr("rammer_mlir.engines.requirements.ctypes.CDLL", fails)
    message = r"'; install the system's package of libgomp.so.1: libgomp1 \(Debian"
    assert re.search(message, OneDnn().missing() or "")
    with pytest.raises(TargetError, match=f"/libdnnl.so.3 of the package onednn.*{message}"):
        exe.prepare()


def test_threads_of_the_caller_stay_as_they_are(layer: Any) -> None:
    """A run does not change the number of threads that the caller has set for OpenMP."""
    exe = compiled(layer)
    openmp = ctypes.CDLL("libgomp.so.1")
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(5)
    check(exe, layer)
    assert openmp.omp_get_max_threads() == 5
    openmp.omp_set_num_threads(before)


@pytest.mark.parametrize("name", ["open", "run"])
def test_a_status(name: str, layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source_of = TableCode.source_of
    call = f"return {name}_region("

    def failing(code: TableCode, symbol: str, table: list[int]) -> str:
        return source_of(code, symbol, table).replace(call, f"return 7 + 0 * {name}_region(")

    monkeypatch.setattr(TableCode, "source_of", failing)
    with pytest.raises(TargetError, match="found 7; ") as found:
        compiled(layer).run(feeds_of(layer))
    assert "\n" not in str(found.value)


NOT_TAKEN = {
    "no elements": ("c = Conv(x, w)  y = Relu(c)", "float[0,5,9,11] x"),
    "eight dimensions": ("y = MatMul(x, m)", "float[1,2,1,2,1,2,3,4] x"),
    "other numbers": ("d = Cast<to=11>(x)  e = MatMul(d, d)  y = Cast<to=1>(e)", "float[4,4] x"),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_the_host_computes_what_is_left(name: str, taken: list[list[str]]) -> None:
    body, inputs = NOT_TAKEN[name]
    model = model_of(body, inputs, w=(5, 5, 3, 3), m=(1, 2, 1, 2, 1, 2, 4, 5))
    check(compiled(model), model)
    assert taken == []


def test_measured_times_choose(layer: Any) -> None:
    exe = compiled(layer, costs="measured", offload_choice="cost", num_veus=2)
    check(exe, layer)


def test_weights_and_scratch_share_the_operands_of_an_operation(taken: list[list[str]]) -> None:
    """A chain of 60 convolutions is computed right, though it has too many operands for one region.

    Each convolution has a weight and a bias, so that the chain is divided into two regions.
    """
    count = 60
    values = ["x", *(f"v{n}" for n in range(1, count)), "y"]
    steps = [f"{values[n + 1]} = Conv({values[n]}, w{n}, b{n})" for n in range(count)]
    filters: Any = {f"w{n}": (4, 4, 1, 1) for n in range(count)}
    biases: Any = {f"b{n}": (4,) for n in range(count)}
    model = model_of(" ".join(steps), "float[1,4,3,3] x", **filters, **biases)
    check(compiled(model), model)
    assert len(taken) == 2 and sum(map(len, taken)) == count
