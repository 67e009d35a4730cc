"""The `auto` policy: the best of the others by predicted time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan


@dataclass(frozen=True)
class Auto:
    """Try policies, cheap ones first, and keep the plan of smallest predicted time.

    Attributes:
        budget_seconds: no further policy is tried after this time; the first always is.
        max_list_rtasks: `list` handles rTasks one by one; larger graphs go without it.
    """

    name: ClassVar[str] = "auto"

    budget_seconds: float = 60.0
    max_list_rtasks: int = 50_000

    def __post_init__(self) -> None:
        """Refuse a budget in which nothing can be tried.

        Raises:
            OptionError: if the budget is not a positive number of seconds.
        """
        if not self.budget_seconds > 0:
            raise OptionError(
                f"search budget: expected more than 0 seconds, found {self.budget_seconds}"
            )

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the best plan that was found within the budget."""
        start = time.monotonic()
        best = Wavefront().schedule(graph, device)
        rtasks = sum(max(k.num_rtasks for k in o.kernels) for o in graph.operators)
        for policy in (Sequential(), ListScheduling()):
            if time.monotonic() - start > self.budget_seconds:
                break
            if isinstance(policy, ListScheduling) and rtasks > self.max_list_rtasks:
                continue
            plan = policy.schedule(graph, device)
            if plan.predicted_seconds < best.predicted_seconds:
                best = plan
        return best
