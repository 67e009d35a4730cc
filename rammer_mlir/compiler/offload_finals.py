"""Programs with other regions, compiled and timed side by side on this machine."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.loading import load_program
from rammer_mlir.compiler.offload_search import Choice
from rammer_mlir.compiler.stage import Stage, Work, run_stages
from rammer_mlir.compiler.stage_names import REGIONS
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.feeds import random_feeds
from rammer_mlir.support.log import LOGGER

_SECONDS = 2.0
"""Time in which runs of all programs are measured."""

_LEAST_ROUNDS, _MOST_ROUNDS = 5, 100
_BURST = 3
"""Timed runs of a program in a round, after one that is not timed: others emptied the caches."""

_NOISE = 0.005
"""Share of a time below which medians of programs side by side do not differ."""


@dataclass(frozen=True)
class Finals:
    """Takes programs from the stage of regions to code of this machine, and times them.

    Attributes:
        stages: those behind the stage of regions, in order.
    """

    stages: Sequence[Stage]

    def seconds(
        self, work: Work, programs: Mapping[Choice, Callable[[], ir.Module]]
    ) -> dict[Choice, float]:
        """Return the median time of a run of each program on random inputs.

        Args:
            work: the model, whose options, signature and weights the programs share.
            programs: what returns a program at the stage of regions.

        Raises:
            RammerError: if a program cannot be compiled, or does not run.
        """
        with ExitStack() as stack:
            opened = {
                choice: stack.enter_context(self._compiled(work, module()))
                for choice, module in programs.items()
            }
            found = _medians(opened)
        for choice, seconds in found.items():
            LOGGER.info(
                "offload: %d regions kept, measured %.6f ms", len(choice.kept), seconds * 1e3
            )
        return found

    def _compiled(self, work: Work, module: ir.Module) -> Executable:
        trial = replace(work, module=module, reached=[REGIONS], seconds={}, stats={}, known=None)
        run_stages(trial, self.stages, self.stages[-1].name)
        assert isinstance(trial.image, CpuImage)
        return load_program(trial.image, trial.binary, trial.objects, trial.stats)


def fastest(seconds: Mapping[Choice, float]) -> Choice:
    """Return the fastest program; of about equal ones, that with the fewest regions."""
    limit = min(seconds.values()) * (1 + _NOISE)
    return min(
        (choice for choice, found in seconds.items() if found <= limit),
        key=lambda choice: (len(choice.kept), seconds[choice]),
    )


def _medians(programs: Mapping[Choice, Executable]) -> dict[Choice, float]:
    """Time all programs in the same stretch of time, in rounds of changing order."""
    shuffle = random.Random(0).shuffle
    order = list(programs)
    samples: dict[Choice, list[float]] = {choice: [] for choice in order}
    deadline = time.perf_counter() + _SECONDS
    for number in range(_MOST_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() > deadline:
            break
        shuffle(order)
        for choice in order:
            samples[choice] += _burst(programs[choice])
    return {choice: statistics.median(times) for choice, times in samples.items()}


def _burst(program: Executable) -> list[float]:
    feeds = random_feeds(program.signature, seed=0)
    program.run(feeds)
    stamps = [time.perf_counter()]
    for _ in range(_BURST):
        program.run(feeds)
        stamps.append(time.perf_counter())
    return [end - begin for begin, end in itertools.pairwise(stamps)]
