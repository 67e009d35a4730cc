"""The designs of a group under one decision: a choice for each class of loops, and its cost.

Assignments run one after the other, each in waves of rTasks. An assignment whose loops all have a
choice costs what the machine takes; else no less than all lanes busy, than memory at its bandwidth,
and than the waves and steps that its choices so far make. So bounds never fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from rammer_mlir.scheduling.designs.coupling import LoopClass
from rammer_mlir.scheduling.designs.decisions import Decided
from rammer_mlir.scheduling.designs.machine import Choice, Machine
from rammer_mlir.scheduling.designs.problem import Assignment, LoopKind, Span, Traffic
from rammer_mlir.scheduling.designs.search import Prefix

Chosen = dict[int, Choice]
"""The choice of each loop so far."""


class Part(NamedTuple):
    """What one assignment costs at least: seconds, and waves of rTasks."""

    seconds: float
    waves: int


@dataclass(frozen=True)
class DesignSpace:
    """Designs of a group: its variables are the classes, in the order in which they are chosen."""

    decided: Decided
    machine: Machine
    classes: tuple[LoopClass, ...]
    tiles: bool = False

    @cached_property
    def variables(self) -> tuple[LoopClass, ...]:
        """The classes, those of large extent first: they decide the most."""
        return tuple(sorted(self.classes, key=lambda found: -found.extent))

    @cached_property
    def choices(self) -> tuple[tuple[Choice, ...], ...]:
        """The choices of each variable."""
        return tuple(
            self.machine.choices(found.extent, may_spread=found.may_spread, tiles=self.tiles)
            for found in self.variables
        )

    @property
    def num_choices(self) -> tuple[int, ...]:
        """Number of choices of each variable."""
        return self._num_choices

    @cached_property
    def _num_choices(self) -> tuple[int, ...]:
        return tuple(map(len, self.choices))

    @cached_property
    def _variables_of(self) -> tuple[tuple[int, ...], ...]:
        """The variables of each assignment's loops, ascending."""
        of_loop = {loop: n for n, found in enumerate(self.variables) for loop in found.loops}
        return tuple(
            tuple(sorted({of_loop[loop] for loop in assignment.loops}))
            for assignment in self.decided.problem.assignments
        )

    @cached_property
    def _parts(self) -> dict[tuple[int, Prefix], Part]:
        """Parts that are known: prefixes that differ elsewhere share them."""
        return {}

    def bound(self, prefix: Prefix) -> float:
        """Return a lower bound on the cost of designs that begin so; the cost of a whole one."""
        parts = [self._part(n, prefix) for n in range(len(self._variables_of))]
        waves = [1] * self.decided.num_units
        for part, unit in zip(parts, self.decided.units, strict=True):
            waves[unit] = max(waves[unit], part.waves)
        start = len(waves) * self.machine.start_seconds
        return start + sum(waves) * self.machine.task_seconds + sum(p.seconds for p in parts)

    def chosen(self, prefix: Prefix) -> Chosen:
        """Return the choice of each loop whose variable has one."""
        return {
            loop: options[choice]
            for options, choice, found in zip(self.choices, prefix, self.variables, strict=False)
            for loop in found.loops
        }

    def _part(self, number: int, prefix: Prefix) -> Part:
        mine = tuple(prefix[v] for v in self._variables_of[number] if v < len(prefix))
        found = self._parts.get((number, mine))
        if found is None:
            assignment = _Chosen(self, self.decided.problem.assignments[number], prefix)
            found = self._parts[number, mine] = assignment.part()
        return found


class _Chosen:
    """An assignment some of whose loops have a choice."""

    def __init__(self, space: DesignSpace, assignment: Assignment, prefix: Prefix) -> None:
        self._machine = space.machine
        self._loops = space.decided.problem.loops
        self._assignment = assignment
        chosen = space.chosen(prefix)
        self._chosen = {loop: chosen[loop] for loop in assignment.loops if loop in chosen}

    def part(self) -> Part:
        """Return what the assignment costs, or costs at least."""
        # The bounds of open loops count for the last time here, lest rounding let the sum fall.
        compute = max(self._busy(), self._in_waves())
        memory = self._total_bytes() / self._bandwidth(self._machine.units)
        if self._is_complete:
            compute = max(compute, self._in_waves() + self._meetings())
            active = min(self._blocks, self._machine.units)
            bytes_of_task = sum(map(self._bytes_of_task, self._assignment.traffic))
            each = self._machine.total_bytes_per_second / active
            rate = min(self._machine.bytes_per_second, each)
            memory = max(memory, self._waves * bytes_of_task / rate)
        return Part(max(compute, memory), self._waves)

    @property
    def _is_complete(self) -> bool:
        return len(self._chosen) == len(self._assignment.loops)

    @cached_property
    def _blocks(self) -> int:
        return prod(self._count(loop) for loop in self._chosen)

    @property
    def _waves(self) -> int:
        return -(-self._blocks // self._machine.units)

    @property
    def _step_seconds(self) -> float:
        return self._assignment.operations * self._machine.step_seconds

    def _count(self, loop: int) -> int:
        """Return how many tiles a loop that has a choice is cut into."""
        return -(-self._loops[loop].extent // self._chosen[loop].tile)

    def _by_lanes(self, loop: int) -> bool:
        usable = self._loops[loop].contiguous or not self._machine.is_vector
        return self._chosen[loop].by_lanes and usable

    def _busy(self) -> float:
        """Return the time with all lanes of all units busy."""
        points = prod(self._loops[loop].extent for loop in self._assignment.loops)
        return points / (self._machine.units * self._machine.lanes) * self._step_seconds

    def _in_waves(self) -> float:
        """Return the time of the loops with a choice, as if the others had one iteration."""
        lanes = prod(self._chosen[n].tile for n in self._chosen if self._by_lanes(n))
        serial = prod(self._chosen[n].tile for n in self._chosen if not self._by_lanes(n))
        steps = -(-lanes // self._machine.lanes) * serial
        return self._waves * steps * self._step_seconds

    def _meetings(self) -> float:
        """Return the time in which lanes combine what they have reduced, for all results."""
        reduced = [n for n in self._chosen if self._loops[n].kind is LoopKind.REDUCTION]
        sharing = prod(self._chosen[n].tile for n in reduced if self._by_lanes(n))
        if sharing == 1:
            return 0.0
        rows = [n for n in self._chosen if n not in reduced]
        side_by_side = prod(self._chosen[n].tile for n in rows if self._by_lanes(n))
        serial = prod(self._chosen[n].tile for n in rows if not self._by_lanes(n))
        groups = side_by_side * min(sharing, self._machine.lanes)
        rounds = serial * -(-groups // self._machine.lanes)
        return self._waves * rounds * self._machine.meeting_seconds

    def _bandwidth(self, active: int) -> float:
        machine = self._machine
        return min(machine.total_bytes_per_second, active * machine.bytes_per_second)

    def _bytes_of_task(self, traffic: Traffic) -> float:
        sizes = (
            span.constant + sum(factor * (self._chosen[n].tile - 1) for n, factor in span.terms)
            for span in traffic.spans
        )
        return prod(sizes) * traffic.element_bytes

    def _total_bytes(self) -> float:
        """Return the bytes that all rTasks move, at least."""
        return sum(map(self._bytes_of_all, self._assignment.traffic))

    def _bytes_of_all(self, traffic: Traffic) -> float:
        inside = {loop for span in traffic.spans for loop, _ in span.terms}
        repeated = prod(self._count(loop) for loop in self._chosen if loop not in inside)
        counted: set[int] = set()
        total = repeated * traffic.element_bytes
        for span in traffic.spans:
            total *= self._elements(span, counted)
            counted.update(loop for loop, _ in span.terms)
        return total

    def _elements(self, span: Span, counted: set[int]) -> int:
        """Return the elements along a dimension that all rTasks move, at least.

        A loop that indexes several dimensions counts in the first one.
        """
        extents = (self._loops[loop].extent for loop, _ in span.terms if loop not in counted)
        return max((span.constant, *extents))


def default_design(space: DesignSpace) -> Prefix:
    """Return what is chosen without a search: loops that may be are spread, others use lanes."""
    return tuple(_default(options) for options in space.choices)


def _default(options: Sequence[Choice]) -> int:
    return next((n for n, option in enumerate(options) if option.name == "rTask"), 0)
