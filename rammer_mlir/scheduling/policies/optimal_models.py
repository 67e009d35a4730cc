"""CP-SAT models of rTasks on vEUs, for the `optimal` policy.

Times are whole numbers of a unit, durations rounded down, so that a model's bound holds for every
plan. ``BarrierModel`` adds to ``PlacementModel`` that a barrier takes its vEU's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.tasks import Placement, TaskTable

_UNITS = 1_000_000
"""Whole time units that the plan at the start is divided into."""


@dataclass(frozen=True)
class Solution:
    """What a solver found.

    Attributes:
        placement: rTasks of each vEU in order; empty if none was found in time.
        awaited: for each rTask what a barrier in front of it waits for.
        bound: no plan takes fewer seconds, launch included.
    """

    placement: Placement
    awaited: Sequence[Sequence[int]]
    bound: float


class PlacementModel:
    """Integer variables for each rTask's vEU, start and end; barriers only delay."""

    def __init__(
        self, cp_model: Any, table: TaskTable, device: Device, start: Plan, bound: float
    ) -> None:
        """Build the model.

        Args:
            cp_model: OR-tools' module.
            table: the rTasks.
            device: the vEUs.
            start: a plan that is known; what is found is not slower.
            bound: seconds below which no plan is, as far as is known.
        """
        self._cp_model, self._table, self._device = cp_model, table, device
        self._unit = start.predicted_seconds / _UNITS
        self._model = cp_model.CpModel()
        self._tasks = range(len(table.seconds))
        self._durations = [floor(seconds / self._unit) for seconds in table.seconds]
        self._delay = floor(device.barrier_seconds / self._unit)
        least = floor(max(0.0, bound - device.launch_seconds) / self._unit)
        model = self._model
        self._begins = [model.new_int_var(0, _UNITS, "") for _ in self._tasks]
        self._on = [[model.new_bool_var("") for _ in range(device.num_veus)] for _ in self._tasks]
        self._length = model.new_int_var(least, _UNITS, "")
        self._barriers: list[Any] = []
        self._ends = [self._end(task) for task in self._tasks]
        self._add_veus()
        self._add_symmetries()
        self._add_dependencies()
        self._hint(_where(start, table))
        model.minimize(self._length)

    def _end(self, task: int) -> Any:
        """Return when an rTask ends; what is before it on its vEU ends before it begins."""
        return self._begins[task] + self._durations[task]

    def _optional_interval(self, task: int, here: Any) -> Any:
        return self._model.new_optional_fixed_size_interval_var(
            self._begins[task], self._durations[task], here, ""
        )

    def _add_veus(self) -> None:
        model, num_veus = self._model, self._device.num_veus
        for task, choices in enumerate(self._on):
            model.add_exactly_one(choices)
            model.add(self._length >= self._ends[task])
        for veu in range(num_veus):
            model.add_no_overlap(
                self._optional_interval(task, self._on[task][veu]) for task in self._tasks
            )
        # Implied, and found by no propagation: a cumulative constraint instead slows searches down.
        model.add(num_veus * self._length >= sum(self._durations))

    def _add_symmetries(self) -> None:
        """Number vEUs by their first rTask, and let equal rTasks begin in the order of numbers."""
        model = self._model
        for task, choices in enumerate(self._on):
            for veu in range(1, len(choices)):
                before = [self._on[other][veu - 1] for other in range(task)]
                model.add_bool_or([~choices[veu], *before])
        last: dict[object, int] = {}
        for task in self._tasks:
            table = self._table
            alike = table.operators[task], table.sources[task], table.readers[task]
            if alike in last:
                model.add(self._begins[last[alike]] <= self._begins[task])
            last[alike] = task

    def _add_dependencies(self) -> None:
        for task, sources in enumerate(self._table.sources):
            for source in sources:
                self._model.add(self._begins[task] >= self._ends[source])
                apart = self._model.new_bool_var("")
                for mine, other in zip(self._on[task], self._on[source], strict=True):
                    self._model.add_bool_or(apart, ~mine, other)
                self._add_dependency_apart(source, task, apart)

    def _add_dependency_apart(self, source: int, task: int, apart: Any) -> None:
        late = self._begins[task] >= self._ends[source] + self._delay
        self._model.add(late).only_enforce_if(apart)

    def _hint(self, where: Sequence[int]) -> None:
        """Give the solver the vEUs of a plan, renamed in the order in which rTasks use them."""
        renamed: dict[int, int] = {}
        for task, veu in enumerate(where):
            number = renamed.setdefault(veu, len(renamed))
            for other, here in enumerate(self._on[task]):
                self._model.add_hint(here, other == number)

    def solve(self, limit_seconds: float, workers: int) -> Solution:
        """Search for at most some seconds."""
        solver = self._cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = limit_seconds
        solver.parameters.num_workers = workers
        solver.parameters.random_seed = 0
        status = solver.solve(self._model)
        if status not in (self._cp_model.OPTIMAL, self._cp_model.FEASIBLE):
            return Solution([], [], 0.0)
        bound = solver.best_objective_bound * self._unit + self._device.launch_seconds
        veus: list[list[int]] = [[] for _ in range(self._device.num_veus)]
        for task in sorted(self._tasks, key=lambda t: (solver.value(self._begins[t]), t)):
            for veu, here in enumerate(self._on[task]):
                if solver.value(here):
                    veus[veu].append(task)
        return Solution(veus, self._awaited(solver, veus), bound)

    def _awaited(self, solver: Any, veus: Placement) -> list[list[int]]:
        """Let each rTask wait for its sources, and for what others behind it need that is ready."""
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

    def _has_barrier(self, solver: Any, task: int) -> bool:
        del solver, task
        return False


class BarrierModel(PlacementModel):
    """Adds whether a barrier stands in front of each rTask, and what it has to wait for.

    An rTask begins with its barrier. What it reads from another vEU has ended when that barrier
    begins, or when one begins that stands in front of an earlier rTask of the same vEU: waiting for
    more costs a barrier nothing if it is complete by then.
    """

    def _end(self, task: int) -> Any:
        model = self._model
        barrier = model.new_bool_var("")
        end = model.new_int_var(0, _UNITS, "")
        self._barriers.append(barrier)
        model.add(end == self._begins[task] + self._durations[task] + self._delay * barrier)
        return end

    def _add_veus(self) -> None:
        """Add what each vEU's rTasks and barriers take together: implied, but not propagated."""
        super()._add_veus()
        model = self._model
        for veu in range(self._device.num_veus):
            load: list[Any] = []
            for task, choices in enumerate(self._on):
                both = model.new_bool_var("")
                model.add_bool_or(both, ~choices[veu], ~self._barriers[task])
                load.append(self._durations[task] * choices[veu] + self._delay * both)
            model.add(self._length >= sum(load))

    def _optional_interval(self, task: int, here: Any) -> Any:
        size = self._durations[task] + self._delay * self._barriers[task]
        return self._model.new_optional_interval_var(
            self._begins[task], size, self._ends[task], here, ""
        )

    def _add_dependencies(self) -> None:
        self._behind = _behind(self._table)
        super()._add_dependencies()

    def _add_dependency_apart(self, source: int, task: int, apart: Any) -> None:
        model = self._model
        own = model.new_bool_var("")
        model.add_implication(own, self._barriers[task])
        model.add(self._begins[task] >= self._ends[source]).only_enforce_if(own)
        witnesses = [own]
        for other in self._tasks:
            if other in (source, task) or self._behind[task] >> other & 1:
                continue
            if self._behind[other] >> source & 1:
                continue
            witness = model.new_bool_var("")
            model.add_implication(witness, self._barriers[other])
            model.add(self._begins[other] >= self._ends[source]).only_enforce_if(witness)
            model.add(self._begins[task] >= self._ends[other]).only_enforce_if(witness)
            for mine, its in zip(self._on[task], self._on[other], strict=True):
                model.add_bool_or(~witness, ~mine, its)
            witnesses.append(witness)
        model.add_bool_or([~apart, *witnesses])

    def _has_barrier(self, solver: Any, task: int) -> bool:
        return bool(solver.value(self._barriers[task]))


def _behind(table: TaskTable) -> list[int]:
    """Return for each rTask the mask of those that depend on it."""
    masks = [0] * len(table.seconds)
    for task in reversed(range(len(masks))):
        for reader in table.readers[task]:
            masks[task] |= masks[reader] | 1 << reader
    return masks


def _where(plan: Plan, table: TaskTable) -> list[int]:
    """Return the vEU of each rTask."""
    where = [0] * len(table.seconds)
    for program in plan.programs:
        for veu, items in enumerate(program.veus):
            for item in items:
                if isinstance(item, Run):
                    first = table.base[item.operator] + item.first
                    where[first : first + item.count] = [veu] * item.count
    return where
