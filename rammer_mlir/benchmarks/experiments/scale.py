"""Measure the cost of scheduling: ``python -m rammer_mlir.benchmarks.experiments.scale``.

A graph consists of layers of rOperators. Each rOperator reads two rOperators of the previous layer,
and is tiled by rows. An rTask reads its own rows, a row above and a row below. For each graph size,
a separate process schedules a graph with the policy `wavefront`, removes redundant barriers, and
verifies the schedule.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.memory import peak_bytes
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.verifier import verify

WIDTH, TILES = 10, 100
"""Number of rOperators in a layer, and number of rTasks in an rOperator."""
_ROW_BYTES = 4096

_LONGEST = 600.0
"""Time limit in seconds for a graph."""


@dataclass(frozen=True)
class Scale:
    """Time and memory that scheduling a graph takes.

    Attributes:
        operators: number of rOperators of the graph.
        rtasks: number of rTasks of the graph.
        schedule: seconds of the policy.
        minimize: seconds of removing redundant barriers.
        verify: seconds of the verifier.
        peak_bytes: peak resident memory of the process.
    """

    operators: int
    rtasks: int
    schedule: float
    minimize: float
    verify: float
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """The seconds of scheduling, minimizing barriers and verifying together."""
        return self.schedule + self.minimize + self.verify


def layered_graph(num_operators: int, seed: int = 0) -> TaskGraph:
    """Return a graph of layers of ``WIDTH`` rOperators with ``TILES`` rTasks each.

    Each rOperator reads two random rOperators of the previous layer. All rOperators have the same
    rKernel.
    """
    rng = random.Random(seed)
    kernel = _kernel()
    buffers = [Buffer("x", TILES, _ROW_BYTES, "input")]
    before, layer = [0], list[int]()
    operators: list[ROperator] = []
    for number in range(num_operators):
        sources = [rng.choice(before), rng.choice(before)]
        buffers.append(Buffer(f"b{number}", TILES, _ROW_BYTES, "intermediate"))
        views = tuple(View(buffer) for buffer in (*sources, number + 1))
        operators.append(ROperator(f"o{number}", (kernel,), views))
        layer.append(number + 1)
        if len(layer) == WIDTH:
            before, layer = layer, []
    return TaskGraph(tuple(buffers), tuple(operators))


def _kernel() -> RKernel:
    rows = np.arange(TILES)
    low, high = np.maximum(rows - 1, 0), np.minimum(rows + 2, TILES)
    reads = tuple(Access(n, Boxes(low, (high - low)[:, None], (1,))) for n in range(2))
    written = Boxes(rows, np.ones((TILES, 1), np.int64), (1,))
    return RKernel("rows", TILES, reads, (Access(2, written),), 100_000, 7 * _ROW_BYTES)


def measure(size: tuple[int, int]) -> Scale:
    """Schedule a graph, remove redundant barriers, verify; return the times and the peak memory.

    ``size`` is a pair: the number of the graph's rOperators and the number of the device's vEUs.
    """
    num_operators, num_veus = size
    graph = layered_graph(num_operators)
    device = find_device("a100").device(num_veus)
    begin = time.perf_counter()
    plan = get_policy("wavefront").schedule(graph, device)
    scheduled = time.perf_counter()
    plan = minimize(plan)
    minimized = time.perf_counter()
    verify(graph, plan)
    end = time.perf_counter()
    return Scale(
        num_operators, num_operators * TILES, scheduled - begin, minimized - scheduled,
        end - minimized, peak_bytes(),
    )  # fmt: skip


def report(found: Sequence[Scale]) -> str:
    """Return a table of seconds and memory with a row for each measured graph."""
    rows = [["operators", "rTasks", "wavefront s", "minimize s", "verify s", "all s", "us/rTask",
             "peak MB"]]  # fmt: skip
    rows += [
        [
            f"{s.operators:,}", f"{s.rtasks:,}", f"{s.schedule:.2f}", f"{s.minimize:.2f}",
            f"{s.verify:.2f}", f"{s.seconds:.2f}", f"{s.seconds / s.rtasks * 1e6:.1f}",
            f"{s.peak_bytes / 1e6:.0f}",
        ]
        for s in found
    ]  # fmt: skip
    return table(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Schedule graphs of all sizes, and print a table; return 1 if a graph failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.experiments.scale")
    parser.add_argument("--operators", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--veus", type=int, default=108)
    options = parser.parse_args(arguments)
    answers = [in_child(measure, (n, options.veus), _LONGEST) for n in options.operators]
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print(report([answer for answer in answers if isinstance(answer, Scale)]))
    failures = [answer.message for answer in answers if isinstance(answer, Failure)]
    print("\n".join(failures), end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
