"""Describes a sequence of operators by reads, writes and costs, and counts the bytes in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate


@dataclass(frozen=True)
class Value:
    """Memory that operators write and read.

    Attributes:
        num_bytes: size in bytes.
        is_counted: whether the value is an intermediate, whose bytes count as memory in use.
            Inputs, outputs and constants belong to the caller and do not count.
    """

    num_bytes: int
    is_counted: bool = True


@dataclass(frozen=True)
class Step:
    """An operator in a sequence.

    Attributes:
        reads: indices of the values that the operator reads.
        writes: indices of the values that the operator writes, completely or in part.
        cost: cost of computing the operator again, in any unit.
        is_repeatable: whether the operator may be computed again; the results are then written to
            separate memory, as new copies.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    cost: float = 1.0
    is_repeatable: bool = True


@dataclass(frozen=True)
class Steps:
    """A sequence of operators, and the values that they read and write.

    Steps and values are referred to by their index in ``steps`` and ``values``.
    """

    steps: Sequence[Step]
    values: Sequence[Value]

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        """The indices of the steps that read or write each intermediate (counted value).

        The indices are in ascending order, without duplicates.
        """
        found: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            for value in dict.fromkeys((*step.reads, *step.writes)):
                if self.values[value].is_counted:
                    found.setdefault(value, []).append(number)
        return found

    @cached_property
    def producers(self) -> dict[int, int]:
        """The index of the step that writes a value, for each value that can be recomputed.

        Only an intermediate that a single, repeatable step writes can be recomputed.
        """
        writers: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            for value in step.writes:
                writers.setdefault(value, []).append(number)
        return {
            value: numbers[0]
            for value, numbers in writers.items()
            if len(numbers) == 1
            and self.values[value].is_counted
            and self.steps[numbers[0]].is_repeatable
        }

    @cached_property
    def live_bytes(self) -> list[int]:
        """For each step, the total bytes of the intermediates (counted values) live at the step.

        A value is live from its first to its last use, both included.
        """
        change = [0] * (len(self.steps) + 1)
        for value, steps in self.uses.items():
            change[steps[0]] += self.values[value].num_bytes
            change[steps[-1] + 1] -= self.values[value].num_bytes
        return list(accumulate(change[:-1]))

    @cached_property
    def peak(self) -> int:
        """The maximum over all steps of the bytes of live intermediates."""
        return max(self.live_bytes, default=0)

    @cached_property
    def least_peak(self) -> int:
        """The largest total of bytes of the intermediates that a single step reads or writes.

        No sequence with recomputations can have a lower peak.
        """
        return max(
            (
                sum(self.values[v].num_bytes for v in {*s.reads, *s.writes}
                    if self.values[v].is_counted)
                for s in self.steps
            ),
            default=0,
        )  # fmt: skip

    @property
    def cost(self) -> float:
        """The sum of the costs of all steps."""
        return sum(step.cost for step in self.steps)
