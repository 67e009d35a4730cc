"""The `ios` policy: chooses stages of operators by dynamic programming over endings (IOS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.assignment import earliest
from rammer_mlir.scheduling.builder import Context, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.costs import fastest, rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.ios_blocks import (
    Sources,
    chain_units,
    cut_at_single_values,
    fill_units,
    unit_sources,
)
from rammer_mlir.scheduling.ios_dynamic_programming import Pruning
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.stage_barriers import with_stage_barriers
from rammer_mlir.scheduling.stage_search import SearchCounts, Stage, StageSearch, Unit
from rammer_mlir.scheduling.stage_times import ConcurrentTimes, OperatorTimes

Units = Literal["operators", "chains"]
Barriers = Literal["tile", "stage"]


@dataclass(frozen=True)
class Ios:
    """Cut the graph into blocks, and each block into stages of smallest predicted total time.

    The graph is cut into blocks at points where a single value is live. A stage consists of groups
    that run concurrently on all vEUs; a group is a connected set of units, which are the smallest
    sets of operators that the search places. The paper's alternative for a stage, to merge its
    operators into a single operator, is decided earlier by ``rtask-merge-operators``
    (``ios_merging``).

    Attributes:
        group_size: maximum number of units of a group (the paper's r).
        num_groups: maximum number of groups of a stage (the paper's s).
        units: ``operators``: a unit is an operator with the operators that write its padding;
            ``chains``: a unit is a chain of operators whose results have a single reader. If the
            bound on the transitions of a block exceeds ``max_transitions``, its units are always
            chains.
        max_transitions: maximum number of transitions in the dynamic programming of a block. A
            transition is a pair of a set of units and a subset that is the last stage of the set. A
            block that needs more is cut where the fewest values are live.
        barriers: ``tile``: stages only order the placement of operators, waits are per tile;
            ``stage``: all rTasks of a stage wait for all rTasks of the previous stage, as in the
            paper.

    Raises:
        OptionError: if a number is below 1, or a word is not one of the listed values.
    """

    name: ClassVar[str] = "ios"

    group_size: int = 3
    num_groups: int = 8
    units: Units = "operators"
    max_transitions: int = 400_000
    barriers: Barriers = "tile"

    def __post_init__(self) -> None:
        """Check that the numeric options are at least 1.

        Raises:
            OptionError: if a number is below 1.
        """
        for name in ("group_size", "num_groups", "max_transitions"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise OptionError(
                    f"ios: {option}: expected at least 1, found {getattr(self, name)}"
                )

    @property
    def pruning(self) -> Pruning:
        """The maximum number of units of a group, and of groups of a stage, in the search."""
        return Pruning(self.group_size, self.num_groups)

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return a plan in which operators are placed stage by stage."""
        stages, counts = self.search(graph, device)
        plan = place_stages(graph, device, stages, self.barriers)
        note = f"ios: {counts.words()}; {len(stages)} stages"
        return replace(plan, notes=(*plan.notes, note))

    def stages(self, graph: TaskGraph, device: Device) -> list[Stage]:
        """Return the operators of each stage, by index, in the order of execution."""
        return self.search(graph, device)[0]

    def search(self, graph: TaskGraph, device: Device) -> tuple[list[Stage], SearchCounts]:
        """Return the operators of each stage, in order of execution, and the counts of the search.

        The search counts blocks, states (sets of units whose best schedule was computed) and
        transitions (pairs of a state and a subset that is its last stage).
        """
        context = _fastest(graph, device)
        kernels = [context.kernel(n) for n in range(len(graph.operators))]
        sources, units = self._units(context)
        operator_times = OperatorTimes(sources, kernels, device)

        def times(units: Sequence[Unit]) -> ConcurrentTimes:
            return ConcurrentTimes(units, operator_times)

        search = StageSearch(sources, kernels, times, self.pruning, self.max_transitions)
        return search.stages(units), search.counts

    def blocks(self, graph: TaskGraph, device: Device) -> list[list[int]]:
        """Return for each block of the graph the indices of its operators.

        The graph is cut into blocks where a single value is live.
        """
        sources, units = self._units(_fastest(graph, device))
        return [
            [n for unit in units[first:end] for n in unit]
            for first, end in cut_at_single_values(unit_sources(sources, units))
        ]

    def _units(self, context: Context) -> tuple[Sources, list[list[int]]]:
        """Return the operators that each operator depends on, and the operators of each unit.

        Operators are given by index. A unit is a set of operators that is placed as a whole.
        """
        operators = range(len(context.graph.operators))
        sources = [context.dependencies.producers(n) for n in operators]
        # An operator that waits for others, for its memory, is not placed with its readers.
        fills = [n for n in operators if not context.kernel(n).reads and not sources[n]]
        units = fill_units(sources, fills)
        return sources, chain_units(sources, units) if self.units == "chains" else units


def place_stages(
    graph: TaskGraph,
    device: Device,
    stages: Sequence[Sequence[int]],
    barriers: Barriers = "tile",
) -> Plan:
    """Return a plan in which stages are placed in order, each operator with its fastest rKernel.

    Args:
        graph: the rOperators to place.
        device: the device whose vEUs and costs are used.
        stages: operators of each stage, as ``Ios.stages`` returns them. The stages may have been
            computed for another device or another batch size of the same network.
        barriers: ``tile``: rTasks wait for the rTasks that they read from; ``stage``: rTasks wait
            for all rTasks of earlier stages.
    """
    context = _fastest(graph, device)
    builders = [ProgramBuilder(context)]
    for position, stage in enumerate(stages):
        if position and barriers == "stage":  # a barrier between stages frees all vEUs at once
            builders.append(ProgramBuilder(context))
        for number in stage:
            needs = builders[-1].needs(number)
            seconds = rtask_seconds(context.kernel(number), device)
            veus = earliest(needs, builders[-1].available, seconds, device.barrier_seconds)
            builders[-1].append(number, veus, needs)
    programs, predicted, requested = finish_plan(builders)
    plan = Plan(programs, tuple(context.kernels), predicted, requested)
    return plan if barriers == "tile" else with_stage_barriers(graph, plan, device, stages)


def _fastest(graph: TaskGraph, device: Device) -> Context:
    context = Context(graph, device)
    context.kernels = [fastest(operator, device) for operator in graph.operators]
    return context
