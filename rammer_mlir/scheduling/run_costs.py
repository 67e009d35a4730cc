"""Predicts times of a plan's rTasks: constant per operator, or by the contents of caches."""

from __future__ import annotations

from typing import Protocol

from rammer_mlir.scheduling.caches import Cache, SharedConstants
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.program import Plan, Run


class RunCosts(Protocol):
    """The interface of objects that predict the times of a plan's rTasks.

    The simulator calls ``of`` once for each run, in a possible order of execution.
    """

    def of(self, veu: int, run: Run) -> float:
        """Return the mean seconds of the rTasks of a run on vEU ``veu``."""
        ...


class ModelCosts:
    """The times of rTasks by the cost model, equal for all rTasks of an operator."""

    def __init__(self, graph: TaskGraph, plan: Plan, device: Device) -> None:
        """Predict for each operator the time of one rTask of the rKernel that the plan chose."""
        self._seconds = [
            rtask_seconds(operator.kernels[kernel], device)
            for operator, kernel in zip(graph.operators, plan.kernels, strict=True)
        ]

    def of(self, veu: int, run: Run) -> float:
        """Return the mean seconds of the rTasks of a run on vEU ``veu``."""
        return self._seconds[run.operator]


class SharedConstantCosts:
    """The times of rTasks, by the shared constants that each vEU's simulated cache contains.

    A shared constant is a constant that several operators read, such as a weight. A vEU's cache
    contains shared constants that earlier rTasks on the same vEU read.
    """

    def __init__(self, plan: Plan, device: Device, shared: SharedConstants) -> None:
        """Begin with empty caches.

        ``shared`` has the cost of each rTask with and without its shared constants in the cache.
        """
        self._kernels = plan.kernels
        self._shared = shared
        self._caches = [Cache(shared, device.cache_bytes) for _ in range(device.num_veus)]

    def of(self, veu: int, run: Run) -> float:
        """Return the mean seconds of the rTasks of a run on vEU ``veu``.

        The call also puts the shared constants that these rTasks read into the simulated cache of
        the vEU.
        """
        cache, total = self._caches[veu], 0.0
        costs = self._shared.costs(run.operator, self._kernels[run.operator])
        for cost in costs[run.first : run.first + run.count]:
            total += cost.hot + cache.missing(cost)
            cache.use(cost)
        return total / run.count
