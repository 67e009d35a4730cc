"""Execute a plan in every possible order: all interleavings of the steps of its vEUs.

This is the reference for the verifier on small programs. A state of the search is the number of
completed steps of each vEU; sets of rTasks are bit masks. Two rTasks that may overlap in time can
also be executed in either order, so executing rTasks one at a time covers all behaviors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from rammer_mlir.scheduling.graph import Boxes, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram

Waits = tuple[tuple[int, int], ...]
Steps = list[tuple[Waits, int | None]]
"""For each step of a vEU, the waits before it and the index of its rTask, or None at the end."""


def elements(boxes: Boxes, rtask: int) -> set[int]:
    """Return the offsets of all elements in the box of ``rtask``, found by trying each index."""
    ranges = [range(size) for size in boxes.sizes[rtask].tolist()]
    return {
        int(boxes.offsets[rtask]) + sum(k * s for k, s in zip(index, boxes.strides, strict=True))
        for index in product(*ranges)
    }


class Tasks:
    """The rTasks of a graph with chosen rKernels, and the dependencies of each rTask.

    rTasks are numbered through all operators in order.
    """

    def __init__(self, graph: TaskGraph, kernels: tuple[int, ...]) -> None:
        """Number the rTasks, and find dependencies by listing the elements that each rTask touches.

        ``kernels`` has the index of the chosen candidate of each operator.
        """
        self.graph = graph
        self._kernels = [o.kernels[k] for o, k in zip(graph.operators, kernels, strict=True)]
        counts = [kernel.num_rtasks for kernel in self._kernels]
        self.base = np.concatenate(([0], np.cumsum(counts))).astype(int).tolist()
        self.count = self.base[-1]
        self.needs = [0] * self.count
        """For each rTask, the mask of the rTasks of earlier operators with which it conflicts.

        Two rTasks conflict if they touch an element that one of them writes.
        """
        touched: dict[tuple[int, int], list[tuple[int, int, bool]]] = {}
        for key, use in self._touched():
            touched.setdefault(key, []).append(use)
        for uses in touched.values():
            for (before, first, wrote), (operator, task, writes) in combinations(uses, 2):
                if before != operator and (wrote or writes):
                    self.needs[task] |= 1 << first

    def _touched(self) -> Iterator[tuple[tuple[int, int], tuple[int, int, bool]]]:
        """Yield each access of each rTask to an element, in the operators' order.

        An access is ``(buffer, element), (operator, task, writes)``: ``task`` is the rTask's index
        among all rTasks, and ``writes`` whether it writes the element.
        """
        for number, kernel in enumerate(self._kernels):
            accesses = [(access, False) for access in kernel.reads]
            accesses += [(access, True) for access in (*kernel.writes, *kernel.updates)]
            for access, writes in accesses:
                view = self.graph.operators[number].operands[access.argument]
                for rtask in range(kernel.num_rtasks):
                    for element in elements(access.boxes, rtask):
                        use = number, self.base[number] + rtask, writes
                        yield (view.buffer, view.offset + element), use

    def users(self, buffer: int) -> int:
        """Return the mask of all rTasks of operators with an operand in a buffer."""
        mask = 0
        for number, operator in enumerate(self.graph.operators):
            if any(view.buffer == buffer for view in operator.operands):
                mask |= (1 << self.base[number + 1]) - (1 << self.base[number])
        return mask

    def name(self, task: int) -> str:
        """Return the name of an rTask in messages, such as ``map0[1]``."""
        operator = next(o for o, first in reversed(list(enumerate(self.base))) if first <= task)
        return self.graph.task_name(operator, task - self.base[operator])


@dataclass(frozen=True)
class Verdict:
    """The faults of a plan, over all its executions.

    Attributes:
        exactly_once: whether the plan executes every rTask exactly once.
        deadlock: whether some execution stops before its end.
        ahead: for each rTask, the mask of the rTasks that run before it in every execution.
        disordered: pairs of rTasks whose order is a dependency, but which some execution runs in
            the opposite order.
    """

    exactly_once: bool
    deadlock: bool
    ahead: tuple[int, ...]
    disordered: frozenset[tuple[int, int]]

    @property
    def harmful(self) -> bool:
        """Whether the plan has a fault."""
        return not self.exactly_once or self.deadlock or bool(self.disordered)


def judge(tasks: Tasks, plan: Plan) -> Verdict:
    """Execute a plan in every possible order, and return the faults that are found."""
    if not _complete(tasks, plan):
        return Verdict(False, False, (), frozenset())
    ahead = [(1 << tasks.count) - 1] * tasks.count
    done = 0
    for program in plan.programs:
        done, stuck = _execute(tasks, program, done, ahead)
        if stuck:
            return Verdict(True, True, (), frozenset())
    missing = ((task, tasks.needs[task] & ~before) for task, before in enumerate(ahead))
    pairs = frozenset((writer, reader) for reader, mask in missing for writer in _bits(mask))
    return Verdict(True, False, tuple(ahead), pairs)


def in_use_together(
    tasks: Tasks, verdict: Verdict, arena: Mapping[int, int]
) -> set[tuple[int, int]]:
    """Return pairs of buffers that share bytes of the arena although their uses are not ordered.

    ``arena`` has the offset of each buffer in bytes; ``verdict`` has the order of rTasks.
    """
    found: set[tuple[int, int]] = set()
    for a, b in combinations(sorted(arena), 2):
        ends = [arena[n] + tasks.graph.buffers[n].num_bytes for n in (a, b)]
        shared = arena[a] < ends[1] and arena[b] < ends[0]
        users = tasks.users(a), tasks.users(b)
        if shared and not (_follows(verdict, *users) or _follows(verdict, *users[::-1])):
            found.add((a, b))
    return found


def all_before(tasks: Tasks, verdict: Verdict, a: int, b: int) -> bool:
    """Return whether every execution ends all uses of buffer ``a`` before any use of ``b``."""
    return _follows(verdict, tasks.users(a), tasks.users(b))


def _follows(verdict: Verdict, first: int, second: int) -> bool:
    return all(not first & ~verdict.ahead[task] for task in _bits(second))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def _complete(tasks: Tasks, plan: Plan) -> bool:
    runs = [run for p in plan.programs for veu in p.veus for run in veu]
    found = [
        (run.operator, rtask)
        for run in runs
        if not isinstance(run, Barrier)
        for rtask in range(run.first, run.first + run.count)
    ]
    wanted = [
        (operator, rtask)
        for operator, first in enumerate(tasks.base[:-1])
        for rtask in range(tasks.base[operator + 1] - first)
    ]
    return sorted(found) == wanted


def steps_of(tasks: Tasks, program: RProgram, veu: int) -> Steps:
    """Return the steps of a vEU: for each, the waits of the barriers before it, and its rTask.

    The last element has the waits at the end of the list, and no rTask.
    """
    steps: Steps = []
    waits: Waits = ()
    for item in program.veus[veu]:
        if isinstance(item, Barrier):
            waits += item.waits
            continue
        first = tasks.base[item.operator] + item.first
        steps += [(waits if i == 0 else (), first + i) for i in range(item.count)]
        waits = ()
    return [*steps, (waits, None)]


def _execute(tasks: Tasks, program: RProgram, done: int, ahead: list[int]) -> tuple[int, bool]:
    """Execute an rProgram in every order; ``done`` is the mask of the rTasks that ran before it.

    Removes from the mask ``ahead[task]`` the rTasks that do not precede ``task`` in every order.
    Returns the mask of all completed rTasks, and whether an execution can get stuck.
    """
    steps = [steps_of(tasks, program, veu) for veu in range(program.num_veus)]
    masks: list[list[int]] = [[0] for _ in steps]
    for mask, own in zip(masks, steps, strict=True):
        for _, task in own:
            mask.append(mask[-1] | (0 if task is None else 1 << task))
    start: tuple[int, ...] = (0,) * program.num_veus
    end = tuple(len(own) for own in steps)
    seen: set[tuple[int, ...]] = {start}
    pending: list[tuple[int, ...]] = [start]
    stuck = False
    while pending:
        state = pending.pop()
        executed = done
        for own, position in zip(masks, state, strict=True):
            executed |= own[position]
        counters = [min(position, len(own) - 1) for position, own in zip(state, steps, strict=True)]
        ready = [
            veu
            for veu, own in enumerate(steps)
            if state[veu] < end[veu] and _met(own[state[veu]][0], counters)
        ]
        stuck |= not ready and state != end
        for veu in ready:
            task = steps[veu][state[veu]][1]
            if task is not None:
                ahead[task] &= executed
            after = (*state[:veu], state[veu] + 1, *state[veu + 1 :])
            if after not in seen:
                seen.add(after)
                pending.append(after)
    return done | sum(own[-1] for own in masks), stuck


def _met(waits: Waits, counters: list[int]) -> bool:
    return all(0 <= v < len(counters) and counters[v] > order for v, order in waits)
