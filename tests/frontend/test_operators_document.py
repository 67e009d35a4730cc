"""The page of operators in the documentation is up to date."""

from pathlib import Path

import pytest

from rammer_mlir.frontends.onnx.operators import main, table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/operators.md"
COMMAND = "python -m rammer_mlir.frontends.onnx.operators docs/operators.md"


def test_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == table(), f"run {COMMAND}"


@pytest.mark.parametrize(
    "row",
    [
        "| Abs | 1, 6, 13 | floats, integers | yes |",
        "| Attention | 23, 24, 25 | floats | by its definition |",
        "| Bernoulli | 15, 22 | floats | no: results are random |",
        "| LSTM | 1, 7, 14, 22 | floats | as cells |",
        "| ZipMap | 1 | float | no |",
    ],
)
def test_rows_say_how_operators_are_compiled(row: str) -> None:
    assert row in table().splitlines()


def test_command_writes_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "operators.md")]) == 0
    assert (tmp_path / "operators.md").read_text(encoding="utf-8") == table()
    assert main([]) == 0
    assert capsys.readouterr().out == table()
