"""Small models as PTX, executed instruction by instruction, against ONNX Runtime."""

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
"""What the default run executes: every kind of rKernel, in seconds."""


def agree(name: str, **options: Any) -> None:
    """Compare two runs of a small model with ONNX Runtime."""
    model = build(name, scale="small")
    check_runs(model, random_feeds(model, 1), **options)


@pytest.mark.parametrize("name", SAMPLE)
def test_models(name: str) -> None:
    agree(name, target="nvvm:sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["nvvm:sm_70", "nvvm:sm_80", "nvvm:sm_90"])
@pytest.mark.parametrize("name", MODELS)
def test_all_models(name: str, target: str) -> None:
    """The first of these chips has no asynchronous copies."""
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


def test_older_chips() -> None:
    """Without asynchronous copies and matrix units."""
    agree("transformer_encoder", target="nvvm:sm_70")


def test_one_launch_per_operator() -> None:
    agree("attention", policy="sequential", per_operator=True)


def test_a_watchdog() -> None:
    agree("attention", watchdog=1 << 20)
