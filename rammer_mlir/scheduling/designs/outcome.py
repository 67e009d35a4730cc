"""The design search of a group from end to end, and its result as text."""

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
    """The design of a group.

    Attributes:
        problem: the group.
        spaces: the designs under each decision on the group's values.
        num_uncoupled: number of designs if each loop had its own choice.
        default: the design without a search.
        found: the result of the search.
    """

    problem: Problem
    spaces: tuple[DesignSpace, ...]
    num_uncoupled: int
    default: Design
    found: Found

    @property
    def space(self) -> DesignSpace:
        """The space that contains the design that was found."""
        return self.spaces[self.found.design.space]

    @property
    def chosen(self) -> dict[str, Choice]:
        """The choice of each loop that no recomputation removed, by the loop's name."""
        chosen = self.space.chosen(self.found.design.choices)
        return {self.problem.loops[loop].name: choice for loop, choice in chosen.items()}

    def summary(self) -> str:
        """Return a line of counts: loops, designs, variables, and prefixes that the search took."""
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
        """Yield lines of the costs, the decided values, and the choice of each loop class."""
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
    """Return the cheapest design of a group on a machine, with the counts of the search.

    Args:
        problem: the group.
        machine: the hardware that it is mapped to.
        tiles: whether rTasks may also take several iterations of a loop.
    """
    decided = tuple(decide(problem))
    single = [DesignSpace(each, machine, uncoupled(each.problem), tiles) for each in decided]
    spaces = tuple(DesignSpace(each, machine, couple(each.problem), tiles) for each in decided)
    default = _default(spaces)
    found = search(spaces, default)
    return Outcome(problem, spaces, num_designs(single), default, found)


def _default(spaces: Sequence[DesignSpace]) -> Design:
    """Return the design without a search: the preferred decisions and their default choices."""
    choices = default_design(spaces[0])
    return Design(0, choices, spaces[0].bound(choices))
