"""The designs of a group under one combination of decisions, with their costs.

A design has a choice for each class of loops. Assignments run in order (``cost``); each unit of
assignments starts its rTasks in waves. The bound of an assignment never falls as more classes get a
choice, so the sum never falls either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rammer_mlir.scheduling.designs.cost import AssignmentCost, Part
from rammer_mlir.scheduling.designs.coupling import LoopClass
from rammer_mlir.scheduling.designs.decisions import Decided
from rammer_mlir.scheduling.designs.machine import Choice, Machine
from rammer_mlir.scheduling.designs.search import Prefix


@dataclass(frozen=True)
class DesignSpace:
    """The designs of a group; the variables are the loop classes, in the order of their choice.

    With ``tiles``, rTasks may also take several iterations of a loop.
    """

    decided: Decided
    machine: Machine
    classes: tuple[LoopClass, ...]
    tiles: bool = False

    @cached_property
    def variables(self) -> tuple[LoopClass, ...]:
        """The loop classes by descending extent: large loops affect the cost most."""
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
        """The number of choices of each variable."""
        return self._num_choices

    @cached_property
    def _num_choices(self) -> tuple[int, ...]:
        return tuple(map(len, self.choices))

    @cached_property
    def _variable_of(self) -> dict[int, int]:
        return {loop: n for n, found in enumerate(self.variables) for loop in found.loops}

    @cached_property
    def _variables_of(self) -> tuple[tuple[int, ...], ...]:
        """For each assignment, the variables of its loops, ascending."""
        return tuple(
            tuple(sorted({self._variable_of[loop] for loop in assignment.loops}))
            for assignment in self.decided.problem.assignments
        )

    @cached_property
    def _parts(self) -> dict[tuple[int, Prefix], Part]:
        """Memoized costs by an assignment and the choices of its own loops."""
        return {}

    def bound(self, prefix: Prefix) -> float:
        """Return a lower bound in seconds on the cost of all designs that begin with a prefix.

        For the prefix of a complete design, it is the design's exact cost.
        """
        parts = [self._part(n, prefix) for n in range(len(self._variables_of))]
        waves = [1] * self.decided.num_units
        for part, unit in zip(parts, self.decided.units, strict=True):
            waves[unit] = max(waves[unit], part.waves)
        start = len(waves) * self.machine.start_seconds
        return start + sum(waves) * self.machine.task_seconds + sum(p.seconds for p in parts)

    def chosen(self, prefix: Prefix) -> dict[int, Choice]:
        """Return the choice of each loop, by number, that a prefix determines."""
        return {
            loop: options[choice]
            for options, choice, found in zip(self.choices, prefix, self.variables, strict=False)
            for loop in found.loops
        }

    @cached_property
    def _costs(self) -> tuple[AssignmentCost, ...]:
        problem = self.decided.problem
        return tuple(AssignmentCost(problem, a, self.machine) for a in problem.assignments)

    def _part(self, number: int, prefix: Prefix) -> Part:
        mine = tuple(prefix[v] for v in self._variables_of[number] if v < len(prefix))
        found = self._parts.get((number, mine))
        if found is None:
            found = self._costs[number].part(self._chosen_of(number, prefix))
            self._parts[number, mine] = found
        return found

    def _chosen_of(self, number: int, prefix: Prefix) -> dict[int, Choice]:
        """Return the choice of each loop of assignment ``number`` that a prefix determines."""
        loops = self.decided.problem.assignments[number].loops
        variables = ((loop, self._variable_of[loop]) for loop in loops)
        return {loop: self.choices[v][prefix[v]] for loop, v in variables if v < len(prefix)}


def default_design(space: DesignSpace) -> Prefix:
    """Return the design without a search.

    Loops are distributed over vEUs where that is allowed; other loops use lanes.
    """
    return tuple(_default(options) for options in space.choices)


def _default(options: Sequence[Choice]) -> int:
    return next((n for n, option in enumerate(options) if option.name == "rTask"), 0)
