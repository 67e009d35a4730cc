"""A check of whether a plan is a correct schedule of a real program, element by element.

It shares no code with the verifier. Every element of every buffer gets the index of the rTask that
writes it; the rTasks that must end before an rTask starts are a set, stored as a bit mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rammer_mlir.scheduling.graph import Access, Int64Array, TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram


@dataclass(frozen=True)
class Verdict:
    """The faults of a plan; a plan without faults is correct.

    Attributes:
        malformed: whether rTasks are missing, repeated or unknown, or a barrier awaits a step that
            does not exist.
        deadlock: whether some wait never ends.
        unordered: pairs (writer, reader) of rTasks of which the writer need not end before the
            reader starts.
        shared: pairs of buffers that share memory and may be in use at the same time.
    """

    malformed: bool = False
    deadlock: bool = False
    unordered: frozenset[tuple[int, int]] = frozenset()
    shared: frozenset[tuple[int, int]] = frozenset()

    @property
    def is_wrong(self) -> bool:
        """Whether the plan must be refused."""
        return bool(self.malformed or self.deadlock or self.unordered or self.shared)


class Judge:
    """A judge of plans for a graph, which knows the elements that each rTask reads and writes."""

    def __init__(self, graph: TaskGraph, arena: Mapping[int, int]) -> None:
        """Find the elements that each rTask reads and writes.

        Args:
            graph: graph with one candidate rKernel for each operator.
            arena: offset of each buffer in the arena, in bytes.
        """
        self._graph = graph
        self._arena = arena
        counts = [operator.kernels[0].num_rtasks for operator in graph.operators]
        self._base: list[int] = np.concatenate(([0], np.cumsum(counts))).astype(int).tolist()
        self._writer = [np.full(buffer.num_elements, -1) for buffer in graph.buffers]
        for task, buffer, elements in self._touched("writes"):
            self._writer[buffer][elements] = task
        self._needs: list[set[int]] = [set() for _ in range(self._base[-1])]
        for task, buffer, elements in self._touched("reads"):
            self._needs[task].update(set(np.unique(self._writer[buffer][elements]).tolist()) - {-1})
        self._users = [self._tasks_on(buffer) for buffer in range(len(graph.buffers))]

    def _touched(self, what: str) -> Iterator[tuple[int, int, Int64Array]]:
        for number, operator in enumerate(self._graph.operators):
            kernel = operator.kernels[0]
            for access in kernel.writes if what == "writes" else kernel.reads:
                view = operator.operands[access.argument]
                for rtask in range(kernel.num_rtasks):
                    elements = view.offset + _elements(access, rtask)
                    yield self._base[number] + rtask, view.buffer, elements

    def _tasks_on(self, buffer: int) -> int:
        mask = 0
        for number, operator in enumerate(self._graph.operators):
            if any(view.buffer == buffer for view in operator.operands):
                for task in range(self._base[number], self._base[number + 1]):
                    mask |= 1 << task
        return mask

    def name(self, task: int) -> str:
        """Return the name of an rTask in messages, such as ``map0[1]``."""
        operator = next(o for o in range(len(self._base)) if task < self._base[o + 1])
        return self._graph.task_name(operator, task - self._base[operator])

    def judge(self, plan: Plan) -> Verdict:
        """Return the faults of a plan."""
        if not self._is_well_formed(plan):
            return Verdict(malformed=True)
        before = [0] * self._base[-1]
        earlier = 0
        for program in plan.programs:
            if not self._execute(program, earlier, before):
                return Verdict(deadlock=True)
            for items in program.veus:
                for task in self._tasks(items):
                    earlier |= 1 << task
        unordered = {
            (writer, reader)
            for reader, needs in enumerate(self._needs)
            for writer in needs
            if not before[reader] >> writer & 1
        }
        return Verdict(unordered=frozenset(unordered), shared=frozenset(self._clashes(before)))

    def _is_well_formed(self, plan: Plan) -> bool:
        for program in plan.programs:
            steps = [len(list(self._tasks(items))) for items in program.veus]
            for item in (item for items in program.veus for item in items):
                if isinstance(item, Barrier):
                    if any(v >= len(steps) or order >= steps[v] for v, order in item.waits):
                        return False
                elif item.first + item.count > self._count(item.operator):
                    return False
        tasks = [task for p in plan.programs for items in p.veus for task in self._tasks(items)]
        return sorted(tasks) == list(range(self._base[-1]))

    def _count(self, operator: int) -> int:
        return self._base[operator + 1] - self._base[operator]

    def _tasks(self, items: Sequence[Item]) -> Iterator[int]:
        for item in items:
            if not isinstance(item, Barrier):
                start = self._base[item.operator] + item.first
                yield from range(start, start + item.count)

    def _execute(self, program: RProgram, earlier: int, before: list[int]) -> bool:
        """Simulate an rProgram step by step; return whether all vEUs reach the ends of their lists.

        Sets of rTasks are bit masks. ``earlier`` has the rTasks of earlier rPrograms. The function
        stores in ``before``, for each rTask, the rTasks that end before it starts.
        """
        order = [list(self._tasks(items)) for items in program.veus]
        done, at = [0] * len(order), [0] * len(order)
        known = [earlier] * len(order)
        progress = True
        while progress:
            progress = False
            for veu, items in enumerate(program.veus):
                while at[veu] < len(items):
                    item = items[at[veu]]
                    if isinstance(item, Barrier):
                        if any(done[other] <= step for other, step in item.waits):
                            break
                        for other, step in item.waits:
                            task = order[other][step]
                            known[veu] |= before[task] | 1 << task
                    else:
                        for task in order[veu][done[veu] : done[veu] + item.count]:
                            before[task] = known[veu]
                            known[veu] |= 1 << task
                        done[veu] += item.count
                    at[veu] += 1
                    progress = True
        return all(place == len(items) for place, items in zip(at, program.veus, strict=True))

    def _clashes(self, before: list[int]) -> Iterator[tuple[int, int]]:
        for a, b in combinations(self._arena, 2):
            buffers = self._graph.buffers
            apart = (
                self._arena[a] + buffers[a].num_bytes <= self._arena[b]
                or self._arena[b] + buffers[b].num_bytes <= self._arena[a]
            )
            if not apart and not self._follows(a, b, before) and not self._follows(b, a, before):
                yield a, b

    def _follows(self, first: int, second: int, before: list[int]) -> bool:
        """Return whether all uses of buffer ``first`` end before those of ``second`` start.

        ``before`` has, for each rTask, a mask of the rTasks that end before it starts.
        """
        wanted = self._users[first]
        tasks = (task for task in range(self._base[-1]) if self._users[second] >> task & 1)
        return all(before[task] & wanted == wanted for task in tasks)


def _elements(access: Access, rtask: int) -> Int64Array:
    """Return the flat indices of the elements in the box that an rTask accesses."""
    boxes = access.boxes
    found = boxes.offsets[rtask : rtask + 1]
    for size, stride in zip(boxes.sizes[rtask].tolist(), boxes.strides, strict=True):
        found = (found[:, None] + np.arange(size) * stride).reshape(-1)
    return found
