"""Fastest against selected rKernels on the simulator (RAMMER figure 17).

``python -m rammer_mlir.benchmarks.experiments.kernel_selection``. Each schedule runs with two sets
of rKernels: every operator's fastest one by itself, and those that Algorithm 1 selects among all
candidates, which trade an operator's own time for room beside it. The base launches operators one
by one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.experiments.model_graphs import model_graph
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.scheduling.costs import fastest
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.verifier import verify

MODELS = ("resnext29_16x64d", "lstm_tc_unrolled")
BATCHES = (1, 4, 16)


@dataclass(frozen=True)
class Selection:
    """Predicted seconds of two schedules with two sets of rKernels each.

    Attributes:
        base_fast, base_select: an operator after the other, a launch each.
        fast, select: by Algorithm 1.
        changed: share of the operators for which another rKernel than the fastest is selected.
    """

    base_fast: float
    base_select: float
    fast: float
    select: float
    changed: float


def with_kernels(graph: TaskGraph, kernels: Sequence[int]) -> TaskGraph:
    """Return a graph that offers one rKernel for each operator."""
    return replace(
        graph,
        operators=tuple(
            replace(operator, kernels=(operator.kernels[number],))
            for operator, number in zip(graph.operators, kernels, strict=True)
        ),
    )


def compare(graph: TaskGraph, device: Device) -> Selection:
    """Schedule in all four ways; every plan is verified."""
    fast = [fastest(operator, device) for operator in graph.operators]
    selected = Wavefront().schedule(graph, device)
    verify(graph, selected)
    sets = {name: with_kernels(graph, kernels)
            for name, kernels in (("fast", fast), ("select", selected.kernels))}  # fmt: skip
    seconds = {"select": selected.predicted_seconds}
    for name, offered in sets.items():
        base = one_by_one(offered, Sequential().schedule(offered, device), device)
        plans = {f"base_{name}": base}
        if name == "fast":
            plans["fast"] = Wavefront().schedule(offered, device)
        for key, plan in plans.items():
            verify(offered, plan)
            seconds[key] = plan.predicted_seconds
    changed = mean(a != b for a, b in zip(fast, selected.kernels, strict=True))
    return Selection(**seconds, changed=changed)


def report(found: dict[str, Selection]) -> str:
    """Return times, and ratios with their averages beside the paper's."""
    rows = [["model", "base, fast ms", "base, select ms", "fast ms", "select ms", "other rKernel"]]
    for name, one in found.items():
        times = (one.base_fast, one.base_select, one.fast, one.select)
        rows.append([name, *(f"{1e3 * seconds:.3f}" for seconds in times), f"{one.changed:.0%}"])
    ratios = [["ratio", "mean", "most", "paper, mean", "paper, most"]]
    for title, above, below, papers in (
        ("base, fast to fast", "base_fast", "fast", ("2.89", "")),
        ("fast to select", "fast", "select", ("1.44", "2.28")),
        ("base, select to base, fast", "base_select", "base_fast", ("1.84", "")),
    ):
        values = [getattr(one, above) / getattr(one, below) for one in found.values()]
        ratios.append([title, f"{mean(values):.2f}", f"{max(values):.2f}", *papers])
    return f"{table(rows)}\n\n{table(ratios)}"


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.kernel_selection", description=__doc__
    )
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--target", default="nvvm:sm_70")
    parser.add_argument("--device", default="v100")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    options = parser.parse_args(arguments)
    device = find_device(options.device).device()
    found = {
        f"{name}, batch {batch}": compare(model_graph(name, options.target, batch), device)
        for name in options.models
        for batch in options.batches
    }
    print(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
