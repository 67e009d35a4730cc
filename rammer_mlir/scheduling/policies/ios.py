"""The `ios` policy: stages of operators chosen by dynamic programming over endings (IOS)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from rammer_mlir.scheduling.assignment import earliest
from rammer_mlir.scheduling.builder import Context, ProgramBuilder, finish_plan
from rammer_mlir.scheduling.costs import fastest, rtask_seconds, runtime, work
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.endings import (
    EndingSearch,
    Mask,
    Pruning,
    SearchLimitError,
    Stages,
    groups,
    members,
)
from rammer_mlir.scheduling.graph import RKernel, TaskGraph
from rammer_mlir.scheduling.program import Plan


@dataclass(frozen=True)
class Ios:
    """Cut the graph into blocks, and each block into the stages of smallest predicted time.

    The groups of a stage run concurrently on all vEUs. Where computing a stage's operators as one
    is faster, ``rtask-merge-operators`` has merged them before (``ios_merging``). The stages give
    the order in which operators are placed; waits are per tile, not between whole stages. A block
    whose search needs more than ``max_transitions`` gets its operators by depth instead.
    """

    name: ClassVar[str] = "ios"

    pruning: Pruning = field(default_factory=Pruning)
    max_transitions: int = 20_000

    def schedule(self, graph: TaskGraph, device: Device) -> Plan:
        """Return one rProgram."""
        return place_stages(graph, device, self.stages(graph, device))

    def stages(self, graph: TaskGraph, device: Device) -> list[list[int]]:
        """Return the operators of each stage in the order of execution."""
        context = _fastest(graph, device)
        sources = [context.dependencies.producers(n) for n in range(len(graph.operators))]
        solved: dict[object, Stages] = {}
        found: list[list[int]] = []
        for first, end in blocks(sources):
            readers = readers_within(sources, first, end)
            kernels = [context.kernel(n) for n in range(first, end)]
            alike = tuple(kernels), tuple(readers)
            if alike not in solved:
                seconds = stage_seconds(kernels, readers, device)
                solved[alike] = self._stages(readers, seconds)
            found.extend([first + n for n in members(stage)] for stage in solved[alike])
        return found

    def _stages(self, readers: Sequence[Mask], seconds: Callable[[Mask], float]) -> Stages:
        search = EndingSearch(readers, seconds, self.pruning, self.max_transitions)
        try:
            return search.solve()[1]
        except SearchLimitError:
            return _by_depth(readers)


def blocks(sources: Sequence[Sequence[int]], longest: int = 32) -> list[tuple[int, int]]:
    """Cut operators in sequential order where a single one's result goes on, or a block gets long.

    Returns:
        First and last plus one of each block; what is inside reads no later block.
    """
    last_reader = list(range(len(sources)))
    for number, found in enumerate(sources):
        for source in found:
            last_reader[source] = number
    cuts = [0]
    reach = 0  # Last reader of everything before the current operator.
    for number in range(len(sources)):
        if reach <= number or number + 1 - cuts[-1] == longest:
            cuts.append(number + 1)
        reach = max(reach, last_reader[number])
    if cuts[-1] != len(sources):
        cuts.append(len(sources))
    return list(pairwise(cuts))


def stage_seconds(
    kernels: Sequence[RKernel], readers: Sequence[Mask], device: Device
) -> Callable[[Mask], float]:
    """Return the predicted time of a stage whose groups run concurrently.

    Its longest group, or its work spread over all vEUs, whichever is longer; and a barrier.
    """
    times = [runtime(kernel, device) for kernel in kernels]
    works = [work(kernel, device) / device.num_veus for kernel in kernels]

    def seconds(stage: Mask) -> float:
        longest = max(sum(times[n] for n in members(part)) for part in groups(readers, stage))
        return device.barrier_seconds + max(longest, sum(works[n] for n in members(stage)))

    return seconds


def readers_within(sources: Sequence[Sequence[int]], first: int, end: int) -> list[Mask]:
    """Return for each operator of a block the mask of those in the block that read its result."""
    readers = [0] * (end - first)
    for number in range(first, end):
        for source in sources[number]:
            if source >= first:
                readers[source - first] |= 1 << (number - first)
    return readers


def _by_depth(readers: Sequence[Mask]) -> Stages:
    depths = [0] * len(readers)
    for number, mask in enumerate(readers):
        for reader in members(mask):
            depths[reader] = max(depths[reader], depths[number] + 1)
    stages = [0] * (max(depths) + 1)
    for number, depth in enumerate(depths):
        stages[depth] |= 1 << number
    return tuple(stages)


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
