"""Gaps in the use of values, and the sequence of steps in which some of them are left."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rammer_mlir.scheduling.recomputation.steps import Step, Steps

_MOST_LEVELS = 8
"""Consecutive steps that are computed again for one value."""


@dataclass(frozen=True)
class Gap:
    """A stretch between two uses of a value that others may use the memory in.

    Attributes:
        value: its number.
        begin: the step that uses it before.
        end: the step that reads it next: what follows is computed again in front of it.
        again: steps to compute again, in their order; the last one writes the value.
    """

    value: int
    begin: int
    end: int
    again: tuple[int, ...]

    @property
    def place(self) -> tuple[int, int]:
        """The value and the reader; of gaps that have it in common, at most one is left."""
        return self.value, self.end

    def spans(self, step: int) -> bool:
        """Whether the value is only kept for later at a step."""
        return self.begin < step < self.end


def find_gaps(steps: Steps) -> Iterator[Gap]:
    """Yield the gaps of a sequence, those of one place by growing ``again``.

    What a step needs is kept for longer, or computed again too, as far as it was dead already.
    """
    for value, producer in steps.producers.items():
        uses = steps.uses[value]
        for begin, end in pairwise(uses):
            if end - begin > 1:
                for again in _closures(steps, producer, end):
                    yield Gap(value, begin, end, again)


def _closures(steps: Steps, producer: int, end: int) -> list[tuple[int, ...]]:
    """Return sets of steps that compute a value in front of a reader, small ones first.

    They grow by what was dead there, or by all that can be repeated: a segment between checkpoints.
    """
    found: dict[tuple[int, ...], None] = {}
    for with_live in (False, True):
        again = {producer}
        for _ in range(_MOST_LEVELS):
            found[tuple(sorted(again))] = None
            missing = {
                steps.producers[read]
                for number in again
                for read in steps.steps[number].reads
                if read in steps.producers and (with_live or steps.uses[read][-1] < end)
            }
            if missing <= again:
                break
            again |= missing
    return sorted(found, key=len)


@dataclass(frozen=True)
class Repeated:
    """A sequence of steps in which gaps were left.

    Attributes:
        steps: the sequence; copies of values have numbers of their own.
        origins: for each step, the number of the one that it is or repeats.
        is_again: for each step, whether it repeats an earlier one.
    """

    steps: Steps
    origins: tuple[int, ...]
    is_again: tuple[bool, ...]


def leave(steps: Steps, gaps: Collection[Gap]) -> Repeated:
    """Return the sequence in which values are computed again after each gap.

    Whoever reads a value reads its latest copy.
    """
    again: dict[int, set[int]] = {}
    for gap in gaps:
        again.setdefault(gap.end, set()).update(gap.again)
    values = list(steps.values)
    latest: dict[int, int] = {}
    made: list[Step] = []
    origins: list[int] = []
    repeats: list[bool] = []

    def renamed(step: Step) -> tuple[int, ...]:
        if latest.keys().isdisjoint(step.reads):
            return step.reads
        return tuple(latest.get(value, value) for value in step.reads)

    for number, step in enumerate(steps.steps):
        for origin in sorted(again.get(number, ())):
            repeated = steps.steps[origin]
            reads = renamed(repeated)
            copies = tuple(range(len(values), len(values) + len(repeated.writes)))
            values.extend(replace(steps.values[v], is_counted=True) for v in repeated.writes)
            wanted = (v in steps.producers for v in repeated.writes)
            latest.update(
                (v, c) for v, c, is_read in zip(repeated.writes, copies, wanted, strict=True)
                if is_read
            )  # fmt: skip
            made.append(replace(repeated, reads=reads, writes=copies))
            origins.append(origin)
            repeats.append(True)
        reads = renamed(step)
        made.append(step if reads is step.reads else replace(step, reads=reads))
        origins.append(number)
        repeats.append(False)
    return Repeated(Steps(tuple(made), tuple(values)), tuple(origins), tuple(repeats))
