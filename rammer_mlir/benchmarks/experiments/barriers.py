"""RAMMER section 5.2.5 on the simulator: ``python -m rammer_mlir.benchmarks.experiments.barriers``.

Base is operator after operator, a launch each, with the fastest rKernels. Irregular are modules
with different operators in one wave; there, the same placement is run with three sorts of barriers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, quantiles

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.experiments.gpu_modules import gpu_module
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.barrier_modes import BarrierMode, with_barriers
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront, waves
from rammer_mlir.scheduling.verifier import verify

MODES: tuple[BarrierMode, ...] = ("wave", "operator", "tile")


@dataclass
class Found:
    """Ratios and counts, one entry for each module."""

    base_to_rtask: list[float] = field(default_factory=list[float])
    launch_free: list[float] = field(default_factory=list[float])
    irregular: list[bool] = field(default_factory=list[bool])
    wave_to_tile: list[float] = field(default_factory=list[float])
    operator_to_tile: list[float] = field(default_factory=list[float])
    requested: dict[str, list[int]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    waits: dict[str, list[int]] = field(default_factory=lambda: {mode: [] for mode in MODES})


def is_irregular(graph: TaskGraph, device: Device) -> bool:
    """Whether a wave holds operators whose rTasks differ."""
    for wave in waves(Context(graph, device)):
        kernels = [graph.operators[number].kernels[0] for number in wave]
        if len({(k.num_rtasks, k.flops_per_rtask, k.bytes_per_rtask) for k in kernels}) > 1:
            return True
    return False


def compare(modules: int, device: Device) -> Found:
    """Schedule modules 0, 1, ... in all ways; every plan is verified."""
    found = Found()
    for seed in range(modules):
        graph = gpu_module(seed)
        in_order = Sequential().schedule(graph, device)
        base = one_by_one(graph, in_order, device)
        rtask = Wavefront().schedule(graph, device)
        modes = {mode: with_barriers(graph, rtask, device, mode) for mode in MODES}
        for plan in (in_order, base, rtask, *modes.values()):
            verify(graph, plan)
        best = modes["tile"].predicted_seconds
        found.base_to_rtask.append(base.predicted_seconds / best)
        found.launch_free.append(in_order.predicted_seconds / best)
        found.irregular.append(is_irregular(graph, device))
        found.wave_to_tile.append(modes["wave"].predicted_seconds / best)
        found.operator_to_tile.append(modes["operator"].predicted_seconds / best)
        for mode, plan in modes.items():
            found.requested[mode].append(plan.requested_waits)
            found.waits[mode].append(plan.num_waits)
    return found


def report(found: Found) -> str:
    """Return the ratios and the waits as tables."""
    irregular = [n for n, is_one in enumerate(found.irregular) if is_one]
    rows = [["ratio of predicted times", "modules", "mean", "median", "95%", "most", "paper"]]
    for name, values, paper in (
        ("base to rTask", found.base_to_rtask, "1.28, most 3.40"),
        ("base without launches to rTask", found.launch_free, ""),
        ("wave to tile barriers, irregular", [found.wave_to_tile[n] for n in irregular],
         "1.11, most 1.89"),
        ("operator to tile barriers, irregular",
         [found.operator_to_tile[n] for n in irregular], ""),
    ):  # fmt: skip
        rows.append([name, str(len(values)), *_spread(values), paper])
    waits = [["barriers", "waits asked for", "waits after minimising"]]
    for mode in MODES:
        asked, kept = found.requested[mode], found.waits[mode]
        waits.append([mode, f"{mean(asked):.0f}", f"{mean(kept):.0f}"])
    share = len(irregular) / len(found.irregular)
    return (
        f"{table(rows)}\n\nIrregular: {share:.1%} of the modules (paper: 28.3%)\n\n"
        f"Waits of a module, mean:\n\n{table(waits)}"
    )


def _spread(values: Sequence[float]) -> list[str]:
    if len(values) < 2:
        return ["-"] * 4
    cuts = quantiles(values, n=20, method="inclusive")
    return [f"{v:.2f}" for v in (mean(values), cuts[9], cuts[18], max(values))]


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, and write every module's ratios to ``barriers.json``."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.barriers", description=__doc__
    )
    parser.add_argument("--modules", type=int, default=300, help="the paper has 5,000")
    parser.add_argument("--device", default="v100")
    parser.add_argument("--veus", type=int, help="default: one for each multiprocessor")
    parser.add_argument("--output", type=Path, default=Path("build/experiments"))
    options = parser.parse_args(arguments)
    if options.modules < 1:
        raise OptionError(f"modules: expected at least 1, found {options.modules}")
    found = compare(options.modules, find_device(options.device).device(options.veus))
    print(report(found))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "barriers.json").write_text(json.dumps(vars(found)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
