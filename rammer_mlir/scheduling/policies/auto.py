"""The `auto` policy: tries several policies and chooses the plan of smallest predicted time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import ClassVar

from rammer_mlir.errors import OptionError, RammerError
from rammer_mlir.scheduling.caches import SharedConstants
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.policies.checked import PolicyError, checked_plan
from rammer_mlir.scheduling.policies.list_scheduling import ListScheduling
from rammer_mlir.scheduling.policies.policy import Policy, keeps_homes
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.simulator import with_prediction


@dataclass(frozen=True)
class Auto:
    """Try several policies, cheap policies first, and keep the plan of smallest predicted time.

    If operators of the graph have homes (vEUs that should run them), only policies that keep homes
    are tried.

    Attributes:
        budget_seconds: seconds after which no other policy is started; `wavefront` always runs.
            With an executor, plans that are not finished by then are not used.
        max_list_rtasks: maximum count of rTasks of a graph on which `list` is tried. The time of
            `list` grows with this count, because it places each rTask individually.
        executor: runs the policies in parallel: threads, processes, or a cluster (Dask's
            ``client.get_executor()``); None runs them sequentially in this thread. Among plans with
            equal times the first policy wins, so within the budget the result does not depend on
            the executor.
        further: a function without arguments that returns additional policies, which are tried
            after the built-in policies.
    """

    name: ClassVar[str] = "auto"
    keeps_homes: ClassVar[bool] = True

    budget_seconds: float = 60.0
    max_list_rtasks: int = 50_000
    executor: Executor | None = None
    further: Callable[[], Sequence[Policy]] = field(default=tuple, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the budget is positive.

        Raises:
            OptionError: if the budget is not a positive number of seconds.
        """
        if not self.budget_seconds > 0:
            raise OptionError(
                f"search budget: expected more than 0 seconds, found {self.budget_seconds}"
            )

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return the plan of smallest predicted time among those found within the budget.

        Raises:
            PolicyError: if a policy fails.
        """
        deadline = time.monotonic() + self.budget_seconds
        rtasks = sum(max(k.num_rtasks for k in o.kernels) for o in graph.operators)
        listing = [ListScheduling()] if rtasks <= self.max_list_rtasks else []
        policies: list[Policy] = [Sequential(), *listing, *self.further()]
        if any(operator.home is not None for operator in graph.operators):
            # Predicted times do not account for the traffic between caches that homes avoid.
            policies = [policy for policy in policies if keeps_homes(policy)]
        if self.executor is None:
            others = _one_by_one(policies, graph, device, deadline)
            return _best([Wavefront().schedule(graph, device), *others], graph, device)
        futures = [self.executor.submit(_plan, p, graph, device) for p in policies]
        # Run the first policy here while the executor works on the others.
        first = Wavefront().schedule(graph, device)
        return _best([first, *_finished(futures, deadline)], graph, device)


def _plan(policy: Policy, graph: TaskGraph, device: Device) -> Plan:
    """Return the plan of a policy.

    Raises:
        PolicyError: if the policy fails.
    """
    try:
        return checked_plan(policy, graph, device)
    except PolicyError:
        raise
    except RammerError as error:
        raise PolicyError(f"policy '{policy.name}': {error}") from error


def _one_by_one(
    policies: Sequence[Policy],
    graph: TaskGraph,
    device: Device,
    deadline: float,
) -> Iterator[Plan]:
    for policy in policies:
        if time.monotonic() < deadline:
            yield _plan(policy, graph, device)


def _finished(futures: Sequence[Future[Plan]], deadline: float) -> Iterator[Plan]:
    """Yield the plans of futures that finish before the deadline, in the order of ``futures``.

    ``deadline`` is a time of ``time.monotonic()`` in seconds. Futures that have not started by the
    deadline are canceled.
    """
    for future in futures:
        try:
            yield future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            future.cancel()


def _best(plans: Sequence[Plan], graph: TaskGraph, device: Device) -> Plan:
    shared = SharedConstants(graph, device)
    predicted = (with_prediction(graph, plan, device, shared) for plan in plans)
    return min(predicted, key=lambda plan: plan.predicted_seconds)
