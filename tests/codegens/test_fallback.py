"""Tests that a program's fallback runs in its place where its foreign code cannot run."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens import EntryHost, OpenEntry, register_codegen, register_engine
from rammer_mlir.codegens.graph.codegen import OnnxRuntimeGraphs
from rammer_mlir.engines import requirements
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.errors import (
    FallbackWarning,
    MissingPackageError,
    OptionError,
    ScheduleError,
    TargetError,
)
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.runtime.artifact import FALLBACK_VERSION, VERSION
from rammer_mlir.runtime.executable import Executable
from tests.external.states import PackedProducts
from tests.hosted.hosted_checks import floats, model_of
from tests.open_models.models import layer
from tests.runtime.artifacts import contents, write_members

Arrays = Mapping[str, Any]

LOADED = """
import sys
for name in sys.argv[4:]:
    sys.modules[name] = None
import numpy as np, rammer_mlir
with rammer_mlir.load(sys.argv[1]) as model:
    found = model.run(dict(np.load(sys.argv[2])))
    again = model.run(dict(np.load(sys.argv[2])))
    np.savez(sys.argv[3], **found)
    assert all(np.array_equal(found[name], again[name]) for name in found)
    print(*model.stats.get("replaced", {}))
"""
"""Runs an artifact in a fresh process in which some packages cannot be imported."""

PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "onednn": "onednn-cpu-gomp"}


@pytest.fixture(scope="module")
def mlp() -> onnx.ModelProto:
    return build("mlp", scale="small")


def compiled(model: Any, offload: str, fallback: str = "host", **options: Any) -> Executable:
    given: dict[str, Any] = {"offload_choice": "always", "num_veus": 2, "cache": False, **options}
    found = rammer_mlir.compile(model, offload=offload, fallback=fallback, **given)
    assert isinstance(found, Executable)
    return found


def assert_equal(found: Arrays, wanted: Arrays) -> None:
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], value) for name, value in wanted.items())


def on_the_host(model: Any, feeds: Arrays, **options: Any) -> dict[str, Any]:
    with rammer_mlir.compile(model, num_veus=2, cache=False, **options) as plain:
        return plain.run(feeds)


def hide(monkeypatch: pytest.MonkeyPatch, package: str, version: str = "") -> None:
    """Let a package seem missing or, if ``version`` is given, installed in this version."""
    distribution = requirements.distribution

    class Other:
        def __init__(self) -> None:
            self.version = version

    def found(name: str) -> Any:
        if name == package and not version:
            raise PackageNotFoundError(name)
        return Other() if name == package else distribution(name)

    monkeypatch.setattr(requirements, "distribution", found)


def loaded_with_a_warning(path: Path, message: str) -> Any:
    with pytest.warns(FallbackWarning, match=message) as shown:
        found = rammer_mlir.load(path)
    assert len(shown) == 1 and "\n" not in str(shown[0].message)
    assert shown[0].filename == __file__, "the line is the caller's"
    return found


@pytest.mark.parametrize("offload", ["onnxruntime", "openvino"])
def test_a_fresh_process_that_cannot_import_it(
    offload: str, mlp: onnx.ModelProto, tmp_path: Path
) -> None:
    feeds, paths = random_feeds(mlp, 0), [tmp_path / n for n in ("m.rammer", "x.npz", "y.npz")]
    np.savez(paths[1], allow_pickle=False, **feeds)
    with compiled(mlp, offload) as exe:
        exe.save(paths[0])
        wanted, modules = exe.run(feeds), [module.name for module in exe.image.modules]
    assert modules
    # The library is called by its C functions, no package is imported.
    for blocked, replaced in ([], False), ([offload], False), (["onnx"], False):
        command = [sys.executable, "-c", LOADED, *map(str, paths), *blocked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == (modules if replaced else [])
        assert_equal(dict(np.load(paths[2])), on_the_host(mlp, feeds) if replaced else wanted)
        shown = [line for line in done.stderr.splitlines() if "FallbackWarning" in line]
        assert len(shown) == replaced
        assert not replaced or (modules[0] in shown[0] and "the host's rKernels run" in shown[0])


@pytest.mark.parametrize("offload", PACKAGES)
def test_a_missing_package(
    offload: str, mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    feeds, package = random_feeds(mlp, 0), PACKAGES[offload]
    with compiled(mlp, offload) as exe:
        exe.save(tmp_path / "mlp.rammer")
        offloaded, modules = exe.run(feeds), exe.image.modules
    assert verify(tmp_path / "mlp.rammer").programs == 2
    with rammer_mlir.load(tmp_path / "mlp.rammer") as loaded:
        assert_equal(loaded.run(feeds), offloaded)
        assert "replaced" not in loaded.stats
    hide(monkeypatch, package)
    message = rf"module '\w+': expected the package {package}.*, found none; install it with 'pip "
    with loaded_with_a_warning(tmp_path / "mlp.rammer", message) as loaded:
        assert isinstance(loaded, Executable)
        assert_equal(loaded.run(feeds), on_the_host(mlp, feeds))
        assert loaded.stats["replaced"].keys() == {module.name for module in modules}
        loaded.save(tmp_path / "again.rammer")
    assert (tmp_path / "again.rammer").read_bytes() == (tmp_path / "mlp.rammer").read_bytes()


def test_another_version(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with compiled(mlp, "onednn") as exe:
        exe.save(tmp_path / "mlp.rammer")
    hide(monkeypatch, "onednn-cpu-gomp", "1.0")
    with loaded_with_a_warning(tmp_path / "mlp.rammer", r"gomp 2023\.2\.0, found 1\.0") as loaded:
        assert_equal(loaded.run(random_feeds(mlp, 0)), on_the_host(mlp, random_feeds(mlp, 0)))


def test_a_library_that_does_not_load(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If a library does not load, the program's fallback gives the results, after a warning.

    The warning comes when an artifact is loaded, or at the first run of a program just compiled.
    """
    feeds, exe = random_feeds(mlp, 0), compiled(mlp, "onednn")
    exe.save(tmp_path / "mlp.rammer")

    def fails(*_: object, **__: object) -> None:
        raise TargetError("module 'm': expected the library libdnnl.so.3 to load, found none")

    monkeypatch.setattr(requirements, "_open", fails)
    wanted = on_the_host(mlp, feeds)
    with loaded_with_a_warning(tmp_path / "mlp.rammer", "library libdnnl.so.3 to load") as loaded:
        assert_equal(loaded.run(feeds), wanted)
    with pytest.warns(FallbackWarning, match="library libdnnl"):
        assert_equal(exe.run(feeds), wanted)
    exe.pin([0, 0])
    assert_equal(exe.run(feeds), wanted)
    exe.close()


@pytest.fixture
def packed() -> Iterator[PackedProducts]:
    codegen = PackedProducts()
    register_codegen(codegen)
    yield codegen
    CODEGENS.unregister(codegen.name)


def test_a_state_that_does_not_open(packed: PackedProducts, mlp: onnx.ModelProto) -> None:
    packed.filled = {"status": "7"}
    feeds = random_feeds(mlp, 0)
    with compiled(mlp, "packed") as exe:
        with pytest.warns(FallbackWarning, match="in place of 3 modules: .* to return 0, found 7"):
            timeline = exe.record(feeds)
        assert len(timeline.veus) == 2
        assert_equal(exe.run(feeds), on_the_host(mlp, feeds))
    with compiled(mlp, "packed", "refuse") as exe, pytest.raises(TargetError, match="found 7"):
        exe.run(feeds)


def test_an_engine_that_is_not_known(
    packed: PackedProducts, mlp: onnx.ModelProto, tmp_path: Path
) -> None:
    class Engine:
        name: ClassVar[str] = "no-such-engine"

        def open(self, host: EntryHost) -> OpenEntry:
            raise TargetError("there is none")

    register_engine(Engine())
    packed.form, packed.code = "binary", {"engine": "no-such-engine"}
    with compiled(mlp, "packed") as exe:
        exe.save(tmp_path / "mlp.rammer")
    ENGINES.unregister("no-such-engine")
    with loaded_with_a_warning(tmp_path / "mlp.rammer", "engine 'no-such-engine'") as loaded:
        assert_equal(loaded.run(random_feeds(mlp, 0)), on_the_host(mlp, random_feeds(mlp, 0)))


def test_without_a_fallback_nothing_changes(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number, fallback in enumerate(("host", "refuse")):
        with compiled(mlp, "onnxruntime", fallback) as exe:
            exe.save(tmp_path / f"{number}.rammer")
    with_host, without = (contents(tmp_path / f"{n}.rammer") for n in range(2))
    assert {name for name in with_host if not name.startswith("fallback/")} == without.keys()
    same = without.keys() - {"manifest.json", "constants.bin"}
    assert all(with_host[name] == without[name] for name in same)
    versions = [json.loads(found["manifest.json"])["version"] for found in (with_host, without)]
    assert versions == [FALLBACK_VERSION, VERSION]
    hide(monkeypatch, "onnxruntime")
    with pytest.raises(MissingPackageError, match="expected the package onnxruntime, found none"):
        rammer_mlir.load(tmp_path / "1.rammer")


@pytest.mark.parametrize("offload", ["iree", "onednn"])
def test_what_nothing_can_be_missing_of_has_none(
    offload: str, mlp: onnx.ModelProto, tmp_path: Path
) -> None:
    """A program without regions, or with foreign code that is linked to it, has no fallback."""
    model = mlp if offload == "iree" else build("one_element")
    with compiled(model, offload) as exe:
        assert bool(exe.image.modules) == (offload == "iree")
        exe.save(tmp_path / "model.rammer")
    assert verify(tmp_path / "model.rammer").programs == 1


def test_a_code_generator_that_is_missing_when_compiling(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = random_feeds(mlp, 0)

    def missing(_: OnnxRuntimeGraphs) -> str:
        return "the package onnxruntime"

    monkeypatch.setattr(OnnxRuntimeGraphs, "missing", missing)
    message = "code generator 'onnxruntime': expected the package onnxruntime; the host computes"
    with pytest.warns(FallbackWarning, match=message) as shown, compiled(mlp, "onnxruntime") as exe:
        assert exe.image.modules == ()
        assert_equal(exe.run(feeds), on_the_host(mlp, feeds))
    assert len(shown) == 1
    with pytest.warns(FallbackWarning), compiled(mlp, "onnxruntime,numpy") as exe:
        assert {module.engine for module in exe.image.modules} == {"numpy"}
    with pytest.raises(TargetError, match=r"'onnxruntime': expected the package onnxruntime$"):
        compiled(mlp, "onnxruntime", "refuse")


def test_other_values_are_refused() -> None:
    with pytest.raises(OptionError, match="fallback: expected 'refuse' or 'host', found 'gpu'"):
        rammer_mlir.compile(b"", fallback="gpu")
    with pytest.raises(OptionError, match="fallback: expected the CPU as target, found 'nvvm'"):
        rammer_mlir.compile(b"", fallback="host", target="nvvm")


def test_open_dimensions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, Any] = {"offload_choice": "always", "num_veus": 2, "cache": False}
    model, runs = layer(("batch", 4, 8)), [{"x": floats(n, 4, 8)} for n in (1, 3)]
    with rammer_mlir.compile(
        model, offload="onnxruntime", fallback="host", specializations=4, **given
    ) as opened:
        wanted = [opened.run(feeds) for feeds in runs]
        opened.save(tmp_path / "layer.rammer")
    assert verify(tmp_path / "layer.rammer").programs == 4
    with rammer_mlir.load(tmp_path / "layer.rammer") as loaded:
        for feeds, each in zip(runs, wanted, strict=True):
            assert_equal(loaded.run(feeds), each)
    with zipfile.ZipFile(tmp_path / "layer.rammer") as file:  # weights of all programs, once
        assert file.getinfo("constants.bin").file_size < 4 * 2 * 8 * 200 * 4
    hide(monkeypatch, "onnxruntime")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        loaded = rammer_mlir.load(tmp_path / "layer.rammer")
    assert [each.category for each in shown] == [FallbackWarning], "once for all specializations"
    with loaded:
        assert isinstance(loaded, OpenModel) and loaded.stats["replaced"]
        for feeds in runs:
            assert_equal(loaded.run(feeds), on_the_host(model, feeds))


BRANCHES = """(float[3,4] x, float[4,5] w, bool c) => (float[3,5] y) {
  y = If(c) <then_branch = t () => (float[3,5] a) { a = MatMul(x, w) },
            else_branch = e () => (float[3,5] a) { d = MatMul(x, w)  a = Tanh(d) }> }"""

LOOP = """(float[4,4] x, int64 n, bool c) => (float[4,4] y) {
  y = Loop(n, c, x) <body = b (int64 i, bool d, float[4,4] s) => (bool e, float[4,4] t) {
      p = MatMul(s, x)  t = Tanh(p)  e = Identity(d) }> }"""

HOSTED = {
    "branches": (BRANCHES, {"x": floats(3, 4), "w": floats(4, 5), "c": np.array(True)}),
    "loop": (LOOP, {"x": floats(4, 4) / 4, "n": np.array(7), "c": np.array(True)}),
}


@pytest.mark.parametrize("kind", HOSTED)
def test_host_programs(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, feeds = HOSTED[kind]
    given: dict[str, Any] = {"offload_choice": "always", "num_veus": 2, "cache": False}
    model = model_of(text)
    with rammer_mlir.compile(model, offload="onnxruntime", fallback="host", **given) as made:
        wanted = made.run(feeds)
        made.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert_equal(loaded.run(feeds), wanted)
    verify(tmp_path / "model.rammer")
    hide(monkeypatch, "onnxruntime")
    with pytest.warns(FallbackWarning), rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        assert isinstance(loaded, HostedModel) and loaded.stats["replaced"]
        assert_equal(loaded.run(feeds), on_the_host(model, feeds))
        loaded.save(tmp_path / "again.rammer")
    assert (tmp_path / "again.rammer").read_bytes() == (tmp_path / "model.rammer").read_bytes()


def test_the_cache_keeps_both(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAMMER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("rammer_mlir.compiler.cache.WORTH_SECONDS", 0)
    feeds = random_feeds(mlp, 0)
    for is_found in (False, True):
        with compiled(mlp, "onednn", cache=True) as exe:
            assert ("cache" in exe.stats["seconds"]) == is_found
            assert exe.fallback is not None
            assert_equal(exe.fallback.run(feeds), on_the_host(mlp, feeds))


def test_a_processor_that_is_named(
    mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with compiled(mlp, "onnxruntime", target="cpu:x86-64-v3") as exe:
        exe.save(tmp_path / "mlp.rammer")
    hide(monkeypatch, "onnxruntime")
    with loaded_with_a_warning(tmp_path / "mlp.rammer", "package onnxruntime, found") as loaded:
        assert loaded.target == "cpu:x86-64-v3"
        wanted = on_the_host(mlp, random_feeds(mlp, 0), target="cpu:x86-64-v3")
        assert_equal(loaded.run(random_feeds(mlp, 0)), wanted)


def test_pickled(mlp: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with compiled(mlp, "onnxruntime") as exe:
        exe.save(tmp_path / "mlp.rammer")
    hide(monkeypatch, "onnxruntime")
    with pytest.warns(FallbackWarning):
        copied = pickle.loads(pickle.dumps(rammer_mlir.load(tmp_path / "mlp.rammer")))
    assert_equal(copied.run(random_feeds(mlp, 0)), on_the_host(mlp, random_feeds(mlp, 0)))


def test_the_checker_proves_both_programs(mlp: onnx.ModelProto, tmp_path: Path) -> None:
    with compiled(mlp, "onnxruntime") as exe:
        exe.save(tmp_path / "mlp.rammer")
    for folder in ("", "fallback/"):
        members = contents(tmp_path / "mlp.rammer")
        name = f"{folder}records.bin"
        members[name] = bytes(len(members[name]))
        write_members(tmp_path / "changed.rammer", members)
        with pytest.raises(ScheduleError, match="rule 6"):
            verify(tmp_path / "changed.rammer")


def test_the_tools(
    mlp: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rammer_mlir.cli import compile as compile_tool
    from rammer_mlir.cli import run as run_tool

    onnx.save(mlp, tmp_path / "mlp.onnx")
    model, artifact = str(tmp_path / "mlp.onnx"), str(tmp_path / "mlp.rammer")
    options = ["--offload", "onnxruntime", "--offload-choice", "always", "--no-cache"]
    assert compile_tool.main([model, "-o", artifact, *options, "--fallback", "host"]) == 0
    capsys.readouterr()
    assert run_tool.main([artifact, "--modules"]) == 0
    assert "fallback         the host's rKernels" in capsys.readouterr().out
    hide(monkeypatch, "onnxruntime")
    for arguments in (["--modules"], []):
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # not only at its first time
            assert run_tool.main([artifact, *arguments]) == 0
        out, errors = capsys.readouterr()
        assert errors.startswith("warning: the host's rKernels run in place of a module: module ")
        assert errors.count("\n") == 1
        assert ("replaced by the host's rKernels" in out) == bool(arguments)
