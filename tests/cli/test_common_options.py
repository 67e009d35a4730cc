"""Tests that all tools have ``--version`` and a log; ``python -m rammer_mlir`` runs any tool."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir import __main__ as dispatcher
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import opt, run
from rammer_mlir.compiler import cache
from rammer_mlir.compiler.cache import FOLDER_VARIABLE
from rammer_mlir.compiler.caching.cache_file import CacheFile
from rammer_mlir.support.log import LOGGER
from tests.cli.tools import Main, Tool, save_layer

TOOLS = {"rammer-compile": compile_tool.main, "rammer-run": run.main, "rammer-opt": opt.main}
MODULE = "python -m rammer_mlir"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a model of two layers."""
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Turn on a cache that keeps all programs; return its folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setattr(cache, "WORTH_SECONDS", 0.0)
    return folder


@pytest.mark.parametrize(("name", "main"), [*TOOLS.items(), (MODULE, dispatcher.main)])
def test_version(name: str, main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{name} {rammer_mlir.__version__}\n"


def messages(tool: Tool, *arguments: str | Path) -> list[str]:
    """Run a tool without and with ``--verbose``; return the lines of the second run's log."""
    quiet = tool.succeed(*arguments)
    code, out, errors = tool.run(*arguments, "--verbose")
    assert code == 0
    assert len(out.splitlines()) == len(quiet.splitlines())
    lines = errors.splitlines()
    assert lines and all(line.startswith("rammer_mlir: ") for line in lines)
    return [line.removeprefix("rammer_mlir: ") for line in lines]


def stages(found: list[str]) -> list[str]:
    """Return the names of the stages whose seconds are logged in ``found``, the lines of a log."""
    return [line.partition(":")[0] for line in found if line.endswith(" s")]


def test_compiling_logs_each_stage(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = messages(Tool(compile_tool.main, capsys), model, "-o", tmp_path / "m.rammer")
    assert stages(found) == [
        "linalg", "operators", "tasks", "buffers", "program", "target", "llvm", "object", "load",
    ]  # fmt: skip
    assert f"cache: not asked, {FOLDER_VARIABLE} is empty" in found


def test_emitting_logs_the_stages_up_to_that_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tasks.mlir"
    found = messages(Tool(compile_tool.main, capsys), model, "--emit", "tasks", "-o", out)
    assert stages(found) == ["linalg", "operators", "tasks"]


def test_the_log_says_what_the_cache_did(
    model: Path, tmp_path: Path, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(model), "-o", str(tmp_path / "m.rammer"), "-v"]
    _, _, errors = Tool(compile_tool.main, capsys).run(*arguments)
    file = CacheFile(cache_folder, 1 << 30)
    (key,) = (each.key for each in file.kept() if each.level == cache.ARTIFACT)
    assert f"cache: artifact: miss, no entry {key}\n" in errors
    assert "cache: program: kept entry " in errors
    assert f"cache: artifact: kept entry {key}, " in errors
    _, _, errors = Tool(compile_tool.main, capsys).run(*arguments)
    assert f"cache: artifact: hit, entry {key}, " in errors
    assert "operators" not in errors
    file.keep(cache.ARTIFACT, key, b"PK")
    _, _, errors = Tool(compile_tool.main, capsys).run(*arguments)
    assert f"cache: artifact: miss, damaged entry {key} removed: " in errors


def test_the_cache_is_explained_alone(
    model: Path, tmp_path: Path, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--explain-cache`` prints only the log of the compile cache.

    For each level of the cache, the log says whether the level hit; for a miss, also what differs
    from the nearest entry.
    """
    out = str(tmp_path / "m.rammer")
    arguments = [str(model), "-o", out, "--explain-cache"]
    misses = [f"{level}: miss, " for level in ("artifact", "preparation", "program")]
    kept = [f"{level}: kept " for level in ("program", "preparation", "artifact")]
    levels = [[*misses, "rkernel: 0 of 2 rKernels found", *kept], ["artifact: hit, "]]
    for expected in levels:
        _, _, errors = Tool(compile_tool.main, capsys).run(*arguments)
        found = errors.splitlines()
        assert len(found) == len(expected)
        for line, begin in zip(found, expected, strict=True):
            assert line.startswith(f"rammer_mlir: cache: {begin}")
    _, _, errors = Tool(compile_tool.main, capsys).run(*arguments, "--policy", "sequential")
    for line in errors.splitlines()[: len(misses)]:
        assert line.endswith("; the nearest entry differs in option policy")
    _, _, errors = Tool(run.main, capsys).run(str(model), "--explain-cache")
    assert "rammer_mlir: cache: artifact: hit, entry " in errors


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--no-cache"], "the user compiles anew"),
        (["--costs", "measured"], "measured costs have a cache of their own"),
    ],
)
def test_the_log_says_why_the_cache_is_not_asked(
    options: list[str],
    reason: str,
    model: Path,
    tmp_path: Path,
    cache_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "m.rammer"
    _, _, errors = Tool(compile_tool.main, capsys).run(model, "-o", out, "-v", *options)
    assert f"rammer_mlir: cache: not asked, {reason}\n" in errors
    assert not CacheFile(cache_folder, 0).kept()


def test_what_compiles_fast_is_said_not_to_be_kept(
    model: Path,
    tmp_path: Path,
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cache, "WORTH_SECONDS", 1e6)
    _, _, errors = Tool(compile_tool.main, capsys).run(model, "-o", tmp_path / "m.rammer", "-v")
    assert "cache: artifact: not kept, " in errors and " s are less than 1e+06 s\n" in errors


def test_each_specialisation_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_layer(tmp_path / "open.onnx", ("batch", 8))
    tool, out = Tool(compile_tool.main, capsys), tmp_path / "m.rammer"
    found = messages(tool, path, "--dim", "batch=1,4", "-o", out)
    named = [line for line in found if line.startswith("specialization")]
    assert named == ["specialization for batch=1", "specialization for batch=4"]


def test_running_an_artifact_logs_its_load(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "m.rammer"
    Tool(compile_tool.main, capsys).succeed(model, "-o", saved)
    assert stages(messages(Tool(run.main, capsys), saved)) == [f"load of '{saved}'"]


def test_running_passes_logs_the_parts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = messages(Tool(opt.main, capsys), model, "--canonicalize")
    assert stages(found) == ["import", "parse", "passes", "write"]


def test_the_log_goes_to_an_application(
    model: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="rammer_mlir"):
        rammer_mlir.compile(model, policy="list", num_veus=1).close()
    assert "compiling for cpu, policy list, 1 vEUs" in caplog.messages
    assert capsys.readouterr() == ("", "")


def test_tools_leave_the_logger_as_it_was(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (list(LOGGER.handlers), LOGGER.level)
    Tool(opt.main, capsys).run(model, "-v")
    Tool(opt.main, capsys).run("no_such_file.onnx", "-v")
    assert (LOGGER.handlers, LOGGER.level) == before


def test_the_module_runs_each_tool(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = Tool(dispatcher.main, capsys)
    assert "linalg.generic" in tool.succeed("compile", model, "--emit", "linalg")
    assert "output 'y'  4x8 float32" in tool.succeed("run", model)
    assert "func.func @main" in tool.succeed("opt", model)
    assert "no_such" in tool.fail("compile", "no_such.onnx")


def test_the_module_lists_the_tools() -> None:
    command = [sys.executable, "-m", "rammer_mlir"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in dispatcher.TOOLS)
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["serve"], ["-x"], ["-v", "compile", "m.onnx"]])
def test_the_module_expects_a_tool_first(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = Tool(dispatcher.main, capsys).fail(*arguments)
    assert message.startswith("expected a tool as first argument, one of compile, run, opt, found")
    assert f"'{arguments[0]}'" in message


def test_the_log_says_that_there_is_no_place_for_a_cache(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def no_folder() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr(cache, "user_folder", no_folder)
    _, _, errors = Tool(compile_tool.main, capsys).run(model, "-o", tmp_path / "m.rammer", "-v")
    assert f"there is no home folder; name a folder with {FOLDER_VARIABLE}\n" in errors
