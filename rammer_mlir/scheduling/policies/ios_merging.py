"""Which operators to merge: a choice for each stage of IOS's dynamic programming (IOS, L23-L33).

A stage runs its groups concurrently, or computes all its operators as one where they can be merged,
whichever is predicted to be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.endings import EndingSearch, Mask, Pruning, SearchLimitError, members
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.policies.ios import blocks, readers_within, stage_seconds

Merged = Callable[[Sequence[int]], Sequence[RKernel] | None]
"""The rKernels of operators computed as one, and of copies behind it; None if they cannot be."""


@dataclass(frozen=True)
class MergeSearch:
    """Find the stages of a graph that are faster merged.

    Attributes:
        kernels: each operator's rKernel, in a valid sequential order; equal ones are one object.
        sources: the operators that each one reads from.
        kinds: for each operator a value that is equal for operators that may be merged, and None
            for those that cannot.
        merged: what several operators of one kind become.
        device: what the stages are for.
        pruning, max_transitions: as for the policy `ios`; in a block whose search needs more
            transitions, nothing is merged.
    """

    kernels: Sequence[RKernel]
    sources: Sequence[Sequence[int]]
    kinds: Sequence[object]
    merged: Merged
    device: Device
    pruning: Pruning = field(default_factory=Pruning)
    max_transitions: int = 20_000

    def groups(self) -> list[list[int]]:
        """Return the operators of each stage to merge."""
        found: list[list[int]] = []
        for first, end in blocks(self.sources):
            kinds = [kind for kind in self.kinds[first:end] if kind is not None]
            if len(set(kinds)) < len(kinds):  # otherwise there is nothing to merge
                found.extend(self._of_block(first, end))
        return found

    def _of_block(self, first: int, end: int) -> list[list[int]]:
        readers = readers_within(self.sources, first, end)
        concurrent = stage_seconds(self.kernels[first:end], readers, self.device)
        as_one: dict[Mask, float | None] = {}

        def merged(stage: Mask) -> float | None:
            if stage not in as_one:
                as_one[stage] = self._merged_seconds([first + n for n in members(stage)])
            return as_one[stage]

        def seconds(stage: Mask) -> float:
            alone, together = concurrent(stage), merged(stage)
            return alone if together is None else min(alone, together)

        search = EndingSearch(readers, seconds, self.pruning, self.max_transitions)
        try:
            stages = search.solve()[1]
        except SearchLimitError:
            return []
        return [
            [first + n for n in members(stage)]
            for stage in stages
            if (together := merged(stage)) is not None and together < concurrent(stage)
        ]

    def _merged_seconds(self, operators: Sequence[int]) -> float | None:
        kinds = {self.kinds[number] for number in operators}
        if len(operators) < 2 or len(kinds) > 1 or None in kinds:
            return None
        kernels = self.merged(operators)
        if kernels is None:
            return None
        return sum(self.device.barrier_seconds + runtime(kernel, self.device) for kernel in kernels)
