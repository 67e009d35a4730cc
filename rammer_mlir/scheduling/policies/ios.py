"""The `ios` policy: stages of operators chosen by dynamic programming over endings (IOS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.assignment import earliest
from rammer_mlir.scheduling.blocks import chain_units, fill_units
from rammer_mlir.scheduling.builder import Context, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.costs import fastest, rtask_seconds, runtime
from rammer_mlir.scheduling.costs import work as work_of
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.endings import Mask, Pruning, members
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.stage_barriers import with_stage_barriers
from rammer_mlir.scheduling.stage_search import SearchCounts, Stage, StageSearch, Unit

Units = Literal["operators", "chains"]


@dataclass(frozen=True)
class Ios:
    """Cut the graph into blocks, and each block into the stages of smallest predicted time.

    The groups of a stage run concurrently on all vEUs. Where computing a stage's operators as one
    is faster, ``rtask-merge-operators`` has merged them before (``ios_merging``).

    Attributes:
        group_size: most units of a group (the paper's r).
        num_groups: most groups of a stage (the paper's s).
        units: what is placed as a whole: an operator, with those that fill borders for it, or a
            chain of operators whose results have one reader each. Blocks whose bound on the
            transitions is above ``max_transitions`` get chains in any case.
        max_transitions: most of a block; one that needs more is cut where the fewest values go on.
        barriers: ``tile``, stages give the order in which operators are placed, waits are per tile;
            ``stage``, everything waits for all of the stage before, as in the paper.

    Raises:
        OptionError: if a number is below 1, or a word is none of these.
    """

    name: ClassVar[str] = "ios"

    group_size: int = 3
    num_groups: int = 8
    units: Units = "operators"
    max_transitions: int = 1_000_000
    barriers: Literal["tile", "stage"] = "tile"

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("group_size", "num_groups", "max_transitions"):
            if getattr(self, name) < 1:
                option = name.replace("_", "-")
                raise OptionError(
                    f"ios: {option}: expected at least 1, found {getattr(self, name)}"
                )

    @property
    def pruning(self) -> Pruning:
        """What the search leaves out."""
        return Pruning(self.group_size, self.num_groups)

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return one rProgram."""
        stages, counts = self.search(graph, device)
        plan = place_stages(graph, device, stages)
        if self.barriers == "stage":
            plan = with_stage_barriers(graph, plan, device, stages)
        note = f"ios: {counts.words()}; {len(stages)} stages"
        return replace(plan, notes=(*plan.notes, note))

    def stages(self, graph: TaskGraph, device: Device) -> list[Stage]:
        """Return the operators of each stage in the order of execution."""
        return self.search(graph, device)[0]

    def search(self, graph: TaskGraph, device: Device) -> tuple[list[Stage], SearchCounts]:
        """Return the operators of each stage in the order of execution, and what was looked at."""
        context = _fastest(graph, device)
        sources = [context.dependencies.producers(n) for n in range(len(graph.operators))]
        kernels = [context.kernel(n) for n in range(len(graph.operators))]

        def times(units: Sequence[Unit], _: Sequence[Mask]) -> ConcurrentTimes:
            return ConcurrentTimes.of([[kernels[n] for n in unit] for unit in units], device)

        units = fill_units(sources, [n for n, kernel in enumerate(kernels) if not kernel.reads])
        if self.units == "chains":
            units = chain_units(sources, units)
        search = StageSearch(sources, kernels, times, self.pruning, self.max_transitions)
        return search.stages(units), search.counts


@dataclass(frozen=True)
class ConcurrentTimes:
    """Predicted times of stages whose groups run concurrently.

    A stage takes as long as its longest group, or as its work spread over all vEUs, whichever is
    longer; and a barrier.

    Attributes:
        alone: the time of each unit, in seconds.
        work: of its rTasks, spread over all vEUs.
        barrier: of a barrier.
    """

    alone: Sequence[float]
    work: Sequence[float]
    barrier: float

    @classmethod
    def of(cls, units: Sequence[Sequence[RKernel]], device: Device) -> ConcurrentTimes:
        """Return the times of units of rKernels on a device."""
        return cls(
            [sum(runtime(kernel, device) for kernel in unit) for unit in units],
            [sum(work_of(kernel, device) for kernel in unit) / device.num_veus for unit in units],
            device.barrier_seconds,
        )

    def group(self, units: Mask) -> tuple[float, float]:
        """Return the time of a group alone, and of its work spread over all vEUs."""
        numbers = members(units)
        return sum(self.alone[n] for n in numbers), sum(self.work[n] for n in numbers)

    def stage(self, units: Mask, longest: float, work: float) -> float:
        """Return a stage's time."""
        del units
        return self.barrier + max(longest, work)


def place_stages(graph: TaskGraph, device: Device, stages: Sequence[Sequence[int]]) -> Plan:
    """Place stages one after the other, every operator with its fastest rKernel.

    Args:
        graph: the graph.
        device: the device.
        stages: operators of each stage, as ``Ios.stages`` returns them, perhaps for another device
            or for another batch size of the same network.
    """
    context = _fastest(graph, device)
    builder = ProgramBuilder(context)
    for number in (n for stage in stages for n in stage):
        needs = builder.needs(number)
        seconds = rtask_seconds(context.kernel(number), device)
        veus = earliest(needs, builder.available, seconds, device.barrier_seconds)
        builder.append(number, veus, needs)
    programs, predicted, requested = finish_plan([builder])
    return Plan(programs, tuple(context.kernels), predicted, requested)


def _fastest(graph: TaskGraph, device: Device) -> Context:
    context = Context(graph, device)
    context.kernels = [fastest(operator, device) for operator in graph.operators]
    return context
