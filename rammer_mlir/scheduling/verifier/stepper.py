"""Executes a program's runs and barriers one at a time, and diagnoses deadlocks."""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Barrier, Item, RProgram, Run


class Stepper:
    """The execution of a program as vEUs with step counters would execute it.

    Step counters only grow. So executing every vEU as far as possible reaches the program's end if
    and only if no wait can block forever.
    """

    def __init__(self, graph: TaskGraph, program: RProgram) -> None:
        """Begin at the first item of each vEU; ``graph`` has the operators' names for messages."""
        self._graph = graph
        self._program = program
        self._next = [0] * program.num_veus
        self._steps = [0] * program.num_veus

    def steps(self) -> Iterator[tuple[int, Item]]:
        """Yield (vEU, item) in a possible order: each barrier after all rTasks that it waits for.

        Raises:
            ScheduleError: if waits block each other; the message names these waits.
        """
        runnable = list(range(self._program.num_veus))[::-1]
        asleep: dict[int, list[int]] = {}
        while runnable:
            veu = runnable.pop()
            items = self._program.veus[veu]
            before = self._steps[veu]
            while self._next[veu] < len(items):
                item = items[self._next[veu]]
                if isinstance(item, Barrier):
                    wait = self._unmet(item)
                    if wait is not None:
                        asleep.setdefault(wait[0], []).append(veu)
                        break
                self._next[veu] += 1
                yield veu, item
                if isinstance(item, Run):
                    self._steps[veu] += item.count
            if self._steps[veu] > before:
                runnable += asleep.pop(veu, [])
        stuck = [v for v, items in enumerate(self._program.veus) if self._next[v] < len(items)]
        if stuck:
            raise ScheduleError(self._deadlock(stuck[0]))

    def _unmet(self, barrier: Barrier) -> tuple[int, int] | None:
        return next((wait for wait in barrier.waits if self._steps[wait[0]] <= wait[1]), None)

    def _deadlock(self, veu: int) -> str:
        """Return an error message with the cycle of waits that blocks vEU ``veu``."""
        path: list[int] = []
        waits: dict[int, tuple[int, int]] = {}
        while veu not in waits:
            path.append(veu)
            barrier = self._program.veus[veu][self._next[veu]]
            wait = self._unmet(barrier) if isinstance(barrier, Barrier) else None
            assert wait is not None, "only an unmet wait stops a vEU"
            waits[veu] = wait
            veu = wait[0]
        circle = [
            f"{self._name(v, self._steps[v])} waits for {self._name(*waits[v])}"
            for v in path[path.index(veu) :]
        ]
        return f"deadlock: {'; '.join(circle)}: expected waits that do not form a circle"

    def _name(self, veu: int, order: int) -> str:
        passed = 0
        for item in self._program.veus[veu]:
            if isinstance(item, Run):
                if order < passed + item.count:
                    name = f"operator {item.operator}"
                    if 0 <= item.operator < len(self._graph.operators):
                        name = self._graph.operators[item.operator].name
                    return f"{name}[{item.first + order - passed}] on vEU {veu} order {order}"
                passed += item.count
        return f"the end of vEU {veu}"
