"""The `optimal` policy: solves CP-SAT models of rTasks on vEUs, starting from `list`'s plan."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from math import inf
from types import ModuleType
from typing import ClassVar

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.cp_sat_barriers import BarrierModel
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling, sampled_plan
from rammer_mlir.scheduling.policies.lower_bounds import makespan_bound
from rammer_mlir.scheduling.policies.optimal_models import PlacementModel
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.tasks import plan_of, task_table

_EXACT = 1e-5
"""A plan counts as optimal if no other plan can save this share of its predicted time.

The solver searches for plans that are faster by at least half of this share.
"""

_MOST_SAMPLES = 300
_SAMPLED_RTASKS = 6_000
"""Maximum number of rTasks in all plans that list scheduling samples before the solver starts.

There are at most ``_MOST_SAMPLES`` of these plans.
"""


@dataclass(frozen=True)
class Proof:
    """The best plan found, with a lower bound on the time of all plans.

    Attributes:
        plan: the best plan found.
        bound: lower bound in seconds on the time of all plans that consist of one rProgram with
            the same rKernels.
    """

    plan: Plan
    bound: float

    @property
    def gap(self) -> float:
        """The largest share (0 to 1) of the plan's predicted time that another plan could save."""
        seconds = self.plan.predicted_seconds
        return max(0.0, 1 - self.bound / seconds) if seconds else 0.0


@dataclass(frozen=True)
class Optimal:
    """Search for the best placement of single rTasks with the rKernels that `list` chose.

    Up to two CP-SAT models are solved. In the first model, a result reaches another vEU later by
    the time of a barrier, but barriers take no time on their vEUs; this model is solved fast. If
    the first model does not prove the plan optimal, the second model also counts the time that
    barriers take on their vEUs. A barrier may wait for the sources of several later rTasks.

    Attributes:
        limit_seconds: the search, which includes both models, stops after this time.
        workers: threads of the solver; with a single thread, a search that ends before the limit is
            repeatable.
        max_clauses: graphs are refused if (rTasks + dependencies between rTasks) * vEUs exceeds
            this number: the solver takes about a kilobyte of memory for each unit of the product,
            and finds little on larger models.
    """

    name: ClassVar[str] = "optimal"

    limit_seconds: float = 10.0
    workers: int = 1
    max_clauses: int = 500_000

    def __post_init__(self) -> None:
        """Check that the time limit is positive and finite.

        Raises:
            OptionError: if the time limit is not a positive, finite number of seconds.
        """
        if not 0 < self.limit_seconds < inf:
            raise OptionError(
                "time limit of policy 'optimal': expected a positive, finite number of seconds, "
                f"found {self.limit_seconds}"
            )

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the best plan found; ``prove`` also returns a lower bound.

        Raises:
            OptionError: if OR-tools is not installed, or the graph exceeds ``max_clauses``.
        """
        return self.prove(graph, device).plan

    def prove(self, graph: TaskGraph, device: Device) -> Proof:
        """Return the best plan found, never slower than the plan of `list`, and a lower bound.

        Raises:
            OptionError: if OR-tools is not installed, or the graph exceeds ``max_clauses``.
        """
        cp_model = _cp_model()
        start = ListScheduling().schedule(graph, device)
        table = task_table(graph, device, start.kernels)
        if not table.seconds:
            return Proof(start, start.predicted_seconds)
        size = (len(table.seconds) + sum(map(len, table.sources))) * device.num_veus
        if size > self.max_clauses:
            raise OptionError(
                f"policy 'optimal': expected at most {self.max_clauses} rTasks and dependencies "
                f"times vEUs, found {size}; choose 'list' or 'auto' for this model"
            )
        begin = time.monotonic()
        least = makespan_bound(table, device.num_veus, device.barrier_seconds)
        bound = device.launch_seconds + least
        proof = Proof(start, min(bound, start.predicted_seconds))
        if proof.gap >= _EXACT:
            sample = sampled_plan(graph, device, table, _samples(len(table.seconds)))
            best = min(start, sample, key=lambda plan: plan.predicted_seconds)
            proof = Proof(best, min(bound, best.predicted_seconds))
        for model_type in (PlacementModel, BarrierModel):
            left = self.limit_seconds - (time.monotonic() - begin)
            if left <= 0 or proof.gap < _EXACT:
                break
            model = model_type(cp_model, table, device, proof.plan, proof.bound, _EXACT / 2)
            solution = model.solve(left, self.workers)
            plans = [proof.plan]
            if solution.placement:
                plans.append(plan_of(graph, device, table, solution.placement, solution.awaited))
            best = min(plans, key=lambda plan: plan.predicted_seconds)
            bound = max(proof.bound, solution.bound)
            proof = Proof(best, min(bound, best.predicted_seconds))
        return proof


def _samples(rtasks: int) -> int:
    """Return the number of plans to sample by list scheduling, for a graph of ``rtasks`` rTasks.

    The result is the largest number up to ``_MOST_SAMPLES`` for which the plans have at most
    ``_SAMPLED_RTASKS`` rTasks together, but at least 1.
    """
    return max(1, min(_MOST_SAMPLES, _SAMPLED_RTASKS // rtasks))


def _cp_model() -> ModuleType:
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise OptionError(
            "policy 'optimal' needs OR-tools, which is not installed: "
            "pip install 'rammer-mlir[optimal]'"
        ) from error
