"""Tests that `docs/dialect.md` is what `rammer-opt` prints, and that its examples are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.cli import opt
from rammer_mlir.dialects.rtask import OPERATIONS
from rammer_mlir.dialects.rtask.reference import examples

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dialect.md"


def test_the_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--print-reference"]) == 0
    printed = capsys.readouterr().out.rstrip()
    assert PAGE.read_text().rstrip() == printed, "run rammer-opt --print-reference"
    for operation in OPERATIONS:
        assert f"## `{operation.OPERATION_NAME}`" in printed


@pytest.mark.parametrize("example", examples(), ids=lambda text: text.split(":")[0].strip("/ "))
def test_examples_are_valid_and_read_back(example: str) -> None:
    context = ir.Context()
    dialects.register(context)
    module = dialects.parse(example, context)
    assert module.operation.verify()
    printed = dialects.get_asm(module)
    assert dialects.get_asm(dialects.parse(printed, context)) == printed
