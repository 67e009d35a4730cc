"""Compare the latencies of networks from ONNX, ``torch.export`` and ``torch.compile``.

Usage: python -m rammer_mlir.benchmarks.frameworks.torch_speeds [NAME ...] [--threads N] [--small]

A line is printed for each network. For each of the three front ends, the line has
- the median latency in milliseconds;
- the latency divided by the latency of the model that was imported from ONNX: the median over
  rounds, each of which runs all three;
- the largest difference from PyTorch's results, divided by the largest magnitude of these results.

Each front end runs in ``COPIES`` processes, of which only one runs at a time. The speed of a
process depends on where its data are in memory, which differs between processes.

A function that ``torch.compile`` returns spends time in PyTorch before it calls the back end
(guards, collection of parameters). The line ends with the median of this time, and with the latency
of ``torch.compile`` without this time, divided by the latency of the model from ONNX. Guards on the
attributes of layers of ``torch.nn`` are left out, by PyTorch's option ``guard_filter_fn``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.contender_process import Lane
from rammer_mlir.benchmarks.frameworks.torch_contenders import (
    COMPILE,
    ONNX,
    WAYS,
    Opening,
    error,
    seconds,
)  # fmt: skip
from rammer_mlir.benchmarks.frameworks.torch_networks import NAMES, network
from rammer_mlir.support.interleaved_timing import take_rounds

COPIES = 5
"""Number of processes of each front end."""

SECONDS = 60.0
"""Seconds after which no more rounds begin for a network."""

TIMEOUT = 1200.0
"""Seconds in which a process must compile its network."""


def measure(name: str, threads: int, *, small: bool) -> str:
    """Measure a network with all front ends; return the network's line of the printed results."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "model.onnx"
        with torch.no_grad():
            module, arguments = network(name, small=small)
            torch.onnx.export(module, arguments, path, dynamo=True, verbose=False)
        lanes: dict[tuple[str, int], Lane] = {}
        for copy in range(COPIES):
            for way in WAYS:
                lane = Lane(f"{name} by {way}", Opening(way, name, small), path, threads, {})
                lanes[way, copy] = stack.enter_context(lane)
                lane.open(TIMEOUT)
        errors = {way: lanes[way, 0].call(error) for way in WAYS}
        outside: list[float] = []

        def turn(key: tuple[str, int]) -> list[float]:
            found = lanes[key].call(seconds)
            if key[0] == COMPILE:
                outside.extend(around for _, around in found)
            return [spent for spent, _ in found]

        rounds = take_rounds({key: partial(turn, key) for key in lanes}, SECONDS)
    return line(name, joined_copies(rounds), errors, statistics.median(outside))


def joined_copies(
    rounds: Mapping[tuple[str, int], Sequence[Sequence[float]]],
) -> dict[str, list[float]]:
    """Return the median seconds of each round, over the runs of all processes, by front end.

    ``rounds`` has the seconds of each run, by front end and index of the process, then by round.
    """
    return {
        way: [
            statistics.median(run for runs in of_copies for run in runs)
            for of_copies in zip(*(rounds[key] for key in rounds if key[0] == way), strict=True)
        ]
        for way in WAYS
    }


def line(
    name: str, rounds: Mapping[str, Sequence[float]], errors: Mapping[str, float], outside: float
) -> str:
    """Return a line of text with a network's latencies and errors.

    Args:
        name: the network.
        rounds: seconds in each round, by front end.
        errors: relative errors, by front end.
        outside: seconds that ``torch.compile`` spends outside of the back end.
    """

    def ratio(way: str, without: float = 0.0) -> float:
        pairs = zip(rounds[way], rounds[ONNX], strict=True)
        return statistics.median((one - without) / base for one, base in pairs)

    parts = [
        f"{way} {statistics.median(rounds[way]) * 1e3:.3f} ms "
        f"({ratio(way):.2f}, error {errors[way]:.1e})"
        for way in WAYS
    ]
    parts.append(
        f"PyTorch before the back end {outside * 1e3:.3f} ms "
        f"(without it {ratio(COMPILE, outside):.2f})"
    )
    return f"{name}: {'; '.join(parts)}"


@one_line_errors
def main() -> int:
    """Measure the latencies of the networks, and print a line for each; return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(NAMES), metavar="NAME")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--small", action="store_true", help="reduced sizes")
    given = parser.parse_args()
    for name in given.names:
        if name not in NAMES:
            parser.error(f"unknown network {name!r}; choose from {', '.join(NAMES)}")
    for name in given.names:
        print(measure(name, given.threads, small=given.small), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
