"""Chooses the operators to merge in each stage of IOS (IOS paper, algorithm 1, lines 23-33).

IOS divides a graph into stages by dynamic programming. A stage either runs its groups concurrently
or, where its operators can be merged, computes them as a single operator, whichever is predicted to
be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.ios_blocks import Sources
from rammer_mlir.scheduling.ios_dynamic_programming import Mask, Pruning
from rammer_mlir.scheduling.stage_search import StageSearch, Unit
from rammer_mlir.scheduling.stage_times import ConcurrentTimes, OperatorTimes

Merged = Callable[[Sequence[int]], Sequence[RKernel] | None]
"""A function from operators' indices to the rKernels of the operator that computes all of them.

The rKernels of copies that merging adds are included. The function returns None if the operators
may not be merged.
"""


@dataclass(frozen=True)
class MergeSearch:
    """The search for stages whose operators are faster when merged into a single operator.

    Attributes:
        kernels: each operator's rKernel, in a topological order; equal rKernels are one object.
        sources: the operators that each operator reads from.
        kinds: the kind of each operator. Operators of the same kind may be merged, and do not
            depend on each other. An operator of kind None is never merged.
        merged: called with the indices of several operators of the same kind; returns the rKernel
            of the merged operator, followed by the rKernels of the copies that merging adds; None
            if the operators may not be merged.
        device: the device that the stages are scheduled for.
        pruning: limits on the stages that are searched, as for the policy `ios`.
        max_transitions: maximum number of transitions of a block; smaller than for the policy
            `ios`, which searches the operators again.
    """

    kernels: Sequence[RKernel]
    sources: Sources
    kinds: Sequence[object]
    merged: Merged
    device: Device
    pruning: Pruning = field(default_factory=Pruning)
    max_transitions: int = 50_000

    def groups(self) -> list[list[int]]:
        """Return the sets of operators that are faster when merged, as indices of operators.

        Each set is a stage of the best schedule that the search finds.
        """
        # A merged operator's rKernel depends on more than its operators' rKernels: treat all as
        # distinct.
        alike = range(len(self.kernels))
        limit = self.max_transitions
        search = StageSearch(
            self.sources,
            alike,
            self._times,
            self.pruning,
            limit,
            joins_chains=False,
            is_worth=self._has_pairs,
        )
        stages = search.stages([[number] for number in range(len(self.kernels))])
        return [stage for stage in stages if self._is_faster_merged(stage)]

    def _has_pairs(self, units: Sequence[Sequence[int]]) -> bool:
        """Whether a block of units contains at least two operators of the same kind."""
        kinds = [self.kinds[number] for unit in units for number in unit]
        known = [kind for kind in kinds if kind is not None]
        return len(set(known)) < len(known)

    def _times(self, units: Sequence[Unit]) -> _MergedTimes:
        return _MergedTimes(
            ConcurrentTimes(units, self._operators), self.kinds, self.merged_seconds
        )

    @cached_property
    def _operators(self) -> OperatorTimes:
        return OperatorTimes(self.sources, self.kernels, self.device)

    def _is_faster_merged(self, stage: Sequence[int]) -> bool:
        together = self.merged_seconds(stage)
        if together is None:
            return False
        return together < self.device.barrier_seconds + self._operators.simulated(stage)

    def merged_seconds(self, operators: Sequence[int]) -> float | None:
        """Return the predicted seconds of the operator that merges ``operators``.

        Return None if ``operators`` may not be merged.
        """
        kinds = {self.kinds[number] for number in operators}
        if len(operators) < 2 or len(kinds) > 1 or None in kinds:
            return None
        kernels = self.merged(operators)
        if kernels is None:
            return None
        return sum(self.device.barrier_seconds + runtime(kernel, self.device) for kernel in kernels)


@dataclass(frozen=True)
class _MergedTimes:
    """The predicted times of stages whose operators run concurrently or merged into one operator.

    The time of a stage is the smaller of these two times. ``_known`` has the result of ``seconds``
    for the sets of units (masks) asked for so far.

    Attributes:
        concurrent: the times of stages without merging.
        kinds: the kind of each operator. Operators of the same kind may be merged; an operator of
            kind None is never merged.
        seconds: called with operators' indices; returns the seconds of the operator that merges
            these operators; None if they may not be merged.
    """

    concurrent: ConcurrentTimes
    kinds: Sequence[object]
    seconds: Callable[[Sequence[int]], float | None]
    _known: dict[Mask, float | None] = field(default_factory=dict[Mask, "float | None"])

    def group(self, units: Mask) -> tuple[float, float]:
        return self.concurrent.group(units)

    def bound(self, units: Mask, longest: float, work: float) -> float:
        return self._with_merged(units, self.concurrent.bound(units, longest, work))

    def stage(self, units: Mask) -> float:
        return self._with_merged(units, self.concurrent.stage(units))

    def least(self, unit: int) -> float:
        operators = self.concurrent.units[unit]
        if any(self.kinds[number] is not None for number in operators):
            return 0.0  # merged with other units it may add no time at all
        return self.concurrent.least(unit)

    def _with_merged(self, units: Mask, alone: float) -> float:
        if units not in self._known:
            self._known[units] = self.seconds(self.concurrent.operators(units))
        together = self._known[units]
        return alone if together is None else min(alone, together)
