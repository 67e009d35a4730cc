"""Tests that the benchmark of 8-bit networks times quantized and f32 models, and reports noise.

In some of these tests, ONNX Runtime runs in place of this compiler's programs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from rammer_mlir.benchmarks import quantized, report
from rammer_mlir.benchmarks.__main__ import main
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import MODELS, build
from rammer_mlir.benchmarks.quantized import (
    FLOATS,
    OURS,
    QUANTIZED_MODELS,
    QuantizedRequest,
    decibels,
    measure_quantized,
    quantized_text,
)

reference = partial(open_contender, name=REFERENCE)


def test_models_exist() -> None:
    assert set(QUANTIZED_MODELS) <= set(MODELS)


def test_decibels() -> None:
    signal = {"y": np.full(1000, 2.0)}
    noisy = {"y": signal["y"] + np.tile((0.02, -0.02), 500)}
    assert decibels(signal, noisy) == pytest.approx(40)
    assert decibels(signal, signal) == float("inf")


def test_both_models_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quantized and the f32 model are timed, and the noise of their outputs is measured.

    The signal-to-noise ratio of the quantized model is between 5 and 60 dB, that of the f32 model
    above 60 dB.
    """
    found = measure_quantized(
        QuantizedRequest("mobilenet_v2", "small", 1, budget=0.05),
        {REFERENCE: reference, OURS: reference, FLOATS: reference},
    )
    assert found.error is None and not found.missing
    noise = {timing.name: timing.decibels for timing in found.timings}
    assert 5 < noise[REFERENCE] < 60
    assert noise[OURS] == noise[REFERENCE]
    assert noise[FLOATS] > 60
    heading, _, row = quantized_text([found])[1].splitlines()
    assert [cell.strip() for cell in heading.split("|")[1:3]] == ["model", "threads"]
    assert row.split("|")[1].strip() == "mobilenet_v2"


def test_quantized_models_have_integers_around_operators(tmp_path: Path) -> None:
    model = build("mobilenet_v2", 1, "small")
    onnx.save(model, tmp_path / "f32.onnx")
    quantized.quantize(model, tmp_path / "f32.onnx", tmp_path / "q.onnx")
    found = onnx.load(tmp_path / "q.onnx")
    makers = {name: node.op_type for node in found.graph.node for name in node.output}
    convolutions = [node for node in found.graph.node if node.op_type == "Conv"]
    assert convolutions
    for node in convolutions:
        assert [makers[name] for name in node.input[:2]] == ["DequantizeLinear"] * 2


def test_the_command(tmp_path: Path) -> None:
    arguments = ["mobilenet_v2", "--parts", "quantized", "--scale", "small", "--threads", "1"]
    assert main([*arguments, "--seconds", "0.1", "--output", str(tmp_path)]) == 0
    (found,) = report.read(tmp_path / "bench.json").quantized
    assert found.error is None
    names = [timing.name for timing in found.timings]
    assert names[0] == REFERENCE and {OURS, FLOATS} <= set(names)
    ours, theirs = found.timing(OURS), found.timing(REFERENCE)
    assert ours is not None and theirs is not None
    assert ours.decibels > theirs.decibels - 3
    assert "mobilenet_v2" in (tmp_path / "bench.md").read_text()
