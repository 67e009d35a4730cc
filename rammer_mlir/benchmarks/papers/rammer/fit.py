"""Fit the description ``v100_rammer``: ``python -m rammer_mlir.benchmarks.papers.rammer.fit``.

RAMMER's artifact (the data published with the paper) has the times of six models with Rammer, and
with a baseline that launches each operator. For the baseline, it also has the time in kernels
alone. The numbers of the device description that cannot be measured are fitted to the times of
three of the models, by least squares of the logarithms of predicted over published times. The other
three models validate the fit. The terms of the cost model, however, were chosen with knowledge of
all six models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from multiprocessing import get_context

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.papers.model_graphs import task_graph
from rammer_mlir.benchmarks.papers.rammer import paper_forms
from rammer_mlir.benchmarks.papers.rammer.gpu_runs import DEVICE, RAMMER, with_kernels
from rammer_mlir.benchmarks.papers.rammer.published import BASE_KERNELS, FIGURE_11
from rammer_mlir.scheduling.costs import fastest
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.devices.description import DeviceDescription
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.shared_bandwidth import simulate_sharing

FITTED = tuple(FIGURE_11)[::2]
CHECKED = tuple(FIGURE_11)[1::2]

NUMBERS = (
    "arithmetic_efficiency", "bandwidth_efficiency", "rtask_seconds", "queued_launch_seconds",
)  # fmt: skip
"""Names of the fitted numbers of the device description.

A barrier is assumed to cost as much as a queued launch: the published runs had launches in the
place of barriers.
"""

ROUNDS = 2
"""Number of rounds of the fit.

Each round makes plans for its initial description, and keeps the plans while it fits the numbers.
"""
FIRST_STEP, LAST_STEP = 0.3, 0.04
"""Largest and smallest step of the search, in the logarithm of a fitted number.

The step is halved when no number improves.
"""
MOST_ALIKE = {"arithmetic_efficiency": 1.0, "bandwidth_efficiency": 1.0}
"""Largest values of fitted numbers, by name; other numbers have no limit."""


@dataclass(frozen=True)
class Planned:
    """A model with two plans that stay fixed while a device description is fitted.

    The plans are not made again for each trial of the fit, because the fitted numbers change the
    times of a plan more than they change which plan the policy chooses.

    Attributes:
        name: name of the model.
        graph: task graph of the model.
        base: plan with a launch for each operator.
        rammer: plan of the policy ``RAMMER``.
    """

    name: str
    graph: TaskGraph
    base: Plan
    rammer: Plan

    def predicted(self, description: DeviceDescription) -> tuple[float, float, float]:
        """Return three predicted times of the model on a device, in milliseconds.

        The times are: the time of ``base`` in kernels, the time of ``base`` including launches, and
        the time of ``rammer``.
        """
        device = description.device()
        programs = self.base.programs
        launches = sum(device.start_seconds(number) for number in range(len(programs)))
        # Operators of an rKernel take equally long, so only the first is simulated.
        alike: dict[int, list[int]] = {}
        for number, operator in enumerate(self.graph.operators):
            kernel = operator.kernels[self.base.kernels[number]]
            alike.setdefault(id(kernel), []).append(number)
        base = 0.0
        for first, *others in alike.values():
            alone = replace(self.base, programs=(programs[first],))
            # The launch's share is added from ``launches``, which knows about queued launches.
            seconds = simulate_sharing(self.graph, alone, device).seconds - device.launch_seconds
            base += (1 + len(others)) * seconds
        whole = simulate_sharing(self.graph, self.rammer, device).seconds
        return 1e3 * base, 1e3 * (base + launches), 1e3 * whole


def published(name: str) -> tuple[float, float, float]:
    """Return three times of a model from RAMMER's artifact, in milliseconds.

    The artifact is the data published with the paper. The times are: the baseline's time in
    kernels, the baseline's time including launches, and Rammer's time.
    """
    return BASE_KERNELS[name], FIGURE_11[name]["base"], FIGURE_11[name]["Rammer"]


def distance(predicted: Sequence[float], expected: Sequence[float]) -> float:
    """Return the sum of ``log(predicted / expected) ** 2`` over pairs of times."""
    return sum(log(a / b) ** 2 for a, b in zip(predicted, expected, strict=True))


def descend(
    cost: Callable[[Mapping[str, float]], float], start: Mapping[str, float]
) -> dict[str, float]:
    """Minimize ``cost`` by coordinate descent; return the best numbers, keyed by name.

    ``cost`` takes numbers keyed by name. The descent begins at ``start``; each trial changes a
    single number.
    """
    best, least, step = dict(start), cost(start), FIRST_STEP
    while step >= LAST_STEP:
        improved = False
        for name in best:
            for factor in (exp(step), exp(-step)):
                # The cap keeps an efficiency at most 1.
                value = min(best[name] * factor, MOST_ALIKE.get(name, best[name] * factor))
                found = cost({**best, name: value})
                if found < least:
                    best[name], least, improved = value, found, True
        step = step if improved else step / 2
    return best


def with_figures(start: DeviceDescription, figures: Mapping[str, float]) -> DeviceDescription:
    """Return a copy of ``start`` with the fitted numbers ``figures`` as values of its fields.

    ``figures`` maps the names of the fields in ``NUMBERS`` to values. The cost of a barrier is not
    fitted; it is set to the cost of a queued launch.
    """
    barrier = figures["queued_launch_seconds"]
    return replace(start, barrier_seconds=barrier, **figures)  # pyright: ignore[reportArgumentType]


def _graph(name: str) -> TaskGraph:
    return task_graph(paper_forms.build(name, 1, "full"), DEVICE)


def planned(name: str, graph: TaskGraph, description: DeviceDescription) -> Planned:
    """Return the model ``name`` with its two plans for a device.

    The plan ``base`` launches each operator separately; the policy ``RAMMER`` makes the plan
    ``rammer``. The module ``gpu_runs`` makes the same plans.
    """
    device = description.device()
    kernels = [fastest(operator, device) for operator in graph.operators]
    offered = with_kernels(graph, kernels)
    one_at_a_time = one_by_one(offered, Sequential().schedule(offered, device), device)
    base = replace(one_at_a_time, kernels=tuple(kernels))
    return Planned(name, graph, base, RAMMER.schedule(graph, device))


def fit(graphs: Mapping[str, TaskGraph], start: DeviceDescription) -> DeviceDescription:
    """Fit the fields ``NUMBERS`` of ``start`` to published times of models; return the result.

    ``graphs`` maps the names of the models to their task graphs.
    """
    description = start
    for number in range(ROUNDS):
        models = [planned(name, graph, description) for name, graph in graphs.items()]

        def cost(figures: Mapping[str, float], models: Sequence[Planned] = models) -> float:
            tried = with_figures(start, figures)
            return sum(distance(one.predicted(tried), published(one.name)) for one in models)

        figures = {name: float(getattr(description, name)) for name in NUMBERS}
        found = descend(cost, figures)
        description = with_figures(start, found)
        # Three times per model: kernels, base and Rammer.
        mean = exp(sqrt(cost(found) / (3 * len(models))))
        text = ", ".join(f"{name} = {value:.4g}" for name, value in found.items())
        print(f"round {number + 1}: {text}; mean factor {mean:.2f}", flush=True)
    return description


@one_line_errors
def main() -> int:
    """Fit the description; print predicted and published times of all six models; return 0."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        graphs = dict(zip(FIGURE_11, pool.map(_graph, FIGURE_11), strict=True))
    description = fit({name: graphs[name] for name in FITTED}, find_device(DEVICE))
    for name in (*FITTED, *CHECKED):
        found = planned(name, graphs[name], description).predicted(description)
        cells = (
            f"{a:.2f} of {b:.2f} ({a / b - 1:+.0%})"
            for a, b in zip(found, published(name), strict=True)
        )
        print(f"{'fitted' if name in FITTED else 'checked'}: {name}: {', '.join(cells)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
