"""Tests that the benchmark of PyTorch's interfaces times each interface in a process of its own.

A ratio is that of two times of the same round.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.frameworks.interface_lanes import Opening, error, joined_copies, seconds
from rammer_mlir.benchmarks.frameworks.torch_contenders import (
    COMPILE,
    EXPORT,
    ONNX,
    RUNS,
    CompiledNetwork,
)  # fmt: skip
from rammer_mlir.benchmarks.frameworks.torch_networks import network
from rammer_mlir.benchmarks.frameworks.torch_speeds import line


def test_a_ratio_is_of_the_same_round() -> None:
    rounds = {
        (ONNX, 0): [[1.0, 1.2], [2.0, 2.2]], (ONNX, 1): [[0.8, 1.0], [1.8, 2.0]],
        (EXPORT, 0): [[2.0], [4.0]], (EXPORT, 1): [[2.0], [4.0]],
        (COMPILE, 0): [[3.0], [6.0]], (COMPILE, 1): [[3.0], [6.0]],
    }  # fmt: skip
    joined = joined_copies(rounds)
    assert joined == {ONNX: [1.0, 2.0], EXPORT: [2.0, 4.0], COMPILE: [3.0, 6.0]}
    text = line("net", joined, dict.fromkeys((ONNX, EXPORT, COMPILE), 0.5), 1.0)
    assert text == (
        "net: onnx 1500.000 ms (1.00, error 5.0e-01); torch.export 3000.000 ms (2.00, error "
        "5.0e-01); torch.compile 4500.000 ms (3.00, error 5.0e-01); PyTorch before the back end "
        "1000.000 ms (without it 2.25)"
    )


@pytest.mark.parametrize("way", [ONNX, EXPORT, COMPILE])
def test_a_front_end_is_timed_in_its_process(way: str, tmp_path: Path) -> None:
    with torch.no_grad():
        module, arguments = network("short_lstm", small=True)
        path = tmp_path / "model.onnx"
        torch.onnx.export(module, arguments, path, dynamo=True, verbose=False)
    with Lane(way, Opening(CompiledNetwork, way, "short_lstm", small=True), path, 1, {}) as lane:
        lane.open(300)
        assert lane.call(error) < 1e-5
        found = lane.call(seconds)
    assert len(found) == RUNS
    assert all(spent >= outside for spent, outside in found)
    # Only torch.compile's function calls the back end that is timed.
    assert all((outside < spent) == (way == COMPILE) for spent, outside in found)
