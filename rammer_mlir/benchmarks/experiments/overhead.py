"""Scheduling overhead on the simulator (RAMMER figure 16).

``python -m rammer_mlir.benchmarks.experiments.overhead``. The base launches operators one by one,
RAMMER whole programs. Overhead is the time not spent in launched kernels. Barriers inside a program
are part of its kernel, in the paper too, and shown apart: a vEU's time in them on average.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.experiments.model_graphs import TABLE_1, model_graph
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify


@dataclass(frozen=True)
class Overhead:
    """Where a plan's predicted time goes, in seconds.

    Attributes:
        launches: number of rPrograms.
        overhead: before kernels begin, for all launches together.
        total: of the whole plan.
        in_barriers: in barriers inside kernels, on average over the vEUs.
    """

    launches: int
    overhead: float
    total: float
    in_barriers: float

    @property
    def share(self) -> float:
        """Overhead as a share of the total."""
        return self.overhead / self.total


def overhead(graph: TaskGraph, plan: Plan, device: Device) -> Overhead:
    """Simulate a plan that the verifier accepts.

    Raises:
        ScheduleError: if it does not.
    """
    verify(graph, plan)
    run = simulate(graph, plan, device)
    launches = sum(program.num_rtasks > 0 for program in plan.programs)
    return Overhead(
        launches,
        launches * device.launch_seconds,
        run.seconds,
        run.waiting_seconds / device.num_veus,
    )


def compare(graph: TaskGraph, device: Device) -> tuple[Overhead, Overhead]:
    """Return the overhead of the base and of RAMMER."""
    base = one_by_one(graph, Sequential().schedule(graph, device), device)
    rammer = Wavefront().schedule(graph, device)
    return overhead(graph, base, device), overhead(graph, rammer, device)


def report(found: dict[str, tuple[Overhead, Overhead]]) -> str:
    """Return a row for each model, and the averages beside the paper's."""
    rows = [
        ["model", "base: launches", "overhead ms", "share",
         "RAMMER: launches", "overhead ms", "share", "in barriers ms"],
    ]  # fmt: skip
    for name, (base, rammer) in found.items():
        rows.append([name, *_cells(base), *_cells(rammer), f"{1e3 * rammer.in_barriers:.3f}"])
    bases, rammers = (list(side) for side in zip(*found.values(), strict=True))
    mean_waits = mean(one.in_barriers for one in rammers)
    rows.append(["mean", *_means(bases), *_means(rammers), f"{1e3 * mean_waits:.3f}"])
    rows.append(["paper, mean", "", "2.27", "18.4%", "", "0.37", "", ""])
    return table(rows)


def _cells(one: Overhead) -> list[str]:
    return [str(one.launches), f"{1e3 * one.overhead:.3f}", f"{one.share:.1%}"]


def _means(many: Sequence[Overhead]) -> list[str]:
    seconds, share = (mean(getattr(one, name) for one in many) for name in ("overhead", "share"))
    return ["", f"{1e3 * seconds:.3f}", f"{share:.1%}"]


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.overhead", description=__doc__
    )
    parser.add_argument("models", nargs="*", default=list(TABLE_1))
    parser.add_argument("--target", default="nvvm:sm_70")
    parser.add_argument("--device", default="v100")
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args(arguments)
    device = find_device(options.device).device()
    found = {
        name: compare(model_graph(name, options.target, options.batch), device)
        for name in options.models
    }
    print(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
