"""Compare latency and search cost of IOS with limits on its stages (IOS section 7.1, figure 9).

A stage executes groups of operators concurrently. The limit r is the largest number of operators in
a group, and s the largest number of groups in a stage. Smaller limits make the search cheaper, but
the schedule that the search finds may be slower.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product

from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.benchmarks.papers.model_graphs import model_graph
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.verifier import verify

BOUNDS = tuple(product((1, 2, 3), (3, 8)))
"""Pairs of bounds: most operators of a group (r), and most groups of a stage (s)."""


@dataclass(frozen=True)
class Pruned:
    """A case of the study: a network that IOS schedules for a device with each pair in ``BOUNDS``.

    A pair limits the number of operators in a group and the number of groups in a stage.
    """

    model: str
    device: str = "v100"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, the device, and the scale unless it is "full"."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.model}, {self.device}{small}"


def measure(request: Pruned) -> Record:
    """Search IOS's stages of a network with each pair of limits; record latency and search cost.

    Returns:
        A record: "sequential", the predicted milliseconds with a stage per operator, and "pruned",
        a list with a dictionary for each pair of limits:

        - "r": largest number of operators in a group.
        - "s": largest number of groups in a stage.
        - "ms": the predicted milliseconds with the stages found.
        - "transitions": number of transitions of the search.
        - "search seconds": processor seconds of the search.
    """
    graph = model_graph(request.model, request.device, scale=request.scale)
    device = find_device(request.device).device()
    found: list[Record] = []
    for group_size, num_groups in BOUNDS:
        policy = Ios(group_size, num_groups, barriers="stage")
        begin = time.process_time()
        stages, counts = policy.search(graph, device)
        spent = time.process_time() - begin
        plan = place_stages(graph, device, stages, "stage")
        verify(graph, plan)
        found.append({
            "r": group_size, "s": num_groups, "ms": 1e3 * plan.predicted_seconds,
            "transitions": counts.transitions, "search seconds": spent,
        })  # fmt: skip
    sequential = place_stages(graph, device, [[n] for n in range(len(graph.operators))], "stage")
    return {"sequential": 1e3 * sequential.predicted_seconds, "pruned": found}


STUDY = Study(
    "ios pruning",
    measure,
    cases=(Pruned("inception_v3"), Pruned("nasnet_a_6_4032")),
    quick=(Pruned("squeezenet", scale="small"),),
)
