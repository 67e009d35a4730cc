"""Builds a CP-SAT model in which barriers occupy their vEU, for the `optimal` policy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rammer_mlir.scheduling.policies.optimal_models import PlacementModel
from rammer_mlir.scheduling.tasks import TaskTable

if TYPE_CHECKING:
    from ortools.sat.python import cp_model as cp


class BarrierModel(PlacementModel):
    """A CP-SAT model in which a barrier before an rTask takes time on the rTask's vEU.

    If an rTask has a barrier, the rTask's interval begins with the barrier. If an rTask (the
    reader) reads from an rTask on another vEU (the source), a barrier has to begin on the reader's
    vEU after the source has ended. This barrier is the reader's barrier or the barrier of an
    earlier rTask on the reader's vEU: it costs nothing to let a barrier wait for more rTasks that
    have already ended. An rTask without sources on other vEUs has no barrier in the model, because
    a barrier before this rTask could equally precede a later rTask.
    """

    def _end(self, task: int) -> cp.LinearExprT:
        model = self._model
        barrier = model.new_bool_var("")
        end = model.new_int_var(0, self._limit, "")
        self._barriers.append(barrier)
        model.add(end == self._begins[task] + self._durations[task] + self._delay * barrier)
        return end

    def _add_veus(self) -> None:
        """Add constraints on each vEU's total time of rTasks and barriers.

        These constraints are redundant, but the solver does not derive them from the other
        constraints.
        """
        super()._add_veus()
        # A head bounds the begin of an rTask's work, and its barrier begins before the work.
        self._starts = [max(0, head - self._delay) for head in self._heads]
        windows = self._windows()
        for veu in range(self._device.num_veus):
            taken = [self._taken(task, veu) for task in self._tasks]
            for window in windows:
                self._add_window(window, veu, taken)

    def _taken(self, task: int, veu: int) -> cp.LinearExpr:
        """Return the time that an rTask and its barrier take on a vEU, in the model's time units.

        The time is 0 if the rTask runs on another vEU.
        """
        here, both = self._on[task][veu], self._model.new_bool_var("")
        self._model.add_bool_or(both, ~here, ~self._barriers[task])
        return self._durations[task] * here + self._delay * both

    def _windows(self) -> list[list[int]]:
        """Return windows: lists of rTasks whose total time on a vEU is bounded (Carlier, 1982).

        The first window has all rTasks. If the model counts the rTasks of each rOperator on each
        vEU (``_count``), there are more windows: each is given by a limit on heads and a limit on
        tails, and has the rTasks of all rOperators whose least head and least tail are at least
        these limits.
        """
        found = {tuple(self._tasks): None}
        if self._counts:
            for cut in self._groups:
                for other in self._groups:
                    head, tail = self._least(self._starts, cut), self._least(self._tails, other)
                    inside = [
                        tasks for tasks in self._groups
                        if self._least(self._starts, tasks) >= head
                        and self._least(self._tails, tasks) >= tail
                    ]  # fmt: skip
                    found[tuple(chain(*inside))] = None
        return [list(window) for window in found if window]

    @staticmethod
    def _least(times: Sequence[int], tasks: Sequence[int]) -> int:
        return min(times[task] for task in tasks)

    def _add_window(self, tasks: list[int], veu: int, taken: list[cp.LinearExpr]) -> None:
        """Add a lower bound on the length of the program by the rTasks of a window on a vEU.

        If the vEU runs any of these rTasks, the length is at least the sum of three times: the
        least time at which an rTask of the window can begin with its barrier, the time of the
        window's rTasks on the vEU, and the least tail of an rTask of the window.

        Args:
            tasks: the rTasks of the window.
            veu: the vEU.
            taken: for each rTask of the graph, the time units that the rTask and its barrier take
                on the vEU.
        """
        model = self._model
        some = model.new_bool_var("")
        for task in tasks:
            model.add_implication(self._on[task][veu], some)
        around = self._least(self._starts, tasks) + self._least(self._tails, tasks)
        model.add(self._length >= around * some + sum(taken[task] for task in tasks))

    def _optional_interval(self, task: int, here: cp.IntVar) -> cp.IntervalVar:
        size = self._durations[task] + self._delay * self._barriers[task]
        return self._model.new_optional_interval_var(
            self._begins[task], size, self._ends[task], here, ""
        )

    def _add_dependencies(self) -> None:
        model = self._model
        behind = _dependents(self._table)
        self._latest = [model.new_int_var(-1, self._limit, "") for _ in self._tasks]
        self._apart: list[list[cp.IntVar]] = [[] for _ in self._tasks]
        for task in self._tasks:
            self._add_latest_barrier(task, behind)
        super()._add_dependencies()
        for barrier, apart in zip(self._barriers, self._apart, strict=True):
            model.add_bool_or([~barrier, *apart])

    def _add_latest_barrier(self, task: int, behind: list[int]) -> None:
        """Constrain the variable ``_latest[task]`` to the begin of a barrier before rTask ``task``.

        The solver chooses the barrier: the barrier of ``task``, or the barrier of an earlier rTask
        on the same vEU. ``_latest[task]`` is at most the begin of the chosen barrier, and -1 if no
        barrier is chosen. ``behind`` has for each rTask the bit mask of the rTasks that depend on
        it, directly or not.
        """
        model, latest = self._model, self._latest[task]
        none = model.new_bool_var("")
        model.add(latest == -1).only_enforce_if(none)
        model.add(latest <= self._begins[task])
        witnesses = [none, self._barriers[task]]
        for other in self._tasks:
            if other == task or behind[task] >> other & 1 or not self._table.sources[other]:
                continue
            witness = model.new_bool_var("")
            model.add_implication(witness, self._barriers[other])
            model.add(latest <= self._begins[other]).only_enforce_if(witness)
            model.add(self._begins[task] >= self._ends[other]).only_enforce_if(witness)
            for mine, its in zip(self._on[task], self._on[other], strict=True):
                model.add_bool_or(~witness, ~mine, its)
            witnesses.append(witness)
        model.add_bool_or(witnesses)

    def _add_dependency_apart(self, source: int, task: int, apart: cp.IntVar) -> None:
        model, ended = self._model, self._ends[source]
        self._apart[task].append(apart)
        model.add(self._latest[task] >= ended).only_enforce_if(apart)
        least = ended + self._delay + self._durations[task]
        model.add(self._ends[task] >= least).only_enforce_if(apart)

    def _has_barrier(self, solver: cp.CpSolver, task: int) -> bool:
        return bool(solver.value(self._barriers[task]))


def _dependents(table: TaskTable) -> list[int]:
    """Return for each rTask the bit mask of the rTasks that depend on it, directly or not."""
    masks = [0] * len(table.seconds)
    for task in reversed(range(len(masks))):
        for reader in table.readers[task]:
            masks[task] |= masks[reader] | 1 << reader
    return masks
