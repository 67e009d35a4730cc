"""IOS's five schedules of a network, compared on the simulator.

Sequential, greedy (all operators that are ready are a stage), merging only, concurrent execution
only, and both (IOS section 6.1, figure 7), all executed as in the paper: a stage begins when the
one before has ended. With merging only, the best of a few bounds on the arithmetic's growth is
taken for a whole network; with both, merging is a choice for each stage. Beside them the product's
own way: stages by `ios` and by `wavefront`, with waits per tile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import onnx

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.devices.catalog import device_for
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.policies.wavefront import Wavefront, waves
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier import verify

NETWORKS = ("squeezenet", "inception_v3", "nasnet_a_6_4032", "randwire")
"""The paper's networks."""


def sequential(graph: TaskGraph, device: Device) -> Plan:
    """Execute operator after operator."""
    return place_stages(graph, device, [[n] for n in range(len(graph.operators))], "stage")


def greedy(graph: TaskGraph, device: Device) -> Plan:
    """Execute all operators that are ready as a stage."""
    return place_stages(graph, device, waves(Context(graph, device)), "stage")


class Schedule(NamedTuple):
    """One way to execute a network.

    Attributes:
        plan: makes the plan.
        merges_for: the policy that operators are merged for; none if they are not merged.
        growths: bounds on the growth of the arithmetic of merged operators; 0 merges nothing.
    """

    plan: Callable[[TaskGraph, Device], Plan]
    merges_for: str = "sequential"
    growths: tuple[float, ...] = (0.0,)


SCHEDULES = {
    "sequential": Schedule(sequential),
    "greedy": Schedule(greedy),
    "merge": Schedule(sequential, growths=(0.0, 1.0, 2.0, 4.0)),
    "parallel": Schedule(Ios(barriers="stage").schedule),
    "both": Schedule(Ios(barriers="stage").schedule, "ios", (0.0, 4.0)),
    "ios, per tile": Schedule(Ios().schedule, "ios", (0.0, 4.0)),
    "wavefront, per tile": Schedule(Wavefront().schedule),
}


def compare(name: str, target: str, batch: int, scale: Scale = "full") -> dict[str, float]:
    """Return the predicted seconds of each schedule of a benchmark model.

    Where several bounds on the growth are tried, the fastest one counts. Plans are verified.
    """
    model = build(name, batch, scale)
    device = device_for(target).device()
    graphs: dict[tuple[str, float], TaskGraph] = {}

    def seconds(schedule: Schedule, growth: float) -> float:
        key = (schedule.merges_for if growth else "", growth)
        if key not in graphs:
            graphs[key] = merged_graph(model, target, schedule.merges_for, growth)
        plan = schedule.plan(graphs[key], device)
        verify(graphs[key], plan)
        return plan.predicted_seconds

    return {
        name: min(seconds(schedule, growth) for growth in schedule.growths)
        for name, schedule in SCHEDULES.items()
    }


def merged_graph(model: onnx.ModelProto, target: str, policy: str, growth: float) -> TaskGraph:
    """Compile a model up to its rOperators, after operators were merged for a policy."""
    options = check_options(target, policy=policy, num_veus=None, merge=growth)
    return Compilation.of_model(model, options).task_graph()


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Print predicted times, and the speed-up of each schedule over the sequential one."""
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.experiments.ios_strategies", description=__doc__
    )
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--target", default="nvvm:sm_80", help="nvvm:sm_80: A100")
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args(arguments)
    rows = [["model", *SCHEDULES]]
    for name in options.models:
        found = compare(name, options.target, options.batch)
        first = found["sequential"]
        rows.append([name, *(f"{1e3 * s:.3f} ms ({first / s:.2f})" for s in found.values())])
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
