"""Compare the latencies of networks from ONNX and from JAX, and of their gradients.

Usage: python -m rammer_mlir.benchmarks.frameworks.jax_speeds [NAME ...] [--threads N] [--small]

A line is printed for each network. Five programs are measured: the network, compiled from ONNX, by
``rammer_mlir.jax.jit`` and by ``jax.jit``; and the gradient of its loss, compiled by
``rammer_mlir.jax.jit`` and by ``jax.jit``. For each program, the line has
- the median latency in milliseconds;
- the latency divided by the latency of the network from ONNX, or for a gradient, of the gradient by
  ``jax.jit``: the median over rounds, each of which runs all programs;
- the largest difference from the results of ``jax.jit``, divided by the largest magnitude of these.

Weights are constants of the networks, and arguments of the gradients. Each program runs in several
processes (``interface_lanes``), of which only one runs at a time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.frameworks.interface_lanes import (
    InterfaceLanes,
    Opening,
    error,
    print_lines,
    ratio,
    seconds,
)
from rammer_mlir.benchmarks.frameworks.jax_contenders import (
    GRADIENT,
    JAX_GRADIENT,
    NETWORKS,
    ONNX,
    WAYS,
    CompiledFunction,
)  # fmt: skip

COPIES = {"resnet18": 3, "decoder": 1}
"""Number of processes of each interface, by network.

Those of the decoder take 15 GB of memory with one of each.
"""


def measure(name: str, threads: int, *, small: bool) -> str:
    """Measure a network by all interfaces; return the network's line of the printed results."""
    openings = {way: Opening(CompiledFunction, way, name, small) for way in WAYS}

    def turn(_: str, lane: Lane) -> list[float]:
        return lane.call(seconds)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(NETWORKS[name](small=small).model(), path)
        with InterfaceLanes(name, openings, path, threads, COPIES[name]) as lanes:
            errors, rounds = lanes.each(error), lanes.rounds(turn)
    return line(name, rounds, errors)


def line(name: str, rounds: Mapping[str, Sequence[float]], errors: Mapping[str, float]) -> str:
    """Return a line of text with a network's latencies, their ratios, and errors.

    Args:
        name: the network.
        rounds: for each interface, the median seconds of a run in each round.
        errors: for each interface, the largest relative error of the results.
    """
    parts: list[str] = []
    for way, times in rounds.items():
        base = rounds[JAX_GRADIENT if way in (GRADIENT, JAX_GRADIENT) else ONNX]
        ms = statistics.median(times) * 1e3
        parts.append(f"{way} {ms:.3f} ms ({ratio(times, base):.2f}, error {errors[way]:.1e})")
    return f"{name}: {'; '.join(parts)}"


@one_line_errors
def main() -> int:
    """Measure the latencies of the networks, and print a line for each; return 0."""
    return print_lines(__doc__, tuple(NETWORKS), measure)


if __name__ == "__main__":
    sys.exit(main())
