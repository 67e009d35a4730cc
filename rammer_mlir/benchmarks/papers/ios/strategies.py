"""Predict the times of IOS's five schedules of a network (IOS section 6.1, figures 6 and 14).

The times are from the simulator. The schedules are:

- sequential: a stage per operator.
- greedy: all ready operators form a stage.
- merge: sequential, after operators of the same input are merged. Several bounds on the growth of
  the arithmetic are tried, and the best is used for the whole network.
- parallel: IOS's stages, without merged operators.
- both: IOS's stages; for each stage, it is decided whether operators are merged.

As in the paper, a stage begins when the previous stage has ended. Two more schedules are this
project's: stages by the policies `ios` and `wavefront`, with waits per tile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import onnx

from rammer_mlir.benchmarks.models import Scale, build
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.policies.wavefront import Wavefront, waves
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier import verify

NETWORKS = ("squeezenet", "inception_v3", "nasnet_a_6_4032", "randwire")
"""The paper's networks."""


def sequential(graph: TaskGraph, device: Device) -> Plan:
    """Return a plan with a stage for each operator, in the graph's order."""
    return place_stages(graph, device, [[n] for n in range(len(graph.operators))], "stage")


def greedy(graph: TaskGraph, device: Device) -> Plan:
    """Return a plan of greedy stages: a stage has all operators that are ready when it begins."""
    return place_stages(graph, device, waves(Context(graph, device)), "stage")


class Schedule(NamedTuple):
    """A strategy to schedule a network.

    Attributes:
        plan: returns the plan of a graph for a device.
        merges_for: which operators of the same input are merged: with "ios", only those that form a
            stage that becomes faster by merging; with "sequential", all that ``growths`` permits.
        growths: bounds that are tried one after the other. A bound is the largest factor by which
            merging may multiply the arithmetic of operators; with 0, nothing is merged.
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


@dataclass(frozen=True)
class Network:
    """A case of the study: a network that is scheduled for a device."""

    model: str
    device: str = "v100"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, the device, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.model}, {self.device}{small}"


def measure(network: Network) -> Record:
    """Predict the times of a network with each of ``SCHEDULES``, and verify the plans.

    Returns:
        A record with these keys:

        - "ms": the milliseconds, keyed by the name of the schedule. A schedule with several bounds
          on the growth of the arithmetic (``growths``) has the least time of all bounds.
        - "search": counts of IOS's search without merged operators, such as "transitions", and
          "stages", the number of stages found.
        - "search seconds": processor seconds of this search.
    """
    model = build(network.model, 1, network.scale)
    device = find_device(network.device).device()
    graphs: dict[tuple[str, float], TaskGraph] = {}

    def milliseconds(schedule: Schedule, growth: float) -> float:
        key = (schedule.merges_for if growth else "", growth)
        if key not in graphs:
            graphs[key] = merged_graph(model, network.device, schedule.merges_for, growth)
        plan = schedule.plan(graphs[key], device)
        verify(graphs[key], plan)
        return 1e3 * plan.predicted_seconds

    found = {
        name: min(milliseconds(schedule, growth) for growth in schedule.growths)
        for name, schedule in SCHEDULES.items()
    }
    begin = time.process_time()
    stages, counts = Ios(barriers="stage").search(graphs["", 0.0], device)
    return {
        "ms": found,
        "search": {**vars(counts), "stages": len(stages)},
        "search seconds": time.process_time() - begin,
    }


def merged_graph(model: onnx.ModelProto, device: str, policy: str, growth: float) -> TaskGraph:
    """Return a model's task graph for ``device``, after operators of the same input are merged.

    Args:
        model: the model.
        device: name of the device.
        policy: with "ios", operators are merged only if they form a stage that becomes faster; with
            "sequential", all operators are merged that can be merged.
        growth: largest factor by which merging may multiply the arithmetic of operators; with 0,
            nothing is merged.
    """
    target = find_device(device).targets[0]
    options = check_options(target, policy=policy, num_veus=None, merge=growth, costs=device)
    return Compilation.of_model(model, options).task_graph()


STUDY = Study(
    "ios strategies",
    measure,
    cases=tuple(Network(model, device) for device in ("v100", "rtx2080ti") for model in NETWORKS),
    quick=(Network("squeezenet", "v100", "small"),),
)
