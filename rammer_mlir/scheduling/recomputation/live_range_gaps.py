"""Finds gaps between uses of values, and recomputes values that are freed in some gaps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from rammer_mlir.scheduling.recomputation.operator_sequence import Step, Steps

_MOST_LEVELS = 8
"""Maximum depth of recomputation: a value's producer, the producers of its operands, and so on."""


@dataclass(frozen=True)
class Gap:
    """An interval between two uses of a value during which the value's memory may be freed.

    A step is an operator of the sequence.

    Attributes:
        value: the value's index.
        begin: index of the step of the earlier use.
        end: index of the step of the later use.
        again: indices of the steps to execute again before step ``end``, in order; the last of
            these steps writes the value.
    """

    value: int
    begin: int
    end: int
    again: tuple[int, ...]

    @property
    def place(self) -> tuple[int, int]:
        """The value's index, and the index of the step of the later use.

        Several gaps may have the same pair, if there are several sets of steps that recompute the
        value before this use. Such gaps differ in ``again`` only.
        """
        return self.value, self.end

    def spans(self, step: int) -> bool:
        """Whether a step is between ``begin`` and ``end``, where the value is live but unused."""
        return self.begin < step < self.end


def find_gaps(steps: Steps) -> Iterator[Gap]:
    """Yield the gaps of a sequence of operators, one value after the other.

    There may be several gaps for the same use of a value. A recomputed step needs its operands, and
    each operand may either be kept alive longer or be recomputed too. The gaps of a use are in the
    order of growing length of ``again``.
    """
    for value, producer in steps.producers.items():
        uses = steps.uses[value]
        for begin, end in pairwise(uses):
            if end - begin > 1:
                for again in _closures(steps, producer, end):
                    yield Gap(value, begin, end, again)


def _closures(steps: Steps, producer: int, end: int) -> list[tuple[int, ...]]:
    """Return sets of steps that each recompute the result of step ``producer``, small sets first.

    ``end`` is the step that needs the recomputed result. The smallest set has only ``producer``,
    whose operands are all kept alive. Larger sets add the producers of these operands, then the
    producers of the producers' operands, and so on, up to ``_MOST_LEVELS`` levels. There are two
    series of such sets.
    The first series adds only producers of operands whose last use is before step ``end``. The
    second series adds the producers of all operands that can be recomputed.
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
    """A sequence of operators (steps) in which some steps are executed again.

    Attributes:
        steps: the sequence; recomputed copies of values have new indices.
        origins: for each step, the index of the same step in the original sequence; a repeated
            step has the index of the step that it repeats.
        is_again: for each step, whether it repeats an earlier step.
    """

    steps: Steps
    origins: tuple[int, ...]
    is_again: tuple[bool, ...]


def leave(steps: Steps, gaps: Collection[Gap]) -> Repeated:
    """Return the sequence of operators in which the value of each gap is freed during the gap.

    At the end of each gap, the steps ``Gap.again`` compute the value again as a new copy, and later
    readers use the copy.
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
