"""Latency and cost of the search by the bounds r and s (IOS section 7.1, figure 9)."""

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
    """A case: a network to schedule for a device with each pair of ``BOUNDS``."""

    model: str
    device: str = "v100"
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name: the model, the device, and the scale unless it is full."""
        small = "" if self.scale == "full" else f", {self.scale}"
        return f"{self.model}, {self.device}{small}"


def measure(request: Pruned) -> Record:
    """Search IOS's stages of a network with each pair of bounds, which make the search cheaper.

    Returns:
        A record: "sequential", the predicted milliseconds with a stage per operator, and "pruned",
        a list with a dictionary for each pair of bounds "r" and "s". It has the predicted "ms" with
        the stages found, and the numbers of "transitions" and of processor seconds of the search
        ("search seconds").
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
