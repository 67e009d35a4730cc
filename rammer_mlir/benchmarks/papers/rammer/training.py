"""Predict the time of a training step of the model LSTM-TC on a V100 (RAMMER figure 21).

LSTM-TC is the text classifier of the RAMMER paper, a stack of LSTM layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.benchmarks.fusion.figure_21 import Figure21Request, measure_figure_21
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.errors import ScheduleError


@dataclass(frozen=True)
class Step:
    """A case of the study: a training step of LSTM-TC with the sizes of ``size``.

    With "full", the batch size is 256, as in the paper.
    """

    size: Size = "full"

    @property
    def key(self) -> str:
        """The case's name: the size."""
        return self.size


def measure(step: Step) -> Record:
    """Predict the time of a training step of LSTM-TC.

    Returns:
        A record with these keys:

        - "operators": the number of rOperators.
        - "base": milliseconds with a launch for each operator.
        - "sequential": milliseconds with the same order of operators in one launch.
        - "wavefront": milliseconds with one launch that the policy `wavefront` schedules.

    Raises:
        ScheduleError: if the training step could not be scheduled.
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
