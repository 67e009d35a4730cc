"""Which operators to merge: a choice for each stage of IOS's dynamic programming (IOS, L23-L33).

A stage runs its groups concurrently, or computes all its operators as one where they can be merged,
whichever is predicted to be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rammer_mlir.scheduling.blocks import Sources
from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.endings import Mask, Pruning, members
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.policies.ios import ConcurrentTimes, Ios
from rammer_mlir.scheduling.stage_search import StageSearch, Unit

Merged = Callable[[Sequence[int]], Sequence[RKernel] | None]
"""The rKernels of operators computed as one, and of copies behind it; None if they cannot be."""


@dataclass(frozen=True)
class MergeSearch:
    """Find the stages of a graph that are faster merged.

    Attributes:
        kernels: each operator's rKernel, in a valid sequential order; equal ones are one object.
        sources: the operators that each one reads from.
        kinds: for each operator a value that is equal for operators that may be merged, and None
            for those that cannot; operators of a kind do not depend on each other.
        merged: what several operators of one kind become.
        device: what the stages are for.
        pruning, max_transitions: as for the policy `ios`.
    """

    kernels: Sequence[RKernel]
    sources: Sources
    kinds: Sequence[object]
    merged: Merged
    device: Device
    pruning: Pruning = field(default_factory=Pruning)
    max_transitions: int = Ios.max_transitions

    def groups(self) -> list[list[int]]:
        """Return the operators of each stage to merge."""
        # The rKernels of merged operators depend on more than these rKernels: no two are alike.
        alike = range(len(self.kernels))
        limit = self.max_transitions
        search = StageSearch(
            self.sources, alike, self._times, self.pruning, limit, joins_chains=False
        )
        stages = search.stages([[number] for number in range(len(self.kernels))])
        return [stage for stage in stages if self._is_faster_merged(stage)]

    def _times(self, units: Sequence[Unit], _: Sequence[Mask]) -> _MergedTimes:
        operators = [number for unit in units for number in unit]
        concurrent = ConcurrentTimes.of([[self.kernels[n]] for n in operators], self.device)
        return _MergedTimes(concurrent, operators, self.merged_seconds)

    def _is_faster_merged(self, stage: Sequence[int]) -> bool:
        together = self.merged_seconds(stage)
        if together is None:
            return False
        # Operators of a kind are independent: each is a group.
        times = ConcurrentTimes.of([[self.kernels[n]] for n in stage], self.device)
        return together < times.stage(0, max(times.alone), sum(times.work))

    def merged_seconds(self, operators: Sequence[int]) -> float | None:
        """Return the time of operators computed as one, None if they cannot be."""
        kinds = {self.kinds[number] for number in operators}
        if len(operators) < 2 or len(kinds) > 1 or None in kinds:
            return None
        kernels = self.merged(operators)
        if kernels is None:
            return None
        return sum(self.device.barrier_seconds + runtime(kernel, self.device) for kernel in kernels)


@dataclass(frozen=True)
class _MergedTimes:
    """Times of stages whose operators run concurrently, or as one where that is faster."""

    concurrent: ConcurrentTimes
    operators: Sequence[int]
    seconds: Callable[[Sequence[int]], float | None]
    _known: dict[Mask, float | None] = field(default_factory=dict[Mask, "float | None"])

    def group(self, units: Mask) -> tuple[float, float]:
        return self.concurrent.group(units)

    def stage(self, units: Mask, longest: float, work: float) -> float:
        alone = self.concurrent.stage(units, longest, work)
        if units not in self._known:
            self._known[units] = self.seconds([self.operators[n] for n in members(units)])
        together = self._known[units]
        return alone if together is None else min(alone, together)
