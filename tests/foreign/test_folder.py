"""``python -m rammer_mlir.benchmarks.foreign`` reports an outcome for each function of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rammer_mlir.benchmarks.foreign import __main__ as tool

FUNCTIONS = """func.func @runs(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @open(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.exp %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @refused(%x: memref<4xf32>) {
  return
}
// -----
func.func @malformed( {
"""


def test_each_function_has_an_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "missing_reference", lambda: "no module 'iree.runtime'")
    (tmp_path / "some.mlir").write_text(FUNCTIONS)
    assert tool.main([str(tmp_path), "--all", "--size", "3"]) == 0
    *outcomes, note, _, _, ran, refused, _, invalid, _, _, _, _, total = (
        line for line in capsys.readouterr().out.splitlines() if "equal to the ref" not in line
    )
    assert [line.split()[0] for line in outcomes] == ["ran", "ran", "refused", "not"]
    assert "the module:9:1: " in outcomes[2] and "give tensors" in outcomes[2]
    assert "open dimensions" in outcomes[1]
    assert note == "not compared with IREE: no module 'iree.runtime'"
    counts = [line.split("|")[2].strip() for line in (ran, refused, invalid, total)]
    assert counts == ["2", "1", "1", "4"]


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("error: expected a folder of .mlir files, found no")
