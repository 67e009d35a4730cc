"""Searches for the set of regions with the least simulated time; this module does not read IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

MOST_SIMULATIONS = 200
"""Largest number of simulations; each runs the passes from `operators` to a plan."""

_LEAST_GAIN = 1e-4
"""Share of the host's time that each region must save; the cost model's error is smaller."""


@dataclass(frozen=True)
class Choice:
    """A set of regions to keep; equal regions share a name and are decided together.

    Attributes:
        partition: index of the partition that contains the regions. A partition is the set of all
            regions that form with an order of code generators, merged or not.
        kept: names of the kept regions; the host computes all other regions of the partition.
    """

    partition: int
    kept: frozenset[str]


HOST = Choice(0, frozenset())
"""The program without regions, common to all partitions."""

Simulate = Callable[[Choice], float]
"""A function that returns the predicted seconds of a choice."""


class Search:
    """Search for the set of regions to keep with the least predicted time, by coordinate descent.

    One descent starts from the program without regions, another from the program with all regions.
    For each region, a descent tries to move the region from the host to its code generator, or
    back, and keeps the move if the predicted time, plus a small penalty for each kept region,
    becomes less.
    """

    def __init__(
        self,
        partitions: Sequence[Sequence[str]],
        simulate: Simulate,
        has_time: Callable[[], bool],
        most: int = MOST_SIMULATIONS,
    ) -> None:
        """Begin without simulated times.

        Args:
            partitions: the names of the regions of each partition. The first partition is made with
                the user's order of code generators.
            simulate: returns the predicted seconds of a choice.
            has_time: whether time is left for another simulation.
            most: limit of simulations.
        """
        self._partitions, self._simulate, self._has_time = partitions, simulate, has_time
        self._most = most
        self.seconds: dict[Choice, float] = {}
        self.ends: list[Choice] = []
        self.untried = 0

    @property
    def everything(self) -> Choice:
        """The choice that keeps all regions that form in the user's order of code generators."""
        return self._all(0)

    def _all(self, partition: int) -> Choice:
        kept = frozenset(self._partitions[partition])
        return Choice(partition, kept) if kept else HOST

    def run(self) -> Choice:
        """Return the choice of regions with the least simulated time.

        Each kept region adds a small penalty to the time.

        Return ``HOST``, the program without regions, if no other choice can be simulated.
        """
        for choice in (HOST, self.everything):
            self.know(choice)
        for partition in range(1, len(self._partitions)):
            self._try(self._all(partition))
        whole = self._best(choice for choice in self.seconds if choice != HOST)
        if whole is None:
            return HOST
        # A descent from no region uses the names of the best partition.
        nothing = Choice(whole.partition, frozenset())
        starts = sorted((nothing, whole), key=self._rank)
        self.ends = [self._descent(start) for start in starts]
        return min(self.ends, key=self._rank)

    def finalists(self) -> list[Choice]:
        """Return the choices of regions that are worth measuring.

        These are the results of the descents, the program without regions, and for each partition
        the program with all regions, even if its time was not simulated.
        """
        whole = [self._all(number) for number in range(len(self._partitions))]
        return list(dict.fromkeys(map(_known_as, (*self.ends, HOST, *whole))))

    def _descent(self, start: Choice) -> Choice:
        best = start
        for name in self._partitions[start.partition]:
            other = Choice(start.partition, best.kept ^ {name})
            if self._try(other) and self._rank(other) < self._rank(best):
                best = other
        return best

    def _best(self, choices: Iterable[Choice]) -> Choice | None:
        return min(choices, key=self._rank, default=None)

    def _rank(self, choice: Choice) -> float:
        least = _LEAST_GAIN * self.seconds[HOST]
        # Ties go to fewer regions: each must save more than the cost model's error.
        return self.seconds[_known_as(choice)] + least * len(choice.kept)

    def _try(self, choice: Choice) -> bool:
        """Simulate a choice of regions if time is left; return whether its time is now known."""
        if _known_as(choice) in self.seconds:
            return True
        if len(self.seconds) >= self._most or not self._has_time():
            self.untried += 1
            return False
        self.know(choice)
        return True

    def know(self, choice: Choice) -> float:
        """Return the predicted seconds of a choice of regions; simulate it if they are unknown.

        Neither the limit of simulations nor the limit of time applies.
        """
        known = _known_as(choice)
        if known not in self.seconds:
            self.seconds[known] = self._simulate(known)
        return self.seconds[known]


def _known_as(choice: Choice) -> Choice:
    return choice if choice.kept else HOST
