"""Tests of programs for named processors: they use only instructions that the processor has.

The programs give right results.
"""

from __future__ import annotations

import json
import platform
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rammer_mlir
from rammer_mlir.cli import run as run_tool
from rammer_mlir.compiler.backends.registry import find_backend
from rammer_mlir.compiler.cache import FOLDER_VARIABLE
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import ArtifactError, OptionError, TargetError
from rammer_mlir.lowering.llvm import named_machines
from rammer_mlir.lowering.llvm.codegen import emit_assembly
from rammer_mlir.lowering.llvm.named_machines import named_machine
from rammer_mlir.runtime import cpu_parts

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Return a model of products, sums, exponentials and half floats."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (24, 40)), ("v", (40, 12)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=-1),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (16, size))
        for name, size in (("x", 24), ("y", 12))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    w, v = (numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer)
    powers = np.exp(x.astype(np.float64) @ w)
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float16).astype(np.float64) @ v


@X86
@pytest.mark.parametrize("name", [*LEVELS, "haswell", "sandybridge"])
def test_levels_compute_the_same(model: onnx.ModelProto, name: str, tmp_path: Path) -> None:
    if not named_machine(name).is_this:
        pytest.skip(f"this machine is no {name}")
    x = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
    path = tmp_path / "model.rammer"
    with rammer_mlir.compile(model, target=f"cpu:{name}", num_veus=2) as compiled:
        assert f"target: cpu:{name};" in repr(compiled)
        np.testing.assert_allclose(compiled(x), expected(model, x), 1e-3, 1e-3)
        compiled.save(path)
        with rammer_mlir.load(path) as loaded:
            assert loaded.target == f"cpu:{name}"
            np.testing.assert_array_equal(loaded(x), compiled(x))
    manifest = json.loads(zipfile.ZipFile(path).read("manifest.json"))
    assert manifest["features"] == list(named_machine(name).features)


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("x86-64", ["xmm"], ["ymm", "zmm", "vfmadd", "vcvtph2ps", "pshufb"]),
        ("x86-64-v2", ["xmm"], ["ymm", "zmm", "vfmadd", "vcvtph2ps"]),
        ("sandybridge", ["xmm"], ["ymm", "zmm", "vfmadd"]),
        ("x86-64-v3", ["ymm", "vfmadd", "vcvtph2ps"], ["zmm", "%k1"]),
        ("znver4", ["zmm", "vfmadd"], ["vcvtneps2bf16", "vpdpbusd"]),
        ("aarch64", ["fmla"], ["ymm", "xmm"]),
    ],
)
def test_code_keeps_to_the_instructions(
    model: onnx.ModelProto, name: str, has: list[str], lacks: list[str]
) -> None:
    options = check_options(f"cpu:{name}", num_veus=2)
    text = Compilation.of_model(model, options).emit("llvm").decode()
    assembly = emit_assembly(text, named_machine(name).machine())
    assert [word for word in has if word not in assembly] == []
    assert [word for word in lacks if word in assembly] == []


@pytest.mark.parametrize(("columns", "padded"), [(96, 96), (200, 208)])
@pytest.mark.parametrize(
    ("name", "width"), [("x86-64", 16), ("x86-64-v3", 16), ("x86-64-v4", 32), ("aarch64", 16)]
)
def test_weights_are_in_panels_of_the_width_of_register_tiles(
    name: str, width: int, columns: int, padded: int
) -> None:
    """Panels are as wide as register tiles: wider ones would use half of the cache's sets."""
    weights = numpy_helper.from_array(np.arange(24 * columns, dtype="f4").reshape(24, -1), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, columns])],
        [weights],
    )
    product = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = check_options(f"cpu:{name}", num_veus=2)
    operators = Compilation.of_model(product, options).emit("operators").decode()
    panels = -(-padded // width)
    assert f"tensor<{panels}x24x{width}xf32> {{rtask.constant" in operators


@X86
@pytest.mark.parametrize("name", ["x86-64-v3", "icelake-server"])
def test_a_machine_that_lacks_features_refuses(
    model: onnx.ModelProto,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def features() -> tuple[str, ...]:
        return tuple(set(named_machine("x86-64-v3").features) - {"avx2", "fma"})

    monkeypatch.setattr(named_machines, "cpu_features", features)
    monkeypatch.setattr(cpu_parts, "cpu_features", features)
    path = tmp_path / "model.rammer"
    with rammer_mlir.compile(model, target=f"cpu:{name}", num_veus=1) as compiled:
        compiled.save(path)
        with pytest.raises(TargetError, match=r"expected a processor with avx2.*fma; save it"):
            compiled(np.zeros((16, 24), np.float32))
    with pytest.raises(ArtifactError, match=r"needs a processor with avx2.*fma, which this"):
        rammer_mlir.load(path)
    assert run_tool.main([str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@X86
def test_another_family_is_written_and_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.rammer"
    with rammer_mlir.compile(model, target="cpu:aarch64", num_veus=2) as compiled:
        try:
            compiled.save(path)
        except TargetError as error:
            pytest.skip(str(error))
        with pytest.raises(TargetError, match="a processor of the family aarch64, found x86_64"):
            compiled(np.zeros((16, 24), np.float32))
    code = zipfile.ZipFile(path).read("code.so")
    assert int.from_bytes(code[18:20], "little") == 183  # EM_AARCH64
    with pytest.raises(ArtifactError, match="was compiled for aarch64, and this machine is x86_64"):
        rammer_mlir.load(path)


def test_the_name_is_part_of_the_key(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    targets = ["cpu", *(f"cpu:{name}" for name in ("x86-64-v2", "x86-64", "nehalem"))]
    keys = [compile_key(model, check_options(target), None) for target in targets]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OptionError, match="unknown target 'cpu:pentium': expected cpu for this"):
        rammer_mlir.compile(b"", target="cpu:pentium")


def test_costs_are_measured_on_this_machine_only() -> None:
    with pytest.raises(OptionError, match="costs: 'measured' is for the target cpu"):
        check_options("cpu:x86-64-v2", costs="measured")


def test_the_plain_name_stays() -> None:
    assert find_backend("cpu").target == "cpu"
    assert find_backend("cpu:x86-64-v3").target == "cpu:x86-64-v3"
