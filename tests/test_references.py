"""Tests that the generated pages of the documentation are what their generators print."""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.cli import opt
from rammer_mlir.cli.compile import compile_parser
from rammer_mlir.cli.option_reference import main as print_options
from rammer_mlir.options import declared_options

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_page_of_the_passes_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--print-pass-reference"]) == 0
    printed = capsys.readouterr().out
    assert (DOCS / "passes.md").read_text() == printed, "run make references"
    for kind in opt.ALL_PASSES:
        assert f"\n### {kind.name}\n" in printed


def test_the_page_of_the_options_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_options([]) == 0
    printed = capsys.readouterr().out
    assert (DOCS / "options.md").read_text() == printed, "run make references"
    for declared in declared_options():
        assert f"| `{declared.name}` |" in printed


def test_help_and_page_have_the_same_options() -> None:
    """The page of the options has every option of the help, and no placeholder of argparse."""
    page = (DOCS / "options.md").read_text()
    assert "%(" not in page
    for line in compile_parser().format_help().splitlines():
        if line.startswith("  --"):
            assert f"`{line.split()[0].rstrip(',')}" in page
