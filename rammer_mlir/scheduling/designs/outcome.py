"""Runs the complete design search of a fused group, and formats its result as text.

A design maps each class of coupled loops to vEUs, lanes, both or neither. A decision on a value is
to store it, to recompute it in each reader, or to pass it through memory after a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rammer_mlir.scheduling.designs.coupling import couple, uncoupled
from rammer_mlir.scheduling.designs.decisions import decide
from rammer_mlir.scheduling.designs.machine import Choice, Machine
from rammer_mlir.scheduling.designs.problem import Problem
from rammer_mlir.scheduling.designs.search import Design, Found, num_designs, search
from rammer_mlir.scheduling.designs.space import DesignSpace, default_design


@dataclass(frozen=True)
class Outcome:
    """The result of the design search, which maps a fused group's loops to vEUs and lanes.

    A decision on a value is to store it, recompute it in each reader, or pass it through memory.

    Attributes:
        problem: the group before any decision on its values.
        spaces: a set of designs for each combination of decisions on the group's values.
        num_uncoupled: number of designs if each loop were mapped independently of all others.
        default: the design that is used without a search.
        found: the cheapest design found, and the counts of the search.
    """

    problem: Problem
    spaces: tuple[DesignSpace, ...]
    num_uncoupled: int
    default: Design
    found: Found

    @property
    def space(self) -> DesignSpace:
        """The set of all designs that have the same decisions on values as the design found."""
        return self.spaces[self.found.design.space]

    @property
    def chosen(self) -> dict[str, Choice]:
        """The mapping of each loop in the design found, by the loop's name.

        Loops that recomputation removes are left out.
        """
        chosen = self.space.chosen(self.found.design.choices)
        return {self.problem.loops[loop].name: choice for loop, choice in chosen.items()}

    def summary(self) -> str:
        """Return a line of counts, such as "8 loops, 4,096 designs; 3 variables, 16; 4 taken".

        The five counts are:

        - the loops;
        - the designs if each loop were mapped independently;
        - the variables, which are classes of coupled loops, and values with several allowed
          decisions;
        - the designs if coupled loops are mapped in the same manner;
        - the partial designs that the search took from its heap or beam.

        If the search was a beam search, its width and the bound on its error follow.
        """
        choosing = sum(len(value.decisions) > 1 for value in self.problem.values)
        variables = len(self.spaces[0].classes) + choosing
        found = self.found
        how = f"{found.taken:,} taken"
        if found.beam:
            how += f" by a beam of {found.beam:,}, at most {found.gap:.2f} times the optimum"
        return (
            f"{_counted(len(self.problem.used_loops), 'loop')}, "
            f"{_counted(self.num_uncoupled, 'design')}; {_counted(variables, 'variable')}, "
            f"{num_designs(self.spaces):,}; {how}"
        )

    def lines(self) -> Iterator[str]:
        """Yield lines of text: the costs, the decisions on values, the mapping of each loop class.

        The costs, in microseconds, are those of the design found and of the design that would be
        used without a search.
        """
        cost, default = self.found.design.cost, self.default.cost
        yield f"{cost * 1e6:.3f} us, {default * 1e6:.3f} us without a search"
        decisions = self.space.decided.decisions
        for value, decision in zip(self.problem.values, decisions, strict=True):
            if len(value.decisions) > 1:
                yield f"{value.name}: {decision.value}"
        chosen = zip(
            self.space.variables, self.space.choices, self.found.design.choices, strict=True
        )
        for variable, options, choice in chosen:
            names = ", ".join(self.problem.loops[loop].name for loop in variable.loops)
            yield f"{names} ({variable.extent}): {options[choice].name}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def find_design(problem: Problem, machine: Machine, *, tiles: bool = False) -> Outcome:
    """Return the cheapest design found for a fused group, and the search's counts.

    A design maps each class of coupled loops to vEUs, lanes, both or neither.

    Args:
        problem: the group, with its loops, assignments and values.
        machine: the vEUs and lanes that the loops are mapped to.
        tiles: whether to also try rTasks that execute a half, a quarter and so on of a loop's
            iterations.
    """
    decided = tuple(decide(problem))
    single = [DesignSpace(each, machine, uncoupled(each.problem), tiles) for each in decided]
    spaces = tuple(DesignSpace(each, machine, couple(each.problem), tiles) for each in decided)
    default = _default(spaces)
    found = search(spaces, default)
    return Outcome(problem, spaces, num_designs(single), default, found)


def _default(spaces: Sequence[DesignSpace]) -> Design:
    """Return the design that is used without a search.

    It has the preferred decision on each value (to store, recompute or pass through memory), and
    the mapping of ``default_design`` for each loop.
    """
    choices = default_design(spaces[0])
    return Design(0, choices, spaces[0].bound(choices))
