"""Tests that all three tools load extensions by ``--plugin``, and list them.

The compile cache keeps nothing that an extension has computed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Unpack

import numpy as np
import pytest
from onnx import helper

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import opt
from rammer_mlir.cli import run as run_tool
from rammer_mlir.compiler.caching.keys import compile_key
from rammer_mlir.compiler.options import check_options
from rammer_mlir.extend import (
    OfferedOperator,
    register_costs,
    register_policy,
    register_rkernels,
)
from rammer_mlir.options import Options
from rammer_mlir.passes.registry import EXTENSION_PASSES
from rammer_mlir.passes.tiling.providers import KERNEL_PROVIDERS
from rammer_mlir.scheduling.cost_functions import COST_FUNCTIONS
from rammer_mlir.scheduling.policies import POLICIES
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.support import plugins
from rammer_mlir.support.plugins import Registry
from tests.cli.tools import Tool, save_layer, save_model
from tests.extend.fake_packages import install

EXTENSIONS = Path(__file__).parents[2] / "lit_tests" / "opt" / "Inputs" / "extensions.py"

PLUGIN = '''
"""A policy, a cost function, a pass and a provider that offers nothing, for this test."""

from dataclasses import dataclass

from rammer_mlir.extend import *
from rammer_mlir.scheduling.policies.sequential import Sequential


class Mine(Sequential):
    name = "mine"


class Nothing:
    name = "nothing"

    def offer(self, operator):
        print("asked about", len(operator.inputs), "inputs")
        return []


@dataclass(frozen=True)
class Quiet(Pass):
    """Do nothing."""

    name = "do-nothing"

    def run(self, module):
        pass


def flat(kernel, device):
    return 0.25


register_policy(Mine())
register_rkernels(Nothing())
register_pass(Quiet)
register_costs("flat", flat)
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Generator[Path]:
    """Return a plug-in file, whose registered objects are removed after the test."""
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    yield file
    registered: tuple[tuple[Registry[Any], str], ...] = (
        (POLICIES, "mine"),
        (KERNEL_PROVIDERS, "nothing"),
        (EXTENSION_PASSES, "do-nothing"),
        (COST_FUNCTIONS, "flat"),
    )
    for registry, name in registered:
        registry.unregister(name)


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Callable[..., Tool]:
    """Return a function that makes a ``Tool`` from the Python module of a command-line tool."""

    def make(module: ModuleType) -> Tool:
        return Tool(module.main, capsys)

    return make


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the file of a model of two layers."""
    return save_layer(tmp_path / "layer.onnx")


def test_compile_and_run_with_a_plugin(
    plugin: Path, model: Path, tmp_path: Path, tool: Callable[..., Tool]
) -> None:
    given = ("--plugin", plugin, "--policy", "mine", "--costs", "flat", "--rkernels", "nothing")
    artifact, outputs = tmp_path / "layer.rammer", tmp_path / "y.npz"
    printed = tool(compile_tool).succeed(model, *given, "--veus", "2", "-o", artifact)
    assert "asked about 2 inputs" in printed
    text = tool(compile_tool).succeed(model, *given, "--veus", "2", "--emit", "program")
    assert text.count("seconds(2.500000e-01, 2.500000e-01, 2.500000e-01)") >= 2
    tool(run_tool).succeed(model, *given, "--outputs", outputs)
    with rammer_mlir.compile(model) as plain:
        tool(run_tool).succeed(artifact, "--outputs", tmp_path / "z.npz")
        (name,) = (spec.name for spec in plain.signature.outputs)
    ours, theirs = np.load(outputs)[name], np.load(tmp_path / "z.npz")[name]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.fixture
def rows(tmp_path: Path) -> Generator[Path]:
    """Return a plug-in file with rKernels whose rTasks compute rows, and costs that prefer them."""
    file = tmp_path / "rows.py"
    shutil.copy(EXTENSIONS, file)
    yield file
    EXTENSION_PASSES.unregister("mark-functions")
    COST_FUNCTIONS.unregister("rows-first")
    for name in ("rows", "wrong-rows"):
        KERNEL_PROVIDERS.unregister(name)


def test_an_offered_kernel_runs(rows: Path, tmp_path: Path, tool: Callable[..., Tool]) -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = save_model(tmp_path / "twice.onnx", [node], (4, 16))
    given = ("--plugin", rows, "--rkernels", "rows", "--costs", "rows-first", "--veus", "2")
    text = tool(compile_tool).succeed(model, *given, "--emit", "program")
    assert re.search(r"run @\w*_rows_0\w*\[0\.\.1\]", text)
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    arrays = ("--inputs", tmp_path / "x.npz", "--outputs", tmp_path / "y.npz")
    tool(run_tool).succeed(model, *given, *arrays)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], x + x)
    message = tool(compile_tool).fail(model, "--plugin", rows, "--rkernels", "wrong-rows")
    assert "got element [2, 0] in 0: the tiles cover each output exactly once" in message


def test_names_of_a_plugin_are_listed(plugin: Path, model: Path, tool: Callable[..., Tool]) -> None:
    assert "  --do-nothing" in tool(opt).succeed("--plugin", plugin, "--list-passes")
    message = tool(compile_tool).fail(model, "--plugin", plugin, "--policy", "miner")
    assert message == (
        "unknown policy 'miner': expected one of auto, ios, list, mine, optimal, sequential, "
        "wavefront"
    )
    message = tool(compile_tool).fail(model, "--plugin", plugin, "--rkernels", "none")
    assert message == "unknown rKernel provider 'none': expected one of nothing"


@pytest.mark.parametrize("module", [compile_tool, run_tool, opt], ids=["compile", "run", "opt"])
def test_a_plugin_that_fails_is_one_line(
    module: ModuleType, model: Path, tmp_path: Path, tool: Callable[..., Tool]
) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    message = tool(module).fail(model, "--plugin", file)
    assert message.startswith(f"plug-in '{file}': ") and "ZeroDivisionError" in message


def test_listing_passes_shows_broken_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[..., Tool]
) -> None:
    entries = {"broken-pass": "broken_passes:Gone", "rtask-tile": "broken_passes:Tile"}
    install(tmp_path, "broken-passes", {"passes": entries})
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        printed = tool(opt).succeed("--list-passes")
        message = tool(opt).fail("--broken-pass")
    finally:
        plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]
    lines = printed.splitlines()
    assert "Passes of broken-passes:" in lines
    (line,) = (line for line in lines if line.startswith("  --broken-pass"))
    assert "error: pass 'broken-pass' of package 'broken-passes'" in line
    assert "module 'broken_passes' has no attribute 'Gone'; mend or uninstall the package" in line
    assert message.startswith("pass 'broken-pass' of package")


def test_what_is_built_in_reads_no_entry_points(
    monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path, tool: Callable[..., Tool]
) -> None:
    def scan() -> None:
        raise AssertionError("entry points are read")

    monkeypatch.setattr(plugins, "_all_offers", scan)
    tool(compile_tool).succeed(model, "--costs", "a100", "-o", tmp_path / "layer.rammer")
    tool(compile_tool).succeed(model, "--target", "nvvm:sm_90", "--emit", "tasks")
    tool(opt).succeed(model, "--canonicalize", "--rtask-form-operators", "-o", tmp_path / "o.mlir")


class Mine(Sequential):
    """The policy `sequential` under another name."""

    name: ClassVar[str] = "cached-mine"


class NoKernels:
    """A provider that offers no rKernels."""

    name: ClassVar[str] = "no-kernels"

    def offer(self, operator: OfferedOperator) -> list[ir.Module]:
        """Return an empty list."""
        return []


def test_help_lists_names_of_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--help`` lists extensions of installed packages without importing the packages."""
    groups = ("policies", "targets", "devices", "costs")
    install(tmp_path, "many", {group: {f"my-{group}": "many_gone:x"} for group in groups})
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(SystemExit):
            compile_tool.main(["--help"])
    finally:
        plugins._all_offers.cache_clear()  # pyright: ignore[reportPrivateUsage]
    printed = capsys.readouterr().out
    assert all(f"my-{group}" in printed for group in groups)


def test_the_cache_keeps_nothing_of_outside_code(model: Path) -> None:
    def is_kept(**options: Unpack[Options]) -> bool:
        checked = check_options("cpu", **options)
        return compile_key(str(model), checked, None) is not None

    register_policy(Mine())
    register_costs("cached-flat", lambda kernel, device: 1.0)
    register_rkernels(NoKernels())
    try:
        assert is_kept() and is_kept(costs="a100", policy="auto")
        assert not is_kept(policy="cached-mine")
        assert not is_kept(costs="cached-flat")
        assert not is_kept(costs="cached-flat:a100")
        assert not is_kept(rkernels="no-kernels")
    finally:
        POLICIES.unregister("cached-mine")
        COST_FUNCTIONS.unregister("cached-flat")
        KERNEL_PROVIDERS.unregister("no-kernels")
