"""Finds the cheapest design by best-first search, or by beam search if there are too many designs.

A design has a choice (the mapping to vEUs and lanes) for each variable (a class of loops that are
mapped alike). A prefix of a design contains the choices of the first variables. A space is a set of
designs, with a lower bound on the cost of all its designs that begin with a given prefix. If a
prefix gets longer, its bound stays equal or rises. The bound of a complete design is its cost. The
heap returns the prefix of least bound, so the first complete design taken from the heap is the
cheapest (A*; Dali, section 2.1).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple, Protocol

Prefix = tuple[int, ...]
"""A partial design: the index of the choice for each of its first ``len(prefix)`` variables.

A variable is a class of loops that are mapped alike; a choice is a possible mapping of them.
"""

MOST_DESIGNS = 1 << 20
"""Maximum number of designs (mappings of loops) for an exact search, which finds the cheapest."""

BEAM_WIDTH = 4096
"""The number of partial designs of each length that the beam search keeps."""


class Space(Protocol):
    """The designs of a fused group for one combination of decisions on its values.

    A design maps each class of coupled loops, called a variable, to vEUs, lanes, both or neither. A
    decision on a value is to store it, to recompute it, or to pass it through memory.
    """

    @property
    def num_choices(self) -> tuple[int, ...]:
        """The number of possible mappings of each variable (class of coupled loops)."""
        ...

    def bound(self, prefix: Prefix) -> float:
        """Return a lower bound on the cost of all designs that begin with ``prefix``.

        If the prefix is a complete design, the bound is the exact cost of this design.
        """
        ...


class Design(NamedTuple):
    """A complete design: a mapping of all loops of a fused group.

    Attributes:
        space: the index of the design's ``Space`` among the searched spaces.
        choices: for each variable of the space, the index of its choice (mapping).
        cost: the cost of the design, in the unit of ``Space.bound`` (seconds for a
            ``DesignSpace``).
    """

    space: int
    choices: Prefix
    cost: float


@dataclass(frozen=True)
class Found:
    """The result of a search for the cheapest design.

    Attributes:
        design: the cheapest design (mapping of loops) found.
        taken: number of partial designs taken from the heap or the beam.
        evaluated: number of partial designs whose bound was computed.
        bound: lower bound on the cost of every design.
        beam: width of the beam; 0 if the search was exact.
    """

    design: Design
    taken: int
    evaluated: int
    bound: float
    beam: int = 0

    @property
    def gap(self) -> float:
        """An upper bound on the found design's cost divided by the cost of the cheapest design."""
        if self.design.cost <= self.bound:
            return 1.0
        return self.design.cost / self.bound if self.bound > 0 else inf


def num_designs(spaces: Iterable[Space]) -> int:
    """Return the number of complete designs of all spaces together."""
    return sum(prod(space.num_choices) for space in spaces)


def search(
    spaces: Sequence[Space],
    incumbent: Design | None = None,
    most: int = MOST_DESIGNS,
    width: int = BEAM_WIDTH,
) -> Found:
    """Return the cheapest design; for more than ``most`` designs, the best that a beam finds.

    Partial designs with equal bounds are taken in a fixed order, so the result is deterministic.

    Args:
        spaces: at least one set of designs, the preferred set first.
        incumbent: a known design: designs of higher cost are pruned.
        most: largest count of designs for an exact search.
        width: count of partial designs of each length that the beam keeps.
    """
    if num_designs(spaces) > most:
        return _Beam(spaces, incumbent).search(width)
    return best_first(spaces, incumbent)


def best_first(spaces: Sequence[Space], incumbent: Design | None = None) -> Found:
    """Return the cheapest design of all spaces, by an exact best-first search (A*).

    ``incumbent`` is a known design: designs of higher cost are pruned.
    """
    limit = incumbent.cost if incumbent is not None else inf
    # Among equal bounds take the longest prefix first: it is closest to a complete design.
    heap: list[tuple[float, int, int, Prefix]] = [
        (space.bound(()), 0, number, ()) for number, space in enumerate(spaces)
    ]
    heapq.heapify(heap)
    taken, evaluated = 0, len(heap)
    while heap:
        bound, _, number, prefix = heapq.heappop(heap)
        taken += 1
        choices = spaces[number].num_choices
        if len(prefix) == len(choices):
            return Found(Design(number, prefix, bound), taken, evaluated, bound)
        for longer in ((*prefix, choice) for choice in range(choices[len(prefix)])):
            found = spaces[number].bound(longer)
            evaluated += 1
            if found <= limit:
                heapq.heappush(heap, (found, -len(longer), number, longer))
    assert incumbent is not None, "expected a space with a design"
    return Found(incumbent, taken, evaluated, incumbent.cost)


_Node = tuple[float, int, Prefix]
"""The lower bound on a partial design's cost, the index of its space, and the partial design."""


class _Beam:
    """A beam search, which keeps only the best partial designs of each length.

    The search records the least bound of all partial designs that it dropped. No design that begins
    with a dropped partial design costs less than this bound.
    """

    def __init__(self, spaces: Sequence[Space], incumbent: Design | None) -> None:
        self._spaces = spaces
        self._best = incumbent
        self._taken = 0
        self._evaluated = len(spaces)
        self._least_dropped = inf

    def search(self, width: int) -> Found:
        """Return the best design that a beam of ``width`` partial designs finds.

        ``Found.bound`` of the result is a lower bound on the cost of all designs, also of designs
        that begin with a dropped partial design.
        """
        level: list[_Node] = [(space.bound(()), n, ()) for n, space in enumerate(self._spaces)]
        while level:
            level.sort()
            if len(level) > width:
                self._least_dropped = min(self._least_dropped, level[width][0])
            level = list(self._longer(level[:width]))
        assert self._best is not None, "expected a space with a design"
        bound = min(self._best.cost, self._least_dropped)
        return Found(self._best, self._taken, self._evaluated, bound, width)

    def _longer(self, level: Sequence[_Node]) -> Iterator[_Node]:
        for bound, number, prefix in level:
            # The level is sorted by bounds, so all remaining prefixes exceed the best cost too.
            if self._best is not None and bound > self._best.cost:
                return
            self._taken += 1
            choices = self._spaces[number].num_choices
            if len(prefix) == len(choices):
                self._keep(Design(number, prefix, bound))
                continue
            for choice in range(choices[len(prefix)]):
                self._evaluated += 1
                longer = (*prefix, choice)
                yield self._spaces[number].bound(longer), number, longer

    def _keep(self, design: Design) -> None:
        if self._best is None or design.cost < self._best.cost:
            self._best = design
