"""Compare the latencies of networks from ONNX, ``torch.export`` and ``torch.compile``.

Usage: python -m rammer_mlir.benchmarks.frameworks.torch_speeds [NAME ...] [--threads N] [--small]

A line is printed for each network. For each of the three front ends, the line has
- the median latency in milliseconds;
- the latency divided by the latency of the model that was imported from ONNX: the median over
  rounds, each of which runs all three;
- the largest difference from PyTorch's results, divided by the largest magnitude of these results.

Each front end runs in several processes (``interface_lanes``), of which only one runs at a time.

A function that ``torch.compile`` returns spends time in PyTorch before it calls the back end
(guards, collection of parameters). The line ends with the median of this time, and with the latency
of ``torch.compile`` without this time, divided by the latency of the model from ONNX. Guards on the
attributes of layers of ``torch.nn`` are left out, by PyTorch's option ``guard_filter_fn``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

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
from rammer_mlir.benchmarks.frameworks.torch_contenders import (
    COMPILE,
    ONNX,
    WAYS,
    CompiledNetwork,
)  # fmt: skip
from rammer_mlir.benchmarks.frameworks.torch_networks import NAMES, network


def measure(name: str, threads: int, *, small: bool) -> str:
    """Measure a network with all front ends; return the network's line of the printed results."""
    openings = {way: Opening(CompiledNetwork, way, name, small) for way in WAYS}
    outside: list[float] = []

    def turn(way: str, lane: Lane) -> list[float]:
        found = lane.call(seconds)
        if way == COMPILE:
            outside.extend(around for _, around in found)
        return [spent for spent, _ in found]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with torch.no_grad():
            module, arguments = network(name, small=small)
            torch.onnx.export(module, arguments, path, dynamo=True, verbose=False)
        with InterfaceLanes(name, openings, path, threads) as lanes:
            errors, rounds = lanes.each(error), lanes.rounds(turn)
    return line(name, rounds, errors, statistics.median(outside))


def line(
    name: str, rounds: Mapping[str, Sequence[float]], errors: Mapping[str, float], outside: float
) -> str:
    """Return a line of text with a network's latencies, their ratios, and errors.

    Args:
        name: the network.
        rounds: for each front end, the median seconds of a run in each round.
        errors: for each front end, the largest relative error of the results.
        outside: seconds that ``torch.compile`` spends outside of the back end.
    """
    parts = [
        f"{way} {statistics.median(rounds[way]) * 1e3:.3f} ms "
        f"({ratio(rounds[way], rounds[ONNX]):.2f}, error {errors[way]:.1e})"
        for way in WAYS
    ]
    parts.append(
        f"PyTorch before the back end {outside * 1e3:.3f} ms "
        f"(without it {ratio(rounds[COMPILE], rounds[ONNX], outside):.2f})"
    )
    return f"{name}: {'; '.join(parts)}"


@one_line_errors
def main() -> int:
    """Measure the latencies of the networks, and print a line for each; return 0."""
    return print_lines(__doc__, NAMES, measure)


if __name__ == "__main__":
    sys.exit(main())
