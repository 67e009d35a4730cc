"""Tests that the benchmark of JAX's interfaces times each interface in a process of its own.

It compares gradients only with gradients. A network in ONNX gives the results of that in JAX.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.frameworks.interface_lanes import Opening, error, seconds
from rammer_mlir.benchmarks.frameworks.jax_contenders import (
    NETWORKS,
    RUNS,
    WAYS,
    CompiledFunction,
)  # fmt: skip
from rammer_mlir.benchmarks.frameworks.jax_speeds import line


def test_gradients_are_compared_with_gradients() -> None:
    rounds = {
        way: [1.0 + number, 2.0 * (1.0 + number)] for number, way in enumerate(WAYS)
    }  # fmt: skip
    text = line("net", rounds, dict.fromkeys(WAYS, 0.5))
    assert text == (
        "net: onnx 1500.000 ms (1.00, error 5.0e-01); rammer_mlir.jax.jit 3000.000 ms (2.00, error "
        "5.0e-01); jax.jit 4500.000 ms (3.00, error 5.0e-01); gradient by rammer_mlir.jax.jit "
        "6000.000 ms (0.80, error 5.0e-01); gradient by jax.jit 7500.000 ms (1.00, error 5.0e-01)"
    )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", WAYS)
def test_an_interface_is_timed_in_its_process(way: str, name: str, tmp_path: Path) -> None:
    """Each way to run a network gives the results of ``jax.jit``, and all its runs are timed.

    One of the ways runs the same network as a model in ONNX.
    """
    path = tmp_path / "model.onnx"
    onnx.save(NETWORKS[name](small=True).model(), path)
    with Lane(way, Opening(CompiledFunction, way, name, small=True), path, 1, {}) as lane:
        lane.open(300)
        assert lane.call(error) < 1e-5
        found = lane.call(seconds)
    assert len(found) == RUNS and min(found) > 0
