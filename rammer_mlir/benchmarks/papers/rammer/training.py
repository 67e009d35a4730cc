"""Simulate a training step of LSTM-TC on a V100 (RAMMER figure 21)."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.benchmarks.fusion.figure_21 import Figure21Request, measure_figure_21
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.errors import ScheduleError


@dataclass(frozen=True)
class Step:
    """A case: LSTM-TC at a size; "full" has the paper's batch of 256."""

    size: Size = "full"

    @property
    def key(self) -> str:
        """The case's name: the size."""
        return self.size


def measure(step: Step) -> Record:
    """Predict the milliseconds of a training step of LSTM-TC.

    The record has "base", with a launch for each operator; "sequential", with the same order in one
    launch; "wavefront", by the policy `wavefront`; and "operators", the number of rOperators.

    Raises:
        ScheduleError: if the step could not be scheduled.
    """
    found = measure_figure_21(Figure21Request(step.size, budget=0))
    if found.error is not None:
        raise ScheduleError(found.error)
    return {
        "operators": found.operators,
        "base": 1e3 * found.base,
        "sequential": 1e3 * found.sequential,
        "wavefront": 1e3 * found.wavefront,
    }


STUDY = Study("training", measure, cases=(Step("reduced"), Step("full")), quick=(Step("small"),))
