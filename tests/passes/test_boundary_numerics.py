"""Tests that small models give ONNX Runtime's outputs with every rule that ends an rOperator."""

from __future__ import annotations

import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders import onnx_runtime
from rammer_mlir.benchmarks.models import build, random_feeds

MODELS = ("layer_norm_head", "attention", "gru_bidirectional", "depthwise_net", "multi_io")
BOUNDARIES = ("none", "cost", *(f"inputs={most}" for most in range(9)))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", MODELS)
def test_every_boundary_computes_the_same(name: str, boundary: str) -> None:
    model = build(name, scale="small")
    given = random_feeds(model)
    with rammer_mlir.compile(model, boundary=boundary, num_veus=2, cache=False) as exe:
        result = compare(onnx_runtime.run(model, given), exe.run(given))
    assert result.ok, str(result)


@pytest.mark.parametrize("name", [*MODELS, "transformer_encoder"])
def test_temporaries_do_not_change_results(name: str) -> None:
    model = build(name, scale="small")
    given = random_feeds(model)
    with rammer_mlir.compile(
        model, boundary="inputs=0", temporaries=False, num_veus=2, cache=False
    ) as exe:  # fmt: skip
        result = compare(onnx_runtime.run(model, given), exe.run(given))
    assert result.ok, str(result)


@pytest.mark.parametrize("name", ["attention", "multi_io"])
def test_on_a_gpu(name: str) -> None:
    model = build(name, scale="small")
    given = random_feeds(model)
    expected = onnx_runtime.run(model, given)
    for boundary in ("inputs=0", "cost"):
        with rammer_mlir.compile(
            model, target="nvvm", boundary=boundary, num_veus=2, emulate=True, check=True
        ) as exe:  # fmt: skip
            result = compare(expected, exe.run(given))
        assert result.ok, str(result)
