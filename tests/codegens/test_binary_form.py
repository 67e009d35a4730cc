"""Tests of regions that OpenVINO compiles during compilation, and stores in its binary form.

Only the same version of OpenVINO imports the binary when an artifact is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.checker import verify
from rammer_mlir.codegens import EntryHost
from rammer_mlir.engines import prebuilding, requirements
from rammer_mlir.engines.engine import ENGINES
from rammer_mlir.engines.graphs.openvino_library import OpenVinoLibrary
from rammer_mlir.errors import FallbackWarning, MissingPackageError, TargetError
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.runtime.executable import Executable
from tests.codegens.checks import exact
from tests.codegens.test_graphs import MODELS, model_of
from tests.codegens.test_native_engines import feeds_of, two_branches

BINARY = {"openvino.form": "binary"}


def compiled(model: onnx.ModelProto, **options: Any) -> Executable:
    given: dict[str, Any] = {"offload_choice": "always", "num_veus": 2, "module_options": BINARY}
    found = rammer_mlir.compile(model, offload="openvino", cache=False, **given | options)
    assert isinstance(found, Executable)
    return found


@pytest.mark.parametrize("case", MODELS)
def test_numbers(case: str, tmp_path: Path) -> None:
    model = model_of(case)
    feeds = random_feeds(model, 2)
    with compiled(model) as exe:
        assert {module.form for module in exe.image.modules} == {"binary"}
        found = exe.run(feeds)
        exe.save(tmp_path / "model.rammer")
    verify(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        again: dict[str, Any] = loaded.run(feeds)
    for name, value in exact(model, feeds).items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5)
        np.testing.assert_array_equal(again[name], found[name])


def test_functions_of_one_module_have_their_own_weights() -> None:
    """Two equal regions share a module with two models, each with the weights of one region."""
    model = two_branches(32)
    feeds = feeds_of(32)
    wanted = exact(model, feeds)
    with compiled(model, policy="list") as exe:
        (module,) = exe.image.modules
        assert len(exe.image.entries) == 2 and len(module.kernels) == 2
        for name, value in exe.run(feeds).items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", ["1", "2", "all"])
def test_threads(threads: str, tmp_path: Path) -> None:
    model = build("transformer_encoder", scale="small")
    feeds = random_feeds(model, 2)
    wanted = rammer_mlir.compile(model, cache=False).run(feeds)
    with compiled(model, module_options={**BINARY, "openvino.threads": threads}) as exe:
        assert bool(exe.image.proof.exclusive) == (threads == "all")
        exe.save(tmp_path / "model.rammer")
    with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
        found: dict[str, Any] = loaded.run(feeds)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


def test_loading_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model, feeds = two_branches(8), feeds_of(8)
    called: list[str] = []
    make = OpenVinoLibrary.make

    def spied(self: OpenVinoLibrary, function: str, *given: Any, **behind: Any) -> int:
        called.append(function)
        return make(self, function, *given, **behind)

    monkeypatch.setattr(OpenVinoLibrary, "make", spied)
    for form, has_compiled in (("graph", True), ("binary", False)):
        with compiled(model, module_options={"openvino.form": form}) as exe:
            exe.save(tmp_path / "model.rammer")
        called.clear()
        with rammer_mlir.load(tmp_path / "model.rammer") as loaded:
            loaded.run(feeds)
        assert ("core_compile_model" in called) == has_compiled
        assert ("core_import_model" in called) == (not has_compiled)


def test_a_graph_opens_no_library_while_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def spied(module: CodeModule) -> list[Any]:
        opened.append(module.form)
        return known(module)

    known = prebuilding.open_libraries
    monkeypatch.setattr(prebuilding, "open_libraries", spied)
    for form, wanted in (("graph", []), ("binary", ["graph"])):
        compiled(two_branches(8), module_options={"openvino.form": form}).close()
        assert opened == wanted


def pretend(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    """Let OpenVINO seem to be installed in version ``found``."""
    known = requirements.distribution

    def other(package: str) -> Any:
        class Other:
            files = known(package).files
            locate_file = known(package).locate_file
            version = found

        return Other if package == "openvino" else known(package)

    monkeypatch.setattr(requirements, "distribution", other)


def test_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another version of OpenVINO runs an artifact with a graph, but not one with a binary.

    Loading the binary is refused, or uses the fallback if the artifact has one.
    """
    model, feeds = two_branches(8), feeds_of(8)
    for name, given in (
        ("binary", {}), ("fallback", {"fallback": "host"}), ("graph", {"module_options": {}})
    ):  # fmt: skip
        with compiled(model, **given) as exe:
            exe.save(tmp_path / name)
    pretend(monkeypatch, "2031.1.0")
    mine = version("openvino")
    message = (
        rf"^module '.*': expected the package openvino {mine}, found 2031.1.0; install it with "
        rf"'pip install openvino=={mine}', or compile with another code generator$"
    )
    with pytest.raises(MissingPackageError, match=message):
        rammer_mlir.load(tmp_path / "binary")
    with pytest.warns(FallbackWarning, match="expected the package openvino"):
        loaded = rammer_mlir.load(tmp_path / "fallback")
    for each in (loaded, rammer_mlir.load(tmp_path / "graph")):
        found: dict[str, Any] = each.run(feeds)
        for key, value in exact(model, feeds).items():
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4)


def hosts_of(exe: Executable) -> list[EntryHost]:
    """Return an ``EntryHost`` for each of the two functions of a program's only module.

    An engine opens a function from its ``EntryHost``. The weight has the invalid address 1.
    """
    (module,) = exe.image.modules
    return [EntryHost(module, "f", [None, 1, None], lambda _: 0, 1, number=n) for n in range(2)]


def test_content_that_is_none() -> None:
    with compiled(two_branches(8)) as exe:
        host, other = hosts_of(exe)
    engine: Any = ENGINES.get("openvino")
    line, _, models = host.module.content.partition(b"\n")
    wrong: Sequence[bytes] = (
        b"", b"{}", b"[]\n", line, line + b"\n" + models[:-1],
        line.replace(b'"version":1', b'"version":9', 1) + b"\n" + models,
    )  # fmt: skip
    for content in wrong:
        changed = replace(host, module=replace(host.module, content=content))
        with pytest.raises(TargetError, match="expected models that OpenVINO exported, found") as e:
            engine.open(changed)
        assert "\n" not in str(e.value)
    with pytest.raises(TargetError, match="expected models that OpenVINO exported"):
        engine.open(replace(other, number=2))


def test_a_model_that_openvino_refuses(tmp_path: Path) -> None:
    """Bytes that are no model are refused when the program is prepared."""
    with compiled(two_branches(8)) as exe:
        image: Any = exe.image
        (module,) = image.modules
        line, _, models = module.content.partition(b"\n")
        damaged = replace(module, content=line + b"\n" + bytes(len(models)))
        known: Any = exe
        known._image = replace(image, modules=(damaged,))
        with pytest.raises(TargetError, match="expected OpenVINO to take the binary form, found"):
            exe.prepare()


def test_for_another_machine(tmp_path: Path) -> None:
    """A program for a named processor, not for this machine, has a graph instead of a binary."""
    model, feeds = two_branches(8), feeds_of(8)
    with compiled(model, target="cpu:x86-64-v3") as exe:
        assert {module.form for module in exe.image.modules} == {"graph"}
        wanted = exact(model, feeds)
        for key, value in exe.run(feeds).items():
            np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-4)
