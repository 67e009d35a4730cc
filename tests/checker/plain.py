"""The rules of ``docs/program.md``, byte by byte: a reference for the checker on small programs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.checker.files import Json

Bytes = frozenset[int]
Task = tuple[int, int]
"""The indices of an rOperator and of one of its rTasks."""


class Small:
    """A small program of one launch, and the bytes of values that each rTask touches."""

    def __init__(self, program: Json, proof: Json, boxes: Sequence[int]) -> None:
        self.program, self.proof, self.boxes = program, proof, boxes
        self.tasks: list[Task] = [
            (o, t)
            for o, (_, kernel, _) in enumerate(program["operators"])
            for t in range(proof["kernels"][kernel][0])
        ]
        self.number = {task: n for n, task in enumerate(self.tasks)}
        self.accesses = [(task, *found) for task in self.tasks for found in self._accesses(task)]

    def _accesses(self, task: Task) -> list[tuple[str, int, Bytes]]:
        """Return all accesses of an rTask that touch anything.

        Each access is a triple: its kind ("R" reads, "W" writes or "U" updates), the index of the
        value in the proof, and the offsets of the touched bytes from the value's start.
        """
        operator, number = task
        _, kernel, slots = self.program["operators"][operator]
        found: list[tuple[str, int, Bytes]] = []
        kinds = zip("RWU", self.proof["kernels"][kernel][1:], strict=True)
        for kind, (argument, width, offsets, sizes, strides) in (
            (kind, access) for kind, accesses in kinds for access in accesses
        ):
            value = self.proof["operators"][operator][1][argument][0]
            slot, place = self.program["slots"][slots[argument]], self.proof["values"][value][2]
            start = self.boxes[offsets + number] + slot[2] - place[2]
            rank = len(strides)
            size = self.boxes[sizes + number * rank : sizes + (number + 1) * rank]
            touched = [
                start + sum(k * s for k, s in zip(at, strides, strict=True)) + byte
                for at in itertools.product(*map(range, size))
                for byte in range(width)
            ]
            if touched:
                found.append((kind, value, frozenset(touched)))
                self_overlaps = len(set(touched)) < len(touched)
                if kind == "W" and self_overlaps:
                    found.append(("W", value, frozenset(touched)))
        return found

    def broken(self) -> int:
        """Return the number of a rule that is broken, or 0."""
        before = self._executed()
        if isinstance(before, int):
            return before
        return self._memory() or self._order(before) or self._defined() or self._sharing(before)

    def _executed(self) -> np.ndarray[Any, np.dtype[np.bool_]] | int:
        """Return a matrix of booleans: whether one rTask is ordered before another.

        If rule 1 or rule 2 is broken, return the rule's number instead.
        """
        (veus,) = self.program["launches"]
        lists: list[list[int]] = [[] for _ in veus]
        waits: list[list[tuple[int, int, int]]] = [[] for _ in veus]
        for veu, records in enumerate(veus):
            for record in records:
                if record and not isinstance(record[0], list):
                    operator, first, count = record
                    for t in range(first, first + count):
                        if count < 1 or (operator, t) not in self.number:
                            return 1
                        lists[veu].append(self.number[operator, t])
                    if count < 1:
                        return 1
                else:
                    waits[veu] += [(len(lists[veu]), other, steps) for other, steps in record]
        if sorted(itertools.chain(*lists)) != list(range(len(self.tasks))):
            return 1
        return self._closure(lists, waits)

    def _closure(
        self, lists: list[list[int]], waits: list[list[tuple[int, int, int]]]
    ) -> np.ndarray[Any, np.dtype[np.bool_]] | int:
        """Return a boolean matrix: whether one event comes before another; 2 if rule 2 is broken.

        The events are the rTasks, and for each vEU the end of its list, so that waits there can
        block, too. The order is the transitive closure of the order in the lists and of the waits.

        Args:
            lists: for each vEU, the numbers of its rTasks.
            waits: for each vEU, triples: the position in its list before which it waits, the
                awaited vEU, and the number of steps that this vEU must have completed.
        """
        size = len(self.tasks) + len(lists)
        direct = np.zeros((size, size), bool)
        for veu, tasks in enumerate(lists):
            events = [*tasks, len(self.tasks) + veu]
            for a, b in itertools.pairwise(events):
                direct[a, b] = True
            for at, other, steps in waits[veu]:
                if not 0 <= other < len(lists) or other == veu:
                    return 2
                if not 1 <= steps <= len(lists[other]):
                    return 2
                direct[lists[other][steps - 1], events[at]] = True
        closure = direct
        for _ in range(size.bit_length()):
            closure = closure | (closure.astype(int) @ closure.astype(int) > 0)
        return 2 if closure.diagonal().any() else closure

    def _memory(self) -> int:
        for (operator, _), kind, value, touched in self.accesses:
            _, holder, place, size = self.proof["values"][value]
            if min(touched) < 0 or max(touched) >= size:
                return 5
            if kind != "R" and holder in ("input", "constant"):
                return 5
            del operator, place
        return 0

    def _loose(self, value: int) -> bool:
        return self.proof["values"][value][1] == "inout" or any(
            kind == "U" and v == value for _, kind, v, _ in self.accesses
        )

    def _order(self, before: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
        for (s, k1, v1, b1), (t, k2, v2, b2) in itertools.combinations(self.accesses, 2):
            if v1 != v2 or not b1 & b2 or k1 + k2 == "RR":
                continue
            if k1 + k2 == "WW" and not self._loose(v1):
                return 3
            if s[0] == t[0]:
                if s != t and k1 + k2 not in ("UU", "UR", "RU"):
                    return 3
            else:
                first, second = sorted((s, t))
                if not before[self.number[first], self.number[second]]:
                    return 3
        return 0

    def _defined(self) -> int:
        for task, kind, value, touched in self.accesses:
            holder = self.proof["values"][value][1]
            if kind != "R" or holder in ("input", "constant", "inout"):
                continue
            loose = self._loose(value)
            written = {
                byte
                for other, k, v, some in self.accesses
                if v == value and k != "R" and other[0] < task[0] + loose
                for byte in some
            }
            if not (touched & written if loose else touched <= written):
                return 4
        for value, (_, holder, _, size) in enumerate(self.proof["values"]):
            writes = [b for _, k, v, b in self.accesses if v == value and k != "R"]
            loose = self._loose(value)
            if holder == "output" and not loose and len(frozenset[int]().union(*writes)) != size:
                return 4
        return 0

    def _sharing(self, before: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
        values = self.proof["values"]
        for a, b in itertools.combinations(range(len(values)), 2):
            (_, _, (base, index, begin), size), (_, _, place, room) = values[a], values[b]
            if base == "constant" or [base, index] != place[:2]:
                continue
            if not set(range(begin, begin + size)) & set(range(place[2], place[2] + room)):
                continue
            users = [self._users(value) for value in (a, b)]
            if base != "arena":
                return 5
            pairs = list(itertools.product(*users))
            if not all(before[x, y] for x, y in pairs) and not all(before[y, x] for x, y in pairs):
                return 5
        return 0

    def _users(self, value: int) -> list[int]:
        """Return all rTasks of the rOperators that touch a value."""
        operators = {task[0] for task, _, v, _ in self.accesses if v == value}
        return [n for n, (operator, _) in enumerate(self.tasks) if operator in operators]
