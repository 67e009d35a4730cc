"""Compiles programs that differ in their regions, and times them side by side on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.loading import load_program
from rammer_mlir.compiler.offload_search import HOST, Choice
from rammer_mlir.compiler.offload_units import seconds_of_runs
from rammer_mlir.compiler.shared_code import KnownObjects
from rammer_mlir.compiler.stage import Stage, Work, run_stages
from rammer_mlir.compiler.stage_names import REGIONS
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.feeds import random_feeds
from rammer_mlir.support.interleaved_timing import (
    MIN_ROUNDS,
    clearly_faster,
    paired_medians,
    take_rounds,
    timed_burst,
)
from rammer_mlir.support.log import LOGGER

_SECONDS = 2.0
"""Seconds of each of two timings: of all programs together, then of the fastest programs."""

_NEAR = 1.15
"""Programs that take at most this multiple of the fastest program's time are timed again."""

_LEAST_ROUNDS = 11
"""Minimum number of rounds of the second timing; a program alone beside ``HOST`` must win nine."""

_DUEL_ROUNDS = 31
"""Minimum number of rounds of a duel.

A program that wins four of five rounds is then found in nine cases of ten. Slow programs get hardly
more rounds in the second timing than ``_LEAST_ROUNDS``.
"""

_RECORDS = 5
"""Number of recorded runs of a program."""

_NOISE = 0.02
"""Relative difference below which two programs' times count as equal.

On a machine with other processes, the times of equal programs differ by as much. With a lower
value, the moments at which programs are timed would decide which regions are kept.
"""


Rounds = Mapping[Choice, Sequence[Sequence[float]]]
"""Seconds of the runs of each choice of regions, by round."""


@dataclass(frozen=True)
class Measured:
    """Measured times of competing programs.

    Attributes:
        seconds: the seconds per run of each choice of regions.
        faster: the choices whose programs are significantly faster than the program without
            regions.
        untried: number of choices that were not compiled for lack of time.
    """

    seconds: Mapping[Choice, float] = field(default_factory=dict[Choice, float])
    faster: frozenset[Choice] = frozenset()
    untried: int = 0


class Finals:
    """Programs that differ in their regions, compiled for this machine, and kept until timed."""

    def __init__(self, work: Work, stages: Sequence[Stage], has_time: Callable[[], bool]) -> None:
        """Begin with no program.

        Args:
            work: the model, whose options, signature and weights the programs share.
            stages: the stages after the stage `regions`, in order.
            has_time: whether time is left for compiling another program.
        """
        self._work, self._stages, self._has_time = work, stages, has_time
        self._untried: set[Choice] = set()
        self._feeds = random_feeds(work.signature, seed=0)
        self._programs: dict[Choice, Executable] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Finals:
        """Return this object; its programs are kept until the end of the context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close all programs."""
        self._stack.close()

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices of regions whose programs ``enter`` added, in the order of addition."""
        return tuple(self._programs)

    def __contains__(self, choice: Choice) -> bool:
        """Whether the program of a choice of regions was added by ``enter``."""
        return choice in self._programs

    def enter(
        self, choice: Choice, module: Callable[[], ir.Module], *, always: bool = False
    ) -> None:
        """Compile the program of a choice of regions if time is left, and keep it for timing.

        Nothing happens if the choice was entered before.

        Args:
            choice: the regions to keep.
            module: returns the program at the stage `regions`.
            always: whether to compile the program even if no time is left.

        Raises:
            RammerError: if the program cannot be compiled.
        """
        if choice in self._programs:
            return
        if not always and not self._has_time():
            self._untried.add(choice)
            return
        trial = replace(
            self._work, module=module(), reached=[REGIONS], seconds={}, stats={}, kernels=None,
            known=KnownObjects(rkernels=self._work.known.rkernels),
        )  # fmt: skip
        run_stages(trial, self._stages, self._stages[-1].name)
        assert isinstance(trial.image, CpuImage)
        loaded = load_program(trial.image, trial.binary, trial.objects, trial.stats)
        self._programs[choice] = self._stack.enter_context(loaded)

    def seconds_by_origin(self, choice: Choice) -> dict[str, float]:
        """Run the program of a choice of regions; return the seconds of its regions and operations.

        The seconds of a region, or of an operation that the host computes, are the sum over its
        rTasks, as in ``seconds_of_runs``. The key is the name of the region, or the name that
        ``number_operations`` gave the operation, such as ``rtask.unit 7 conv1``.
        """
        program = self._programs[choice]
        program.run(self._feeds)
        return seconds_of_runs([program.record(self._feeds) for _ in range(_RECORDS)])

    def timed(self) -> Measured:
        """Time all programs, then the fastest programs a second time; return all times.

        ``time_twice`` describes the result. Programs are compared within rounds, because the
        machine's speed changes between rounds.
        """
        found = replace(time_twice(self.choices, self._rounds), untried=len(self._untried))
        for choice, seconds in found.seconds.items():
            LOGGER.info(
                "offload: %d regions kept, measured %.6f ms", len(choice.kept), seconds * 1e3
            )
        return found

    def _rounds(self, choices: Sequence[Choice], least: int) -> Rounds:
        turns = {
            choice: partial(timed_burst, partial(self._programs[choice].run, self._feeds))
            for choice in choices
        }
        return take_rounds(turns, _SECONDS, least=least)


def time_twice(
    choices: Sequence[Choice], timed: Callable[[Sequence[Choice], int], Rounds]
) -> Measured:
    """Time all choices of regions; time the fastest choices and ``HOST`` a second time.

    ``HOST`` is the program without regions. If the second timing finds no choice significantly
    faster, although the time of the fastest choice is less by more than ``_NOISE``, a duel of this
    choice and ``HOST`` decides, with more rounds. Choices that are timed only once are never among
    the significantly faster choices. Seconds are scaled to the machine's speed during the last
    timing.

    Args:
        choices: the choices of regions, including ``HOST``.
        timed: times the given choices side by side for at least the given number of rounds; returns
            the seconds of the runs of each choice, by round.
    """
    found = paired_medians(timed(choices, MIN_ROUNDS))
    best = min(found, key=found.__getitem__)
    near = _NEAR * found[best]
    # The program without regions decides whether any region is kept.
    rest = [choice for choice in found if found[choice] <= near or choice == HOST]
    if len(rest) < 2:
        return Measured(found)
    rounds = timed(rest, _LEAST_ROUNDS)
    found = _updated(found, paired_medians(rounds), best)
    faster = clearly_faster(rounds, HOST)
    best = min(rest, key=found.__getitem__)
    if not faster and found[HOST] > found[best] * (1 + _NOISE):
        rounds = timed([HOST, best], _DUEL_ROUNDS)
        found = _updated(found, paired_medians(rounds), HOST)
        faster = clearly_faster(rounds, HOST)
    return Measured(found, faster)


def _updated(
    old: Mapping[Choice, float], new: Mapping[Choice, float], reference: Choice
) -> dict[Choice, float]:
    """Return the seconds in ``new``, and for all other choices the scaled seconds in ``old``.

    The scale is the ratio of the seconds of ``reference``, a choice in both ``old`` and ``new``: it
    tells how the machine's speed has changed.
    """
    scale = new[reference] / old[reference]
    return {choice: new.get(choice, scale * seconds) for choice, seconds in old.items()}


def fastest(measured: Measured, everything: Choice) -> Choice:
    """Return the choice of regions to use: the fastest, or a simpler one that is nearly as fast.

    The candidates are the choices that are significantly faster than ``HOST``, the program without
    regions; the best candidate has the least time. The result is the first of these that applies:

    - ``HOST``, if there is no candidate, or if ``HOST`` takes at most 2 % longer than the best
      candidate,
    - ``everything``, the choice of all regions, if it is a candidate and takes at most 2 % longer
      than the best candidate,
    - the best candidate.
    """
    seconds = measured.seconds
    if not measured.faster:
        return HOST
    best = min(measured.faster, key=seconds.__getitem__)
    limit = seconds[best] * (1 + _NOISE)
    if seconds[HOST] <= limit:
        return HOST
    return everything if everything in measured.faster and seconds[everything] <= limit else best
