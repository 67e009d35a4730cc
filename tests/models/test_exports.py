"""Tests of the tool that compares exported models with ONNX Runtime.

The tool runs on models written by hand.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from rammer_mlir.benchmarks.exports import __main__ as exports
from rammer_mlir.benchmarks.exports.result import load_results
from rammer_mlir.benchmarks.exports.spec import Input, Spec, load

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
IDS = Input("ids", ("batch", "length"), "tokens", 5)
CASES = ({"batch": 1, "length": 4}, {"batch": 2, "length": 3})


def _write(folder: Path, name: str, text: str, *inputs: Input) -> None:
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), folder / f"{name}.hand.onnx")
    Spec(name, "hand", inputs, CASES).save(folder / f"{name}.hand.json")


def test_a_spec_is_read_as_it_was_written(tmp_path: Path) -> None:
    mask = Input("mask", ("batch", "past + length + 1"), "mask")
    written = Spec("m", "hand", (IDS, mask), ({"batch": 2, "length": 3, "past": 4},))
    written.save(tmp_path / "m.json")
    assert load(tmp_path / "m.json") == written
    feeds = written.feeds(written.cases[0])
    assert feeds["mask"].tolist() == [[1] * 8, [1] * 6 + [0] * 2]
    assert feeds["ids"].shape == (2, 3) and feeds["ids"].max() < 5


@pytest.mark.parametrize("kind", ["lengths", "positions"])
def test_integers_that_mean_something(kind: str) -> None:
    value = Input("n", ("batch",), kind, "length").draw(
        {"batch": 4, "length": 9}, np.random.default_rng(0)
    )
    order = value[::-1] if kind == "lengths" else value
    assert (np.diff(order) >= 0).all() and value.max() == (9 if kind == "lengths" else 3)


def test_models_are_checked_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    g = "agraph (int64[N,M] ids) => (float[N,M] y)"
    _write(tmp_path, "good", f"{g} {{ y = Cast<to=1>(ids) }}", IDS)
    _write(
        tmp_path,
        "sized",
        f"{g} <int64[2] s={{1, 4}}> {{ z = Reshape(ids, s)\n y = Cast<to=1>(z) }}",
        IDS,
    )
    _write(tmp_path, "random", f"{g} {{ f = Cast<to=1>(ids)\n y = RandomNormalLike(f) }}", IDS)
    _write(tmp_path, "invalid", f"{g} {{ y = NoSuchOperator(ids) }}", IDS)
    captured = "agraph (int64[N,M] ids, float captured) => (float y) { y = Neg(captured) }"
    _write(tmp_path, "captured", captured, IDS)
    page = tmp_path / "page.md"
    exports.main([str(tmp_path), "-o", str(page)])
    text = page.read_text()
    assert text.startswith("2 of 3 models, in 2 of 3 valid files, compile")
    assert "| good | hand | 2 | 2 |" in text and "| sized | hand | 1 | 1 |" in text
    assert "'y' (RandomNormalLike: results are random" in text
    assert "1 sizes that the exported model itself does not take" in text
    assert "not a valid model: inputs of no model: ['captured']" in text
    assert "FAIL random.hand" in capsys.readouterr().out
    assert {each.name: each.is_right for each in load_results(tmp_path)}["good"]


def test_models_with_a_result_are_skipped(tmp_path: Path) -> None:
    _write(tmp_path, "good", "agraph (int64[N,M] ids) => (int64[N,M] y) { y = Neg(ids) }", IDS)
    exports.main([str(tmp_path), "--cases", "1"])
    (first,) = load_results(tmp_path)
    exports.main([str(tmp_path), "--new"])
    assert load_results(tmp_path) == [first] and len(first.cases) == 1
