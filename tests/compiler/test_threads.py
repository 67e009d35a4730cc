"""Tests that many threads compile, run, save and load models at once, in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rammer_mlir.compiler.cache import FOLDER_VARIABLE
from tests.compiler import busy_threads

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seconds", [5, pytest.param(600, marks=pytest.mark.slow)])
def test_models_of_many_threads(
    seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    command = [sys.executable, "-X", "faulthandler", "-m", busy_threads.__name__, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=seconds + 120)
    assert (done.returncode, done.stderr) == (0, "")
    models, contexts = (line.split()[1:] for line in done.stdout.splitlines())
    assert len(models) == busy_threads.THREADS and all(map(int, models))
    assert int(contexts[0]) > 0
