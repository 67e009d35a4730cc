"""The `optimal` policy: a CP-SAT model of rTasks on vEUs, warm-started from `list`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from math import floor, inf
from typing import Any, ClassVar

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.tasks import Placement, TaskTable, plan_of, task_table

_TICKS = 100_000
"""Whole time units that the plan of `list` is divided into: bounds are exact to this part of it."""


@dataclass(frozen=True)
class Proof:
    """A plan and how far it can be from the best.

    Attributes:
        bound: no plan with the same rKernels in one rProgram takes fewer seconds.
        gap: what the plan takes more than the bound, as a share of the plan's time.
    """

    plan: Plan
    bound: float

    @property
    def gap(self) -> float:
        """Share of the predicted time that might be saved; 0 where the plan is optimal."""
        seconds = self.plan.predicted_seconds
        return max(0.0, 1 - self.bound / seconds) if seconds else 0.0


@dataclass(frozen=True)
class Optimal:
    """Search for the best placement of single rTasks with the rKernels that `list` chose.

    The model lets a result reach another vEU one barrier late, but no barrier takes that vEU's
    time. So its bound holds for every plan, while a plan of that length may not exist.

    Attributes:
        limit_seconds: the solver stops after this time.
        workers: threads of the solver; one makes a search that ends in time repeatable.
        max_clauses: rTasks and dependencies, each for every vEU, that a model may have; the solver
            takes about a kilobyte for each, and is of little help beyond.
    """

    name: ClassVar[str] = "optimal"

    limit_seconds: float = 10.0
    workers: int = 1
    max_clauses: int = 500_000

    def __post_init__(self) -> None:
        """Refuse a search without time.

        Raises:
            OptionError: if the time limit is not a positive, finite number of seconds.
        """
        if not 0 < self.limit_seconds < inf:
            raise OptionError(
                "time limit of policy 'optimal': expected a positive, finite number of seconds, "
                f"found {self.limit_seconds}"
            )

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the best plan found.

        Raises:
            OptionError: if OR-tools is not installed, or the graph is too large for it.
        """
        return self.prove(graph, device).plan

    def prove(self, graph: TaskGraph, device: Device) -> Proof:
        """Return the best plan found, never slower than that of `list`, and a lower bound.

        Raises:
            OptionError: if OR-tools is not installed, or the graph is too large for it.
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
        model = _Model(cp_model, table, device, start)
        placement, bound = model.solve(self.limit_seconds, self.workers)
        best = start
        if placement:
            found = plan_of(graph, device, table, placement)
            best = min(start, found, key=lambda plan: plan.predicted_seconds)
        return Proof(best, min(bound, best.predicted_seconds))


def _cp_model() -> Any:
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        raise OptionError(
            "policy 'optimal' needs OR-tools, which is not installed: "
            "pip install 'rammer-mlir[optimal]'"
        ) from error


class _Model:
    """Integer variables for each rTask's vEU and start; all durations are rounded down."""

    def __init__(self, cp_model: Any, table: TaskTable, device: Device, start: Plan) -> None:
        self._cp_model, self._table, self._device = cp_model, table, device
        self._tick = start.predicted_seconds / _TICKS
        self._model = cp_model.CpModel()
        self._durations = [floor(seconds / self._tick) for seconds in table.seconds]
        self._delay = floor(device.barrier_seconds / self._tick)
        tasks = range(len(table.seconds))
        model = self._model
        self._starts = [model.new_int_var(0, _TICKS, "") for _ in tasks]
        self._on = [[model.new_bool_var("") for _ in range(device.num_veus)] for _ in tasks]
        self._length = model.new_int_var(0, _TICKS, "")
        self._add_veus()
        self._add_dependencies()
        self._hint(start)
        model.minimize(self._length)

    def _add_veus(self) -> None:
        model = self._model
        on_veu: list[list[Any]] = [[] for _ in range(self._device.num_veus)]
        for task, choices in enumerate(self._on):
            model.add_exactly_one(choices)
            begin, duration = self._starts[task], self._durations[task]
            model.add(self._length >= begin + duration)
            for veu, here in enumerate(choices):
                on_veu[veu].append(
                    model.new_optional_fixed_size_interval_var(begin, duration, here, "")
                )
            # Equal vEUs: rTask t goes to one of the first t + 1.
            for here in choices[task + 1 :]:
                model.add(here == 0)
        for intervals in on_veu:
            model.add_no_overlap(intervals)

    def _add_dependencies(self) -> None:
        model = self._model
        for task, sources in enumerate(self._table.sources):
            for source in sources:
                end = self._starts[source] + self._durations[source]
                apart = model.new_bool_var("")
                for mine, other in zip(self._on[task], self._on[source], strict=True):
                    model.add_bool_or(apart, ~mine, other)
                model.add(self._starts[task] >= end)
                model.add(self._starts[task] >= end + self._delay).only_enforce_if(apart)

    def _hint(self, start: Plan) -> None:
        """Give the solver the vEUs of a plan, renamed in the order in which rTasks use them."""
        where: dict[int, int] = {}
        for program in start.programs:
            for veu, items in enumerate(program.veus):
                for item in items:
                    if isinstance(item, Run):
                        first = self._table.base[item.operator] + item.first
                        where.update(dict.fromkeys(range(first, first + item.count), veu))
        renamed: dict[int, int] = {}
        for task in range(len(where)):
            number = renamed.setdefault(where[task], len(renamed))
            for veu, here in enumerate(self._on[task]):
                self._model.add_hint(here, veu == number)

    def solve(self, limit_seconds: float, workers: int) -> tuple[Placement, float]:
        """Return the placement found, empty if none was, and the bound in seconds with launch."""
        solver = self._cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = limit_seconds
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = 0
        status = solver.solve(self._model)
        bound = solver.best_objective_bound * self._tick + self._device.launch_seconds
        if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            return [], 0.0
        veus: list[list[int]] = [[] for _ in range(self._device.num_veus)]
        for task in sorted(
            range(len(self._starts)), key=lambda t: (solver.value(self._starts[t]), t)
        ):
            for veu, here in enumerate(self._on[task]):
                if solver.value(here):
                    veus[veu].append(task)
        return veus, bound
