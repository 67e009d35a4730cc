"""Tests that progress is one changing line on a terminal, and messages of the logger in Python.

If standard error is no terminal, or with ``--quiet``, no progress is shown.
"""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import rammer_mlir
from rammer_mlir.support.log import LOGGER, ProgressLine, log_progress, log_seconds
from tests.cli.tools import save_layer
from tests.test_layering import ROOT

CLEAR = "\r\x1b[K"


def on_terminal(*arguments: str | Path, term: str = "xterm") -> tuple[int, str, str]:
    """Run ``rammer-compile`` with a terminal as standard error.

    Return the exit code, standard output and standard error.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rammer_mlir.cli.compile", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": term, "COLUMNS": "60"},
        text=True,
    ) as process:
        os.close(theirs)
        out, _ = process.communicate()
    errors = b""
    try:
        while part := os.read(ours, 1 << 16):
            errors += part
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    return process.returncode, out, errors.decode()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_layer(tmp_path_factory.mktemp("models") / "layer.onnx")


def test_a_terminal_shows_one_line(model: Path, tmp_path: Path) -> None:
    code, out, errors = on_terminal(model, "-o", tmp_path / "layer.rammer")
    assert (code, "written to" in out) == (0, True)
    assert "preparation: 3 nodes" in errors
    assert "\n" not in errors
    assert errors.endswith(CLEAR)
    lines = errors.split(CLEAR)
    assert lines[0] == "" and all(len(line) < 60 for line in lines)


@pytest.mark.parametrize("quiet", ["-q", "--quiet"])
def test_quiet_tools_show_none(model: Path, tmp_path: Path, quiet: str) -> None:
    assert on_terminal(model, "-o", tmp_path / "x.rammer", quiet)[2] == ""


def test_a_terminal_without_control_codes_shows_none(model: Path, tmp_path: Path) -> None:
    assert on_terminal(model, "-o", tmp_path / "x.rammer", term="dumb")[2] == ""


def test_verbose_tools_show_lines_only(model: Path, tmp_path: Path) -> None:
    errors = on_terminal(model, "-o", tmp_path / "x.rammer", "--verbose")[2]
    assert CLEAR not in errors and "preparation" not in errors
    assert "rammer_mlir: linalg: " in errors


def test_an_error_stands_in_a_line_of_its_own(model: Path, tmp_path: Path) -> None:
    code, out, errors = on_terminal(model, "-o", tmp_path / "x.rammer", "--merge", "0.5")
    assert (code, out) == (1, "")
    assert errors.split(CLEAR)[-1].startswith("error: ")


def test_a_pipe_shows_none(model: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rammer_mlir.cli.compile", str(model)],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_python_gets_it_from_the_logger(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "rammer_mlir"):
        rammer_mlir.compile(model).close()
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert {"preparation: 3 nodes", "linalg: node 0 of 3", "pass: rtask-tile"} <= set(found)
    assert any(message.startswith("program: ") and "rKernels" in message for message in found)
    caplog.clear()
    with caplog.at_level(logging.INFO, "rammer_mlir"):
        rammer_mlir.compile(model).close()
    assert all(record.levelno == logging.INFO for record in caplog.records)


def test_a_line_changes_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = io.StringIO(), [100.0]
    monkeypatch.setattr("rammer_mlir.support.log.time.monotonic", lambda: now[0])
    handler, level = ProgressLine(terminal), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        for _ in range(30):
            now[0] += 0.01
            log_progress("stage", lambda: f"{now[0]}")
        assert terminal.getvalue().count(CLEAR) == 3
        log_seconds("stage", 1.0)
        assert terminal.getvalue().endswith(CLEAR)
        before = terminal.getvalue()
        log_seconds("stage", 1.0)
        assert terminal.getvalue() == before
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
