"""The policy `fewest-waits`: among plans of similar speed, the plan with the fewest waits.

A wait costs the time in the device description only if the other vEU arrives in time. On cores that
also run other work, each wait is a risk.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.extend import Device, Plan, TaskGraph, get_policy
from rammer_mlir.scheduling.costs import fastest
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies.list_scheduling import place
from rammer_mlir.scheduling.tasks import plan_of, task_table


@dataclass(frozen=True)
class FewestWaits:
    """List scheduling with random restarts, beside the plans of `wavefront` and `sequential`.

    Attributes:
        restarts: number of list schedules; all but the first have randomly perturbed priorities.
        spread: largest perturbation of a priority, relative to the longest path.
        slack: largest acceptable ratio of a plan's time to that of the fastest plan.
        max_rtasks: graphs with more rTasks get no list schedules, which place rTasks individually.
    """

    name: ClassVar[str] = "fewest-waits"

    restarts: int = 8
    spread: float = 0.2
    slack: float = 1.05
    max_rtasks: int = 5_000

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the plan with the fewest waits among those within ``slack`` of the fastest."""
        others = (get_policy(name) for name in ("wavefront", "sequential"))
        found = [policy.schedule(graph, device) for policy in others]
        plans = [minimize(plan) for plan in (*found, *self._restarted(graph, device))]
        allowed = self.slack * min(plan.predicted_seconds for plan in plans)
        fast = [plan for plan in plans if plan.predicted_seconds <= allowed]
        return min(fast, key=lambda plan: (plan.num_waits, plan.predicted_seconds))

    def _restarted(self, graph: TaskGraph, device: Device) -> Iterator[Plan]:
        """Yield ``restarts`` list schedules with reproducible random priorities.

        A graph of more than ``max_rtasks`` rTasks has none.
        """
        kernels = [fastest(operator, device) for operator in graph.operators]
        chosen = (o.kernels[k] for o, k in zip(graph.operators, kernels, strict=True))
        if sum(kernel.num_rtasks for kernel in chosen) > self.max_rtasks:
            return
        table = task_table(graph, device, kernels)
        levels = table.bottom_levels(device.barrier_seconds)
        chance = random.Random(0)
        for restart in range(self.restarts):
            spread = self.spread if restart else 0.0
            priority = [level * (1 + chance.uniform(-spread, spread)) for level in levels]
            yield plan_of(graph, device, table, place(table, device, priority))
