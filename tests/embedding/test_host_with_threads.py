"""Run the embedding example, whose MLIR context uses threads; a deadlock ends in a timeout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/embed_with_threads.py"


def run(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_example_ends() -> None:
    done = run(EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert 'symbol = "rammer_main"' in done.stdout and "veus = 2" in done.stdout


def test_rtask_operations_that_are_left_are_refused(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert ",rtask-lower-to-cpu" in text
    path = tmp_path / "unfinished.py"
    path.write_text(text.replace(",rtask-lower-to-cpu", ""))
    done = run(path)
    assert done.returncode == 1
    assert "OperationError: 'rtask.kernel': expected no operation of rtask" in done.stderr
