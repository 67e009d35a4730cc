"""Measure how operators' times vary between runs on this CPU (RAMMER figure 4)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import mean, pstdev

import rammer_mlir
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.benchmarks.papers.study import Record, Study
from rammer_mlir.benchmarks.prediction import operator_seconds

WARM_UP = 3
"""Untimed runs, which touch pages and caches for the first time."""


@dataclass(frozen=True)
class KernelTimes:
    """A case of the study: a model that is timed.

    ``runs`` is the number of timed runs.
    """

    model: str = "resnext29_16x64d"
    runs: int = 100
    scale: Scale = "full"

    @property
    def key(self) -> str:
        """The case's name in its study: the model, and the scale unless it is "full"."""
        return self.model if self.scale == "full" else f"{self.model}, {self.scale}"


def measure(request: KernelTimes) -> Record:
    """Time each operator of a model in several runs on one vEU.

    Returns:
        A record with these keys:

        - "runs": the number of timed runs.
        - "mean": for each operator, the mean of its times in milliseconds.
        - "deviation": for each operator, the standard deviation of its times in milliseconds.
        - "weighted": the sum of all deviations divided by the sum of all means.
    """
    model = build(request.model, 1, request.scale)
    feeds = random_feeds(model, seed=4)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with rammer_mlir.compile(model, num_veus=1, cache=False) as executable:
        for number in range(WARM_UP + request.runs):
            timeline = executable.record(feeds)
            if number >= WARM_UP:
                for operator, seconds in operator_seconds(timeline).items():
                    found[operator].append(1e3 * seconds)
    means = {operator: mean(times) for operator, times in found.items()}
    deviations = {operator: pstdev(times) for operator, times in found.items()}
    return {
        "runs": request.runs,
        "mean": list(means.values()),
        "deviation": list(deviations.values()),
        # The paper's measure: relative deviations, weighted by the operators' times.
        "weighted": sum(deviations.values()) / sum(means.values()),
    }


STUDY = Study(
    "kernel times",
    measure,
    cases=(KernelTimes(),),
    quick=(KernelTimes(runs=5, scale="small"),),
    is_timed=True,
)
