"""Tests that small models compiled to PTX give ONNX Runtime's outputs in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest
from ptx_models import check_runs

from rammer_mlir.benchmarks.models import MODELS, build, random_feeds

SAMPLE = (
    "mlp", "attention", "integer_ops", "multi_io", "embedding", "layer_norm_head", "conv1d",
    "depthwise_net", "lstm_bidirectional", "gru_bidirectional", "rnn_bidirectional", "nas_cell",
    "lstm_tc", "alexnet",
)  # fmt: skip
"""Models of the default test run, which takes seconds: they have every kind of rKernel."""


def agree(name: str, **options: Any) -> None:
    """Check that two runs of the benchmark model ``name`` at its small scale are right.

    ONNX Runtime's results are the reference; ``options`` are those of compilation.
    """
    model = build(name, scale="small")
    check_runs(model, random_feeds(model, 1), **options)


@pytest.mark.parametrize("name", SAMPLE)
def test_models(name: str) -> None:
    agree(name, target="nvvm:sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in SAMPLE])
def test_other_models(name: str) -> None:
    agree(name, target="nvvm:sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nvvm:sm_70", "nvvm:sm_80"])
@pytest.mark.parametrize("name", ["resnext29_16x64d", "light_shufflenet", "deepspeech2"])
def test_older_chips(name: str, target: str) -> None:
    agree(name, target=target)


@pytest.mark.parametrize(
    ("policy", "num_veus"), [("wavefront", 1), ("wavefront", 4), ("sequential", 2)]
)
def test_policies_and_veus(policy: str, num_veus: int) -> None:
    agree("nas_cell", target="nvvm:sm_80", policy=policy, num_veus=num_veus)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("num_veus", [1, 2, 8])
@pytest.mark.parametrize("name", ["mlp", "lstm_bidirectional", "light_shufflenet"])
def test_all_policies_and_veus(name: str, num_veus: int, policy: str) -> None:
    agree(name, policy=policy, num_veus=num_veus)


def test_a_chip_without_staging_instructions() -> None:
    """A model for a chip without asynchronous copies and matrix units gives right results."""
    agree("transformer_encoder", target="nvvm:sm_70")


def test_indices_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model gives right results with 64-bit indices, as buffers of 2 GiB need them."""
    monkeypatch.setattr("rammer_mlir.lowering.gpu.llvm.index_width.LIMIT", 1)
    model = build("conv1d", scale="small")
    wide = check_runs(model, random_feeds(model, 1), target="nvvm:sm_80")
    monkeypatch.undo()
    narrow = check_runs(model, random_feeds(model, 1), target="nvvm:sm_80")
    assert wide.count(".s64") + wide.count(".b64") > narrow.count(".s64") + narrow.count(".b64")


def test_one_launch_per_operator() -> None:
    agree("attention", policy="sequential", per_operator=True)


def test_a_watchdog() -> None:
    agree("attention", watchdog=1 << 20)
