"""Schedules made for one batch size or device, executed at another (IOS section 7.2, table 3).

``python -m rammer_mlir.benchmarks.experiments.ios_specialization``, on the simulator. What moves is
the stages: which operators go together, in which order. rKernels are those of the batch size and
device that execute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.experiments.model_graphs import model_graph
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import device_for
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.verifier import verify

BATCHES = (1, 32, 128)
TARGETS = ("nvvm:sm_70", "nvvm:sm_90", "rocdl:gfx906")

Setting = tuple[TaskGraph, Device]
"""A network as it is compiled for a batch size and a device, and the device."""


def setting(name: str, target: str, batch: int, scale: Scale = "full") -> Setting:
    """Compile a benchmark model for a GPU and batch size."""
    return model_graph(name, target, batch, scale), device_for(target).device()


def cross(settings: Sequence[Setting]) -> list[list[float]]:
    """Return seconds: a row for where a schedule is executed, a column for what it was made for.

    Raises:
        OptionError: if the settings are not of one network.
    """
    counts = {len(graph.operators) for graph, _ in settings}
    if len(counts) != 1:
        raise OptionError(f"settings: expected equal numbers of operators, found {sorted(counts)}")
    made = [Ios().stages(graph, device) for graph, device in settings]
    rows: list[list[float]] = []
    for graph, device in settings:
        plans = [place_stages(graph, device, stages, "stage") for stages in made]
        for plan in plans:
            verify(graph, plan)
        rows.append([plan.predicted_seconds for plan in plans])
    return rows


def report(names: Sequence[str], seconds: Sequence[Sequence[float]]) -> str:
    """Return a table of milliseconds; in brackets, how much slower than the specialised one."""
    rows = [["executed on", *(f"made for {name}" for name in names)]]
    for number, (name, row) in enumerate(zip(names, seconds, strict=True)):
        own = row[number]
        rows.append([name, *(f"{1e3 * value:.3f} ({value / own - 1:+.1%})" for value in row)])
    return table(rows)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables: batch sizes, then devices."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.ios_specialization", description=__doc__
    )
    parser.add_argument("model", nargs="?", default="inception_v3")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    options = parser.parse_args(arguments)
    first = options.targets[0]
    batches = [setting(options.model, first, batch) for batch in options.batches]
    print(report([f"batch {batch}" for batch in options.batches], cross(batches)), end="\n\n")
    devices = [setting(options.model, target, 1) for target in options.targets]
    print(report([device.name for _, device in devices], cross(devices)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
