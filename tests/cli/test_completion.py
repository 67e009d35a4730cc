"""Tests that each tool prints scripts with which shells complete the tool's arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.tools import Main
from tests.runtime.test_without_compiler import BLOCK
from tests.test_layering import ROOT

pytest.importorskip("shtab")

from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import opt as opt_tool
from rammer_mlir.cli import run as run_tool

TOOLS: dict[str, Main] = {
    "rammer-compile": compile_tool.main,
    "rammer-opt": opt_tool.main,
    "rammer-run": run_tool.main,
}


def script(name: str, shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        TOOLS[name](["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
@pytest.mark.parametrize("name", TOOLS)
def test_each_tool_has_a_script(name: str, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(name, shell, capsys)
    assert name in text and "external-data" in text
    if name == "rammer-opt":
        assert "rtask-form-operators" in text


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("rammer-compile", "--pol", {"--policy"}),
        ("rammer-compile", "--policy s", {"sequential"}),
        ("rammer-compile", "--emit li", {"linalg"}),
        ("rammer-run", "--target n", {"nvvm"}),
        ("rammer-run", "--sig", set()),
        ("rammer-opt", "--rtask-form", {"--rtask-form-operators"}),
        ("rammer-run", "mod", {"model.onnx"}),
    ],
)
def test_bash_completes(
    name: str, line: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "model.onnx").touch()
    words = [name, *line.split()]
    command = (
        f"{script(name, 'bash', capsys)}\n"
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}\n"
        f"function_name=$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        f"$function_name {name} {words[-1]} {words[-2]}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert set(done.stdout.split()) == expected, done.stderr


def test_without_the_package_one_line_says_so() -> None:
    command = "from rammer_mlir.__main__ import main; sys.exit(main(sys.argv[1:]))"
    code = BLOCK.format(blocked=("shtab",)) + command
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--print-completion", "bash"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: completion needs the package 'shtab': expected it installed, found none; install "
        "it with 'pip install rammer-mlir[completion]'\n"
    )


def test_unknown_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool.main(["--print-completion", "fish"]) == 1
    assert "invalid choice: 'fish'" in capsys.readouterr().err
