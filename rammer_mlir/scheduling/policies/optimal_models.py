"""Builds a CP-SAT model of rTasks on vEUs, for the `optimal` policy.

Times are integers in time units of the model, a fixed fraction of the starting plan's length.
Durations are rounded down, so that a model's bound holds for every plan. ``BarrierModel`` extends
``PlacementModel`` by the time that barriers occupy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, prod
from types import ModuleType
from typing import TYPE_CHECKING

from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.policies.heads_tails import heads, tails
from rammer_mlir.scheduling.policies.veu_loads import Group, possible_loads
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.tasks import Placement, TaskTable

if TYPE_CHECKING:
    from ortools.sat.python import cp_model as cp

_UNITS = 10_000_000
"""The number of integer time units in the length of the starting plan."""

_MOST_LOADS = 5_000
"""Maximum number of possible loads of a vEU, tuples of rTask counts, that a model lists."""

_MOST_RANKS = 1 << 40
"""Maximum value of ``_rank``, which orders vEUs: the solver's integers have 64 bits."""


@dataclass(frozen=True)
class Solution:
    """The result of a solver run.

    Attributes:
        placement: rTasks of each vEU in order; empty if the solver found no placement in time, or
            proved that no placement is faster than the starting plan.
        awaited: for each rTask the rTasks that the barrier before it waits for.
        bound: lower bound in seconds on all plans, launch included; 0 if the solver found no bound.
    """

    placement: Placement
    awaited: Sequence[Sequence[int]]
    bound: float


class PlacementModel:
    """A CP-SAT model with variables for the begin and the vEU of each rTask.

    If an rTask reads from an rTask on another vEU, at least the time of a barrier lies between the
    end of the source and the begin of the reader. Barriers take no time on their vEU.
    """

    def __init__(
        self,
        cp_model: ModuleType,
        table: TaskTable,
        device: Device,
        start: Plan,
        bound: float,
        better: float,
    ) -> None:
        """Build the model.

        Args:
            cp_model: the module ``ortools.sat.python.cp_model``.
            table: the rTasks with their times and dependencies.
            device: the device that gives the number of vEUs and the costs of barrier and launch.
            start: a known plan; the solver searches for faster plans only.
            bound: known lower bound in seconds on all plans, launch included.
            better: least relative improvement over ``start`` to search for.
        """
        self._cp_model, self._table, self._device = cp_model, table, device
        self._unit = (start.predicted_seconds - device.launch_seconds) / _UNITS
        self._limit = floor(_UNITS * (1 - better))
        self._model: cp.CpModel = cp_model.CpModel()
        self._tasks = range(len(table.seconds))
        # Round down, so that a bound of the model is a bound for every plan.
        self._durations = [floor(seconds / self._unit) for seconds in table.seconds]
        self._delay = floor(device.barrier_seconds / self._unit)
        least = floor(max(0.0, bound - device.launch_seconds) / self._unit)
        model, num_veus = self._model, device.num_veus
        durations, delay = self._durations, self._delay
        self._heads = [floor(head) for head in heads(durations, table.sources, num_veus, delay)]
        self._tails = [floor(tail) for tail in tails(durations, table.readers, num_veus, delay)]
        self._begins = [model.new_int_var(0, self._limit, "") for _ in self._tasks]
        self._on = [[model.new_bool_var("") for _ in range(num_veus)] for _ in self._tasks]
        self._length = model.new_int_var(min(least, self._limit), self._limit, "")
        self._barriers: list[cp.IntVar] = []
        self._ends = [self._end(task) for task in self._tasks]
        self._groups = _groups(table)
        self._counts = self._count()
        self._add_veus()
        self._add_symmetries()
        self._add_dependencies()
        self._hint(_where(start, table))
        model.minimize(self._length)

    def _end(self, task: int) -> cp.LinearExprT:
        """Return an expression for the end of an rTask, in time units of the model.

        In a ``BarrierModel``, the interval of an rTask begins with its barrier.
        """
        return self._begins[task] + self._durations[task]

    def _optional_interval(self, task: int, here: cp.IntVar) -> cp.IntervalVar:
        return self._model.new_optional_fixed_size_interval_var(
            self._begins[task], self._durations[task], here, ""
        )

    def _add_veus(self) -> None:
        model, num_veus = self._model, self._device.num_veus
        for task, choices in enumerate(self._on):
            model.add_exactly_one(choices)
            model.add(self._ends[task] >= self._heads[task] + self._durations[task])
            model.add(self._length >= self._ends[task] + self._tails[task])
        for veu in range(num_veus):
            model.add_no_overlap(
                self._optional_interval(task, self._on[task][veu]) for task in self._tasks
            )
        # Implied, but not found by propagation; a cumulative constraint slows searches down
        # instead.
        model.add(num_veus * self._length >= sum(self._durations))

    def _count(self) -> list[list[cp.IntVar]]:
        """Add variables that count each rOperator's rTasks on each vEU; return a list per vEU.

        The values of a vEU's variables form a load: a tuple of rTask counts, one for each
        rOperator. The solver may choose only feasible loads, which a vEU can complete within the
        length of the starting plan. If there are more than ``_MOST_LOADS`` feasible loads, or more
        than ``_MOST_RANKS`` loads in total, add no variables and return an empty list.
        """
        groups = [
            Group(
                self._durations[tasks[0]],
                sorted(self._heads[task] for task in tasks),
                sorted(self._tails[task] for task in tasks),
            )
            for tasks in self._groups
        ]
        loads = possible_loads(groups, self._limit, _MOST_LOADS)
        if loads is None or prod(len(tasks) + 1 for tasks in self._groups) > _MOST_RANKS:
            return []
        model, counts = self._model, []
        for veu in range(self._device.num_veus):
            numbers = [model.new_int_var(0, len(tasks), "") for tasks in self._groups]
            for number, tasks in zip(numbers, self._groups, strict=True):
                model.add(number == sum(self._on[task][veu] for task in tasks))
            model.add_allowed_assignments(numbers, loads)
            counts.append(numbers)
        for numbers, tasks in zip(zip(*counts, strict=True), self._groups, strict=True):
            model.add(sum(numbers) == len(tasks))
        return counts

    def _add_symmetries(self) -> None:
        """Add constraints that break symmetries between vEUs, and between equivalent rTasks.

        Two rTasks are equivalent if they belong to the same rOperator and have equal dependencies.
        The constraints fix the order of vEUs and of equivalent rTasks, which excludes solutions
        that differ from another solution only by an exchange.
        """
        model = self._model
        if self._counts:
            for one, other in pairwise(self._counts):
                model.add(self._rank(one) >= self._rank(other))
        else:
            self._order_by_first_rtask()
        last: dict[object, int] = {}
        for task in self._tasks:
            table = self._table
            alike = table.operators[task], table.sources[task], table.readers[task]
            if alike in last:
                model.add(self._begins[last[alike]] <= self._begins[task])
            last[alike] = task

    def _rank(self, counts: Sequence[cp.IntVar]) -> cp.LinearExprT:
        """Return an expression that orders vEUs: it is larger for a larger tuple ``counts``.

        ``counts`` has for each rOperator the variable that counts its rTasks on a vEU. Tuples are
        compared lexicographically.
        """
        rank: cp.LinearExprT = 0
        for count, tasks in zip(counts, self._groups, strict=True):
            rank = rank * (len(tasks) + 1) + count
        return rank

    def _order_by_first_rtask(self) -> None:
        for task, choices in enumerate(self._on):
            for veu in range(1, len(choices)):
                before = [self._on[other][veu - 1] for other in range(task)]
                self._model.add_bool_or([~choices[veu], *before])

    def _add_dependencies(self) -> None:
        for task, sources in enumerate(self._table.sources):
            for source in sources:
                self._model.add(self._begins[task] >= self._ends[source])
                apart = self._model.new_bool_var("")
                for mine, other in zip(self._on[task], self._on[source], strict=True):
                    self._model.add_bool_or(apart, ~mine, other)
                self._add_dependency_apart(source, task, apart)

    def _add_dependency_apart(self, source: int, task: int, apart: cp.IntVar) -> None:
        late = self._begins[task] >= self._ends[source] + self._delay
        self._model.add(late).only_enforce_if(apart)

    def _hint(self, where: Sequence[int]) -> None:
        """Give the solver the placement of a known plan as a hint.

        ``where`` has the vEU of each rTask in this plan. The vEUs are renumbered, so that the hint
        satisfies the constraints on the order of vEUs (``_add_symmetries``).
        """
        veus = list(dict.fromkeys([*where, *range(self._device.num_veus)]))
        if self._counts:
            runs = [[sum(where[t] == veu for t in tasks) for tasks in self._groups] for veu in veus]
            veus = [veu for _, veu in sorted(zip(runs, veus, strict=True), reverse=True)]
        for task, veu in enumerate(where):
            for number, here in enumerate(self._on[task]):
                self._model.add_hint(here, veus[number] == veu)

    def solve(self, limit_seconds: float, workers: int) -> Solution:
        """Return the best solution that ``workers`` threads find within ``limit_seconds``."""
        solver = self._cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = limit_seconds
        solver.parameters.num_workers = workers
        # A fixed seed makes results repeatable.
        solver.parameters.random_seed = 0
        # Bounds come from propagation in this model; linear relaxations only cost time.
        solver.parameters.linearization_level = 0
        status = solver.solve(self._model)
        if status == self._cp_model.INFEASIBLE:
            return Solution([], [], self._limit * self._unit + self._device.launch_seconds)
        if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            return Solution([], [], 0.0)
        bound = solver.best_objective_bound * self._unit + self._device.launch_seconds
        veus: list[list[int]] = [[] for _ in range(self._device.num_veus)]
        for task in sorted(self._tasks, key=lambda t: (solver.value(self._begins[t]), t)):
            for veu, here in enumerate(self._on[task]):
                if solver.value(here):
                    veus[veu].append(task)
        return Solution(veus, self._awaited(solver, veus), bound)

    def _awaited(self, solver: cp.CpSolver, veus: Placement) -> list[list[int]]:
        """Return for each rTask the rTasks that the barrier before it waits for, in a solution.

        The barrier waits for the sources (rTasks that are read from) of the rTask that follows the
        barrier, and for those sources of later rTasks of the vEU that have ended when the barrier
        begins.
        ``veus`` has the rTasks of each vEU in order.
        """
        awaited: list[list[int]] = [list(sources) for sources in self._table.sources]
        for tasks in veus:
            behind: set[int] = set()
            for task in reversed(tasks):
                behind.update(self._table.sources[task])
                begin = solver.value(self._begins[task])
                if self._has_barrier(solver, task):
                    ready = (s for s in behind if solver.value(self._ends[s]) <= begin)
                    awaited[task] = sorted({*awaited[task], *ready})
        return awaited

    def _has_barrier(self, solver: cp.CpSolver, task: int) -> bool:
        del solver, task
        return False


def _groups(table: TaskTable) -> list[list[int]]:
    """Return the indices of the rTasks of each rOperator, a list per rOperator.

    An rOperator without rTasks has no list.
    """
    found: dict[int, list[int]] = {}
    for task, operator in enumerate(table.operators):
        found.setdefault(operator, []).append(task)
    return list(found.values())


def _where(plan: Plan, table: TaskTable) -> list[int]:
    """Return the vEU of each rTask of a plan, by the rTask's index in ``table``."""
    where = [0] * len(table.seconds)
    for program in plan.programs:
        for veu, items in enumerate(program.veus):
            for item in items:
                if isinstance(item, Run):
                    first = table.base[item.operator] + item.first
                    where[first : first + item.count] = [veu] * item.count
    return where
