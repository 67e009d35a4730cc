"""Tests that regions compiled by IREE give right results, from objects linked to the program.

Operations that IREE does not compile are the host's; a missing package is an error.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens.iree import codegen, compiler, object_code
from rammer_mlir.codegens.iree.codegen import Iree
from rammer_mlir.compiler.caching.cache_file import CacheFile
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.regions.region import Region, RegionCode
from rammer_mlir.programs.records import RunRecord
from rammer_mlir.runtime.executable import Executable
from tests.codegens.checks import host_kernels

pytest.importorskip("iree.compiler")

Shapes = dict[str, tuple[int, ...]]

PREFIX = '<ir_version: 10, opset_import: ["": 20]> g '


def model_of(text: str, shapes: Shapes | None = None, kind: str = "float") -> onnx.ModelProto:
    """Return the model that ``text`` defines in ONNX's text syntax, without the header.

    ``shapes`` are the shapes of the weights, whose values are random with a fixed seed. ``kind`` is
    the type of the model's tensors, float or double.
    """
    dtype = {"float": np.float32, "double": np.float64}[kind]
    model = parser.parse_model(PREFIX + text.replace("float[", f"{kind}["))
    rng = np.random.default_rng(1)
    for name, shape in (shapes or {}).items():
        values = rng.standard_normal(shape).astype(np.float32).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return model


def compiled(
    model: onnx.ModelProto, *, policy: str = "wavefront", veus: int = 2, target: str = "cpu"
) -> Executable:
    found = rammer_mlir.compile(
        model, offload="iree", offload_choice="always", policy=policy, num_veus=veus, cache=False,
        target=target,
    )  # fmt: skip
    assert isinstance(found, Executable)
    return found


def check(text: str, shapes: Shapes | None = None, *, regions: int = 1) -> Executable:
    """Compile the model of ``model_of`` to ``regions`` regions; return the program.

    Its results must agree with double precision, and 200 more runs must give the same bits.
    """
    exe = compiled(model_of(text, shapes))
    assert len(exe.image.modules) == regions
    exact = ReferenceEvaluator(model_of(text, shapes, "double"))
    feeds = random_feeds(model_of(text, shapes), 2)
    wanted = exact.run(None, {name: value.astype(np.float64) for name, value in feeds.items()})
    first = exe.run(feeds)
    for found, expected in zip(first.values(), wanted, strict=True):
        np.testing.assert_allclose(found, np.asarray(expected), rtol=2e-5, atol=2e-5)
    for _ in range(200):
        again = exe.run(feeds)
        assert all(np.array_equal(again[name], value) for name, value in first.items())
    return exe


IMAGE = "(float[1,6,13,11] x) => (float[1,{},{},{}] y)"

CASES: dict[str, Callable[[], Executable]] = {
    "conv": partial(
        check,
        IMAGE.format(7, 11, 9) + "{ a = Conv(x, w, b)  y = Relu(a) }",
        {"w": (7, 6, 3, 3), "b": (7,)},
    ),
    "padded strides": partial(
        check,
        IMAGE.format(7, 7, 6) + "{ y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b) }",
        {"w": (7, 6, 3, 3), "b": (7,)},
    ),
    "dilation": partial(
        check,
        IMAGE.format(7, 9, 7) + "{ a = Conv<dilations=[2,2]>(x, w)  y = Sigmoid(a) }",
        {"w": (7, 6, 3, 3)},
    ),
    "groups": partial(
        check,
        IMAGE.format(8, 11, 9) + "{ a = Conv<group=2>(x, w, b)  y = Tanh(a) }",
        {"w": (8, 3, 3, 3), "b": (8,)},
    ),
    "depthwise": partial(
        check,
        IMAGE.format(6, 7, 6)
        + "{ a = Conv<group=6, pads=[1,1,1,1], strides=[2,2]>(x, w, b)  y = Relu(a) }",
        {"w": (6, 1, 3, 3), "b": (6,)},
    ),
    "residual": partial(
        check,
        IMAGE.format(6, 13, 11) + "{ a = Conv(x, w, b)  c = Add(a, x)  y = Relu(c) }",
        {"w": (6, 6, 1, 1), "b": (6,)},
    ),
    "max pool": partial(
        check,
        IMAGE.format(6, 7, 6)
        + "{ y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) }",
    ),
    "average pool": partial(
        check, IMAGE.format(6, 6, 5) + "{ y = AveragePool<kernel_shape=[2,2], strides=[2,2]>(x) }"
    ),
    "padded average pool": partial(
        check,
        IMAGE.format(6, 7, 6)
        + "{ y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) }",
    ),
    "average pool of padding": partial(
        check,
        IMAGE.format(6, 8, 6)
        + """{ y = AveragePool<kernel_shape=[3,2], strides=[2,2], pads=[2,1,2,1],
                              count_include_pad=1>(x) }""",
    ),
    "global pool": partial(check, IMAGE.format(6, 1, 1) + "{ y = GlobalAveragePool(x) }"),
    "softmax": partial(check, "(float[7,33] x) => (float[7,33] y) { y = Softmax(x) }"),
    "inner softmax": partial(
        check, "(float[2,17,5] x) => (float[2,17,5] y) { y = Softmax<axis=1>(x) }"
    ),
    "product": partial(
        check,
        "(float[37,29] x) => (float[37,19] y) { a = MatMul(x, w) c = Add(a, b) y = Relu(c) }",
        {"w": (29, 19), "b": (19,)},
    ),
    "transposed": partial(
        check,
        "(float[7,11] x) => (float[7,5] y) { a = Gemm<transB=1>(x, w, b) y = Gelu(a) }",
        {"w": (5, 11), "b": (5,)},
    ),
    "batch": partial(
        check,
        "(float[3,7,11] x, float[3,11,5] z) => (float[3,7,5] y) { y = MatMul(x, z) }",
    ),
    "batch with bias": partial(
        check,
        "(float[3,7,11] x, float[3,11,5] z) => (float[3,7,5] y) "
        "{ a = MatMul(x, z)  c = Add(a, b)  y = Relu(c) }",
        {"b": (5,)},
    ),
    "batch with biases": partial(
        check,
        "(float[3,7,11] x, float[3,11,5] z, float[3,1,5] b) => (float[3,7,5] y) "
        "{ a = MatMul(x, z)  c = Add(a, b)  y = Tanh(c) }",
    ),
    "norm": partial(
        check,
        "(float[7,32] x) => (float[7,32] y) { y = LayerNormalization(x, w, b) }",
        {"w": (32,), "b": (32,)},
        regions=2,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kinds_beside_double_precision(case: str) -> None:
    """Regions of each kind agree with double precision, and IREE computes nearly all of them.

    The host only aligns operands, pads images, and scales the result in the case ``norm``.
    """
    kinds = {kernel.partition("_")[0] for kernel in host_kernels(CASES[case]())}
    scaled = {"elementwise"} if case == "norm" else set[str]()
    assert kinds <= {"copy", "border", "pad"} | scaled


def test_elementwise_functions_alone_are_the_hosts() -> None:
    check("(float[7,5] x) => (float[7,5] y) { a = Exp(x)  y = Add(a, x) }", regions=0)


def test_integers() -> None:
    text = "(float[7,11] x, float[11,5] z) => (float[7,5] y) { y = MatMul(x, z) }"
    exe = compiled(parser.parse_model(PREFIX + text.replace("float", "int32")))
    assert len(exe.image.modules) == 1
    rng = np.random.default_rng(0)
    x, z = (rng.integers(-(2**20), 2**20, s).astype(np.int32) for s in ((7, 11), (11, 5)))
    np.testing.assert_array_equal(exe.run({"x": x, "z": z})["y"], x @ z)


def test_other_element_types_are_the_hosts() -> None:
    text = "(float[7,11] x) => (float[7,5] y) { y = MatMul(x, w) }"
    assert compiled(model_of(text, {"w": (11, 5)}, "double")).image.modules == ()


BRANCHES = (
    "(float[128,24] x) => (float[128,96] y, float[128,96] z)"
    "{ a = MatMul(x, w)  y = Relu(a)  b = MatMul(x, v)  z = Tanh(b) }"
)
WEIGHTS: Shapes = {"w": (24, 96), "v": (24, 96)}


def test_two_regions_on_two_veus(tmp_path: Path) -> None:
    """Both vEUs call IREE's code, in runs that are bitwise equal; the schedule is proven."""
    exe = check(BRANCHES, WEIGHTS, regions=2)
    feeds = random_feeds(model_of(BRANCHES), 0)
    first = exe.run(feeds)
    for _ in range(200):
        assert all(np.array_equal(value, first[name]) for name, value in exe.run(feeds).items())
    program = exe.image.program
    for records in program.launches[0].veus:
        runs = [record for record in records if isinstance(record, RunRecord)]
        assert any(program.kernel_of(run).name.startswith("iree_") for run in runs)
    exe.save(tmp_path / "branches.rammer")
    verify(tmp_path / "branches.rammer")


def shifted(array: NDArray[np.generic], offset: int) -> NDArray[np.generic]:
    """Return a copy that begins ``offset`` bytes after a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    found = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.parametrize("offset", [0, 4, 20, 60])
def test_arrays_may_begin_anywhere(offset: int) -> None:
    """The caller's arrays may begin anywhere, though IREE's code needs multiples of 64 bytes."""
    exe = compiled(model_of(BRANCHES, WEIGHTS))
    feeds = {n: shifted(v, offset) for n, v in random_feeds(model_of(BRANCHES), 0).items()}
    out = {name: shifted(np.empty((128, 96), np.float32), offset) for name in ("y", "z")}
    expected = exe.run(random_feeds(model_of(BRANCHES), 0))
    found = exe.run(feeds, out=out)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_parts_of_tensors_are_copied() -> None:
    """Parts of tensors that are strided or not aligned are copied for IREE's code."""
    text = (
        "(float[6,10] x) => (float[6,15] y) { k, l = Split<num_outputs=2, axis=1>(x)  "
        "c = MatMul(k, w)  d = MatMul(l, v)  y = Concat<axis=1>(c, d) }"
    )
    check(text, {"w": (5, 7), "v": (5, 8)}, regions=2)


LOADED = """
import sys
for name in ("iree", "iree.compiler", "torch_mlir", "mlir", "llvmlite", "onnx"):
    sys.modules[name] = None  # importing it fails
import numpy as np
import rammer_mlir
given = np.load(sys.argv[2])
exe = rammer_mlir.load(sys.argv[1])
found = exe.run({"x": given["x"]})
assert [module.form for module in exe.image.modules] == ["object", "object"]
print(all(np.array_equal(found[name], given[name]) for name in ("y", "z")))
"""


def test_loading_needs_neither_iree_nor_mlir(tmp_path: Path) -> None:
    exe = compiled(model_of(BRANCHES, WEIGHTS))
    feeds = random_feeds(model_of(BRANCHES), 0)
    arrays = {**feeds, **exe.run(feeds)}
    np.savez(tmp_path / "given.npz", allow_pickle=False, **arrays)
    exe.save(tmp_path / "model.rammer")
    command = [sys.executable, "-c", LOADED, tmp_path / "model.rammer", tmp_path / "given.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


@pytest.mark.parametrize("policy", ["wavefront", "list"])
@pytest.mark.parametrize("veus", [1, 2, 3])
def test_a_model(policy: str, veus: int, tmp_path: Path) -> None:
    model = build("mlp", scale="small")
    exe = compiled(model, policy=policy, veus=veus)
    assert exe.image.modules
    exe.save(tmp_path / "mlp.rammer")
    verify(tmp_path / "mlp.rammer")
    compare(exe, model)


@pytest.mark.parametrize("choice", ["always", "cost"])
@pytest.mark.parametrize(
    "name", ["squeezenet", pytest.param("mobilenet_v2", marks=pytest.mark.slow)]
)
def test_networks(name: str, choice: str, tmp_path: Path) -> None:
    model = build(name, scale="small")
    exe = rammer_mlir.compile(model, offload="iree", offload_choice=choice, num_veus=2, cache=False)
    assert isinstance(exe, Executable)
    exe.save(tmp_path / "network.rammer")
    verify(tmp_path / "network.rammer")
    compare(exe, model)


def compare(exe: Executable, model: onnx.ModelProto) -> None:
    """Compare a program's results with those of the model without foreign code."""
    feeds = random_feeds(model, 0)
    host = rammer_mlir.compile(model, num_veus=2, cache=False)
    found = exe.run(feeds)
    for name, value in host.run(feeds).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


class Seen(Iree):
    """IREE's code generator, which keeps all regions and the code generated for them."""

    def __init__(self) -> None:
        super().__init__()
        self.regions: list[Region] = []
        self.codes: list[RegionCode | None] = []

    def generate(self, region: Region) -> RegionCode | None:
        self.regions.append(region)
        self.codes.append(super().generate(region))
        return self.codes[-1]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Return a ``Seen`` without regions that replaces IREE's code generator in the test."""
    made = Seen()
    monkeypatch.setitem(CODEGENS._built_in, "iree", made)  # pyright: ignore[reportPrivateUsage]
    return made


TWICE = (
    "(float[8,16] x) => (float[8,16] y)"
    "{ a = MatMul(x, w)  b = Relu(a)  c = MatMul(b, v)  y = Relu(c) }"
)
SQUARES: Shapes = {"w": (16, 16), "v": (16, 16)}


def test_equal_regions_are_compiled_once(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def compile_text(text: str, machine: object, *rest: object) -> compiler.Compiled | str:
        texts.append(text)
        return compiler.compile_text(text, machine, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(object_code, "compile_text", compile_text)
    assert len(compiled(model_of(TWICE, SQUARES)).image.modules) == 1
    compiled(model_of(TWICE, SQUARES), policy="list")
    assert len(texts) == 1


LAYERS = (
    "(float[1,3,13,11] x) => (float[1,7] y)"
    "{ a = Conv(x, k, l)  b = Relu(a)  c = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b)"
    "  d = Flatten(c)  e = MatMul(d, m)  f = Add(e, n)  y = Tanh(f) }"
)
LAYERED: Shapes = {"k": (5, 3, 3, 3), "l": (5,), "m": (100, 7), "n": (7,)}


@pytest.mark.parametrize(
    ("text", "shapes", "number"), [(BRANCHES, WEIGHTS, 2), (LAYERS, LAYERED, 3)],
    ids=["branches", "layers"],
)  # fmt: skip
def test_objects_are_whole(text: str, shapes: Shapes, number: int, seen: Seen) -> None:
    """The two objects of a region, linked together, have no undefined symbol."""
    check(text, shapes, regions=number)
    every: list[bytes] = []
    for code in seen.codes:
        assert code is not None and isinstance(code.code, bytes)
        assert code.alignment == codegen.ALIGNMENT
        assert len(code.objects) == 1
        link_shared(code.code, *code.objects, is_whole=True)
        with pytest.raises(TargetError, match="linking a shared library"):
            link_shared(code.code, is_whole=True)
        every += [code.code, *code.objects]
    assert len(every) == 2 * number
    link_shared(*every, is_whole=True)


def test_what_iree_cannot_compile_is_the_hosts(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_FLAGS", (*compiler._FLAGS, "--no-such-option"))  # pyright: ignore[reportPrivateUsage]
    check(TWICE, SQUARES, regions=0)
    assert seen.codes == [None]


@pytest.mark.parametrize("target", ["cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:aarch64"])
def test_other_processors(target: str, seen: Seen) -> None:
    exe = compiled(model_of(TWICE, SQUARES), target=target)
    assert [region.target for region in seen.regions] == [target]
    (code,) = seen.codes
    assert code is not None and isinstance(code.code, bytes)
    machine = 183 if target == "cpu:aarch64" else 62  # of the ELF header
    for each in (code.code, *code.objects):
        assert int.from_bytes(each[18:20], "little") == machine
    if target != "cpu:aarch64":
        compare(exe, model_of(TWICE, SQUARES))


@pytest.mark.parametrize("version", [None, "3.12.0"])
def test_the_package_is_missing_or_another(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(package: str) -> SimpleNamespace:
        if version is None:
            raise PackageNotFoundError(package)
        return SimpleNamespace(version=version)

    monkeypatch.setattr("rammer_mlir.engines.requirements.distribution", found)
    with pytest.raises(TargetError) as raised:
        compiled(model_of(TWICE, SQUARES))
    assert str(raised.value) == (
        "code generator 'iree': expected the package iree-base-compiler 3.13.0, found "
        f"{version or 'none'}; install it with 'pip install rammer-mlir[offload-iree]'"
    )


def test_programs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compile cache keeps programs with IREE's code, for the version of IREE that compiled it.

    With another version of IREE, a program is compiled again.
    """
    monkeypatch.setenv("RAMMER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("rammer_mlir.compiler.cache.WORTH_SECONDS", 0.0)
    model = model_of(TWICE, SQUARES)
    feeds = random_feeds(model, 0)
    results: list[NDArray[np.generic]] = []
    for version, count in (("3.13.0", 1), ("3.13.0", 1), ("3.14.0", 2)):
        monkeypatch.setattr(codegen, "VERSION", version)
        exe = rammer_mlir.compile(model, offload="iree", offload_choice="always", num_veus=2)
        assert isinstance(exe, Executable) and len(exe.image.modules) == 1
        results.append(exe.run(feeds)["y"])
        assert len(CacheFile(tmp_path, 0).kept()) == count
    assert all(np.array_equal(result, results[0]) for result in results)
