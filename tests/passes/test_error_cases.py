"""Tests that every pass that can fail has a lit test of its error.

The lit test expects the error at the right operation.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rammer_mlir.cli import opt
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes import PASSES

FOLDER = Path(__file__).parents[2] / "lit_tests/errors"

CANNOT_FAIL = {
    "rtask-inline-composites": "without composites in the module, it changes nothing",
    "rtask-expand-math": "operations that it does not know stay as they are",
}
"""Passes that refuse no module, and why."""

NAMES = [each.name for each in (*PASSES, *LOWERING_PASSES)]


def test_each_pass_has_an_error_case() -> None:
    cases = {path.stem for path in FOLDER.glob("*.mlir") if "expected-error" in path.read_text()}
    assert cases | set(CANNOT_FAIL) == set(NAMES)
    assert not cases & set(CANNOT_FAIL)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(CANNOT_FAIL)))
def test_the_errors_are_as_expected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = FOLDER / f"{name}.mlir"
    run = re.search(r"^// RUN: rammer-opt (.*)$", path.read_text(), re.MULTILINE)
    assert run is not None and f"--{name}" in run[1]
    status = opt.main(shlex.split(run[1].replace("%s", str(path))))
    assert (status, capsys.readouterr().err) == (0, "")
