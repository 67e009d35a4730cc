"""Builds an rProgram by the paper's ``Append`` and ``Wait`` (RAMMER section 3.3).

``append`` and ``needs`` process many rTasks of an operator in one call. Waits that vector clocks
show to be implied are not recorded, so a finished program has the fewest waits. With ``mark`` and
``reset``, a policy can append a wave (operators of equal depth in the graph) on trial and remove it
again, in time proportional to the size of the wave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.clocks import Clock, Clocks, Goal
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import Int64Array, RKernel, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, RProgram, Run

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """The placement of an operator's rTasks: the vEU of each rTask, and its index on that vEU.

    ``orders`` has the index of each rTask among all rTasks of its vEU, from 0. The vEU of an rTask
    that is not placed is -1.
    """

    veus: Int64Array
    orders: Int64Array


@dataclass(frozen=True)
class Needs:
    """The rTasks of each vEU that must be complete before the rTasks of an operator start.

    rTask t of the operator may start when the first ``steps[t, v]`` rTasks of each vEU v are
    complete. ``ready[t, v]`` is the predicted time at which these rTasks of vEU v are complete.
    """

    steps: Int64Array
    """[num_rtasks, num_veus]: number of rTasks of each vEU that must be complete."""

    ready: FloatArray
    """[num_rtasks, num_veus]: end of each vEU's last required rTask, in seconds; 0 for none."""


@dataclass(frozen=True)
class Mark:
    """A saved state of a builder, for ``reset``.

    Attributes:
        items: for each vEU, the number of items in its list: runs of rTasks, and barriers.
        available: the time in seconds at which each vEU is free.
        clocks: the saved state of the vector clocks (``Clocks.mark``).
        appended: the number of calls of ``append``.
        requested: the number of waits that dependencies require, before redundant waits are
            dropped.
    """

    items: list[int]
    available: FloatArray
    clocks: tuple[list[int], list[int], list[Clock]]
    appended: int
    requested: int


@dataclass
class Context:
    """The graph, the device and the chosen rKernels, shared by all rPrograms of a plan.

    ``kernels`` has for each operator the index of the chosen rKernel among the operator's
    candidates.
    """

    graph: TaskGraph
    device: Device
    kernels: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        """Choose every operator's first rKernel unless ``kernels`` is given."""
        self.kernels = self.kernels or [0] * len(self.graph.operators)
        self.dependencies = Dependencies(self.graph)

    def kernel(self, operator: int) -> RKernel:
        """Return the rKernel chosen for an operator."""
        return self.graph.operators[operator].kernels[self.kernels[operator]]


class _Ends:
    """The predicted end of each rTask, stored by the rTask's vEU and its order on that vEU.

    Ends are in seconds from the launch.
    """

    def __init__(self, num_veus: int) -> None:
        self._table: FloatArray = np.zeros((num_veus, 64))
        self._veus = np.arange(num_veus)

    def put(self, veu: int, order: int, ends: FloatArray) -> None:
        stop = order + len(ends)
        if stop > self._table.shape[1]:
            wider = np.zeros((len(self._table), max(stop, 2 * self._table.shape[1])))
            wider[:, : self._table.shape[1]] = self._table
            self._table = wider
        self._table[veu, order:stop] = ends

    def after(self, steps: Int64Array) -> FloatArray:
        """Return when the first ``steps[t, v]`` rTasks of vEU v are complete, for each t and v.

        Times are in seconds from the launch; 0 where ``steps`` is 0.
        """
        return np.where(steps > 0, self._table[self._veus, steps - 1], 0.0)


@dataclass(frozen=True, eq=False)
class _Work:
    """The rTasks of an operator that a vEU will run; each rTask has a row in the arrays.

    Attributes:
        operator: the operator's number.
        ids: ids of the rTasks, ascending.
        steps: [rows, num_veus]: number of rTasks of each vEU that must be complete before the rTask
            of the row starts.
        ready: [rows]: end of the last of these required rTasks, in seconds from the launch.
        seconds: time of each rTask.
    """

    operator: int
    ids: Int64Array
    steps: Int64Array
    ready: FloatArray
    seconds: float


class ProgramBuilder:
    """An rProgram under construction for a device."""

    def __init__(self, context: Context) -> None:
        """Begin with empty vEUs.

        Operators that other builders have placed before count as complete: their rTasks are in
        earlier rPrograms of the same plan. ``context`` is common to all builders of the plan.
        """
        num_veus = context.device.num_veus
        self._context = context
        self._items: list[list[Item]] = [[] for _ in range(num_veus)]
        self._clocks = Clocks(num_veus)
        self._placed: dict[int, Placed] = {}
        self._appended: list[tuple[int, Int64Array]] = []
        self._available: FloatArray = np.zeros(num_veus)
        self._ends = _Ends(num_veus)
        self.requested_waits = 0

    @property
    def available(self) -> FloatArray:
        """The time at which each vEU is free by the cost model, in seconds from the launch."""
        return self._available

    @property
    def is_empty(self) -> bool:
        """Whether no rTask was appended yet."""
        return not self._appended

    def seconds(self) -> float:
        """Return the predicted seconds of the program, launch included; 0 if it is empty."""
        if self.is_empty:
            return 0.0
        return float(self._available.max()) + self._context.device.launch_seconds

    def steps(self) -> Int64Array:
        """Return the number of rTasks that each vEU has so far."""
        return np.array(self._clocks.done, dtype=np.int64)

    def known(self) -> Int64Array:
        """Return the number of rTasks of each vEU that each other vEU knows to be complete.

        The shape is [num_veus, num_veus]. Row v, column w has the number of rTasks of vEU w that
        vEU v knows to be complete. The elements on the diagonal have no meaning.
        """
        return self._clocks.all_now()

    def needs(self, operator: int) -> Needs:
        """Return the rTasks of this program that each rTask of an operator depends on (``Wait``).

        Raises:
            ScheduleError: if some of the rTasks that the operator depends on are appended to this
                program, and others are not.
        """
        num_veus = self._context.device.num_veus
        shape = (self._context.kernel(operator).num_rtasks, num_veus)
        steps = np.zeros(shape, dtype=np.int64)
        for edge in self._context.dependencies.edges(operator, self._context.kernels):
            placed = self._placed.get(edge.producer)
            if placed is None:
                continue
            pairs = edge.pairs
            veus = placed.veus[pairs.indices]
            if veus.min() < 0:
                raise ScheduleError(self._too_early(operator, edge.producer))
            latest = np.zeros(pairs.num_rows * num_veus, dtype=np.int64)
            cells = pairs.row_of_index * num_veus + veus
            np.maximum.at(latest, cells, placed.orders[pairs.indices] + 1)
            np.maximum(steps, latest.reshape(-1, num_veus)[pairs.row], out=steps)
        return Needs(steps, self._ends.after(steps))

    def _too_early(self, operator: int, producer: int) -> str:
        names = [self._context.graph.operators[number].name for number in (operator, producer)]
        return (
            f"policy: '{names[0]}' is to be appended before all rTasks of '{names[1]}' that it "
            "reads: expected producers first"
        )

    def append(
        self, operator: int, veus: Int64Array, needs: Needs, rtasks: Int64Array | None = None
    ) -> None:
        """Append rTasks of an operator, and the barriers that ``needs`` requires (``Append``).

        Args:
            operator: the operator's number.
            veus: vEU of each rTask; rTasks of the same vEU run in ascending order of their ids.
            needs: the rTasks that each rTask waits for.
            rtasks: ids of the rTasks in ascending order; None for all rTasks of the operator.
                ``veus`` and ``needs`` have a row for each of these rTasks.
        """
        ids = np.arange(len(veus)) if rtasks is None else rtasks
        if operator not in self._placed:
            count = self._context.kernel(operator).num_rtasks
            nowhere = np.full(count, -1, dtype=np.int64)
            self._placed[operator] = Placed(nowhere, nowhere.copy())
        self._appended.append((operator, ids))
        own = needs.steps[np.arange(len(veus)), veus]
        self.requested_waits += int(np.count_nonzero(needs.steps)) - int(np.count_nonzero(own))
        ready = needs.ready.max(axis=1)
        seconds = rtask_seconds(self._context.kernel(operator), self._context.device)
        goals: dict[bytes, Goal] = {}
        by_veu = np.argsort(veus, kind="stable")
        cuts = [0, *(np.flatnonzero(np.diff(veus[by_veu])) + 1).tolist(), len(veus)]
        for begin, end in pairwise(cuts):
            rows = by_veu[begin:end]
            if len(rows):
                work = _Work(operator, ids[rows], needs.steps[rows], ready[rows], seconds)
                self._append_to(int(veus[rows[0]]), work, goals)

    def _append_to(self, veu: int, work: _Work, goals: dict[bytes, Goal]) -> None:
        """Append the rTasks of ``work`` to a vEU, with a barrier before each rTask that needs one.

        ``goals`` memoizes the waits of barriers, because they do not depend on the waiting vEU. A
        key is the bytes of an array that has for each vEU the number of its rTasks that must be
        complete; the value has the waits that ensure this.
        """
        steps, ready = work.steps, work.ready
        start = 0
        rows = [0] if len(steps) == 1 else _growing(steps, self._clocks.now(veu), veu)
        for row in rows:
            if not self._clocks.misses(veu, steps[row]):
                continue
            self._run(veu, work, start, row)
            start = row
            begin = max(float(self._available[veu]), float(ready[row]))
            # Also wait for later rTasks' needs that are complete by then: that costs nothing.
            required = steps[row:][ready[row:] <= begin].max(axis=0)
            key = required.tobytes()
            if key not in goals:
                goals[key] = self._clocks.goal(required)
            self._items[veu].append(Barrier(self._clocks.wait(veu, goals[key])))
            self._available[veu] = begin + self._context.device.barrier_seconds
        self._run(veu, work, start, len(steps))

    def _run(self, veu: int, work: _Work, start: int, stop: int) -> None:
        """Append the rTasks in rows ``start .. stop - 1`` of ``work`` to a vEU; add no barrier."""
        count = stop - start
        if not count:
            return
        done, placed = self._clocks.done[veu], self._placed[work.operator]
        if count == 1:
            rtask = int(work.ids[start])
            placed.veus[rtask], placed.orders[rtask] = veu, done
            self._ends.put(veu, done, self._available[veu : veu + 1] + work.seconds)
            self._items[veu].append(Run(work.operator, rtask, 1))
        else:
            self._run_several(veu, work, work.ids[start:stop])
        self._clocks.done[veu] += count
        self._available[veu] += work.seconds * count

    def _run_several(self, veu: int, work: _Work, ids: Int64Array) -> None:
        count = len(ids)
        steps = np.arange(1, count + 1)
        done, placed = self._clocks.done[veu], self._placed[work.operator]
        placed.veus[ids] = veu
        placed.orders[ids] = done - 1 + steps
        self._ends.put(veu, done, self._available[veu] + work.seconds * steps)
        cuts = [0, count]
        if int(ids[-1]) - int(ids[0]) != count - 1:
            cuts[1:1] = (np.flatnonzero(np.diff(ids) != 1) + 1).tolist()
        for begin, end in pairwise(cuts):
            self._items[veu].append(Run(work.operator, int(ids[begin]), end - begin))

    def mark(self) -> Mark:
        """Return the current state of the builder, for ``reset``."""
        return Mark(
            [len(items) for items in self._items],
            self._available.copy(),
            self._clocks.mark(),
            len(self._appended),
            self.requested_waits,
        )

    def reset(self, mark: Mark) -> None:
        """Restore the state that ``mark`` has saved."""
        for items, length in zip(self._items, mark.items, strict=True):
            del items[length:]
        self._available = mark.available.copy()
        self._clocks.reset(mark.clocks)
        while len(self._appended) > mark.appended:
            operator, ids = self._appended.pop()
            placed = self._placed[operator]
            placed.veus[ids] = -1
            if (placed.veus < 0).all():
                del self._placed[operator]
        self.requested_waits = mark.requested

    def finish(self) -> RProgram:
        """Return the finished rProgram."""
        veus = tuple(tuple(items) for items in self._items)
        return RProgram(self._context.device.num_veus, veus)


def _growing(steps: Int64Array, known: Clock, veu: int) -> list[int]:
    """Return the rows of ``steps`` for which a vEU may need a barrier, ascending.

    ``steps[t, w]`` is the number of rTasks of vEU w that must be complete before the vEU's rTask of
    row t. ``known[w]`` is the number of rTasks of vEU w that ``veu`` knows to be complete. Row t is
    returned if, for some vEU w other than ``veu``, ``steps[t, w]`` is greater than ``known[w]`` and
    greater than ``steps[s, w]`` for every earlier row s.
    """
    asked = np.maximum(np.maximum.accumulate(steps, axis=0), known)
    more = np.empty(asked.shape, dtype=bool)
    more[0] = asked[0] > known
    more[1:] = asked[1:] > asked[:-1]
    more[:, veu] = False
    return np.flatnonzero(more.any(axis=1)).tolist()


def finish_plan(builders: Sequence[ProgramBuilder]) -> tuple[tuple[RProgram, ...], float, int]:
    """Return the finished programs, their predicted seconds, and the number of requested waits.

    Seconds and waits are sums over all programs. Requested waits are those that dependencies
    require, including redundant waits, which the programs do not contain.
    """
    return (
        tuple(builder.finish() for builder in builders),
        sum(builder.seconds() for builder in builders),
        sum(builder.requested_waits for builder in builders),
    )
