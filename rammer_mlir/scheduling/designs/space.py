"""Computes the costs of a fused group's designs, for one combination of decisions on its values.

A design has a choice (a mapping to vEUs and lanes) for each class of coupled loops. A decision on a
value is to store it, to recompute it, or to pass it through memory (``decisions``).

The cost of a design is a sum: the costs of the assignments (loop nests, ``cost``), the time to
start the units (parts of the group between barriers), and the time to start waves of rTasks. The
bound of an assignment never falls as more classes get a choice, so the sum never falls either.
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
    """The designs of a fused group for one combination of decisions on the group's values.

    A design maps each class of coupled loops to vEUs, to the lanes of a vEU, to both, or to neither
    (serial execution). A decision on a value is to store it, to recompute it in each reader, or to
    pass it through memory to a part of the group after a barrier.

    Attributes:
        decided: the group, rewritten for these decisions.
        machine: the vEUs and lanes that loops are mapped to.
        classes: the classes of coupled loops; all loops of a class are mapped in the same manner.
        tiles: whether an rTask may also execute a half, a quarter and so on of a loop's iterations.
    """

    decided: Decided
    machine: Machine
    classes: tuple[LoopClass, ...]
    tiles: bool = False

    @cached_property
    def variables(self) -> tuple[LoopClass, ...]:
        """The loop classes by descending extent, because large extents affect the cost most.

        A search chooses a mapping for each class, so the classes are the variables of the search.
        """
        return tuple(sorted(self.classes, key=lambda found: -found.extent))

    @cached_property
    def choices(self) -> tuple[tuple[Choice, ...], ...]:
        """The possible mappings of each class of coupled loops, in the order of ``variables``."""
        return tuple(
            self.machine.choices(found.extent, may_spread=found.may_spread, tiles=self.tiles)
            for found in self.variables
        )

    @property
    def num_choices(self) -> tuple[int, ...]:
        """The number of possible mappings of each variable (class of coupled loops)."""
        return self._num_choices

    @cached_property
    def _num_choices(self) -> tuple[int, ...]:
        return tuple(map(len, self.choices))

    @cached_property
    def _variable_of(self) -> dict[int, int]:
        return {loop: n for n, found in enumerate(self.variables) for loop in found.loops}

    @cached_property
    def _variables_of(self) -> tuple[tuple[int, ...], ...]:
        """For each assignment (loop nest), its loops' indices into ``variables``, ascending."""
        return tuple(
            tuple(sorted({self._variable_of[loop] for loop in assignment.loops}))
            for assignment in self.decided.problem.assignments
        )

    @cached_property
    def _parts(self) -> dict[tuple[int, Prefix], Part]:
        """The costs of assignments (loop nests) computed so far, or lower bounds on these costs.

        A key is a pair: the number of the assignment, and the indices of the choices for those
        variables of its loops that already have a choice.
        """
        return {}

    def bound(self, prefix: Prefix) -> float:
        """Return a lower bound in seconds on the cost of all designs that begin with ``prefix``.

        If ``prefix`` is a complete design, the bound is the exact cost of this design.
        """
        parts = [self._part(n, prefix) for n in range(len(self._variables_of))]
        waves = [1] * self.decided.num_units
        for part, unit in zip(parts, self.decided.units, strict=True):
            waves[unit] = max(waves[unit], part.waves)
        start = len(waves) * self.machine.start_seconds
        return start + sum(waves) * self.machine.task_seconds + sum(p.seconds for p in parts)

    def chosen(self, prefix: Prefix) -> dict[int, Choice]:
        """Return, by loop number, the mapping of each loop for which a prefix has a choice.

        ``prefix`` has the index of the choice for each of the first classes in ``variables``. The
        loops of the other classes are left out.
        """
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
        """Return, by loop number, the mappings of the loops of assignment ``number`` in a prefix.

        Loops for which the prefix has no choice are left out.
        """
        loops = self.decided.problem.assignments[number].loops
        variables = ((loop, self._variable_of[loop]) for loop in loops)
        return {loop: self.choices[v][prefix[v]] for loop, v in variables if v < len(prefix)}


def default_design(space: DesignSpace) -> Prefix:
    """Return the design that is used without a search.

    It has the index of a choice (a mapping) for each loop class in ``DesignSpace.variables``.

    Loops are distributed over vEUs where that is allowed; other loops use lanes.
    """
    return tuple(_default(options) for options in space.choices)


def _default(options: Sequence[Choice]) -> int:
    return next((n for n, option in enumerate(options) if option.name == "rTask"), 0)
