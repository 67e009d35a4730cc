"""Rules that decide whether two groups merge into one rOperator, asked while groups grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units
from rammer_mlir.passes.fusion.spaces import FusedSpace
from rammer_mlir.passes.ir.structured import shape_of

_SMALL_WORK = 200_000
"""Maximum scalar operations of a group that is fused although parallelism is lost.

For less work, the lost parallelism costs less than one more rOperator.
"""

_ENOUGH_TASKS = 64
"""The number of independent rTasks that keeps every vEU of a small device busy."""


@dataclass(frozen=True)
class Joined:
    """Two groups that may be merged.

    Attributes:
        parts: the facts about both groups.
        merged: the facts about the merged group.
        operations: the operations of the merged group.
        units: memoized facts about operations.
    """

    parts: Sequence[FusedSpace]
    merged: FusedSpace
    operations: Sequence[ir.OpView]
    units: Units

    @property
    def inputs(self) -> int:
        """The number of different tensors that the merged group reads; scalars do not count."""
        return sum(bool(shape_of(value)) for value in self.units.inputs(self.operations))


class Boundary(Protocol):
    """A rule for whether an operation joins the group of a producer of its operands."""

    gathers: ClassVar[bool]
    """Whether the rule lets an operation gather from values of its own group."""

    def admits(self, joined: Joined) -> bool:
        """Whether the rule merges the two groups ``joined``, which may legally be merged."""
        ...


@dataclass(frozen=True)
class Separate:
    """The rule of no fusion, the baseline for measuring the gain of fusion."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Return False for every pair of groups: groups are never merged."""
        del joined
        return False


@dataclass(frozen=True)
class Parallelism:
    """The rule that merges groups unless that loses parallelism that matters."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Whether merging loses no parallelism, or parallelism that does not matter.

        It matters for a contraction, or if fewer than ``_ENOUGH_TASKS`` rTasks remain of much work.
        """
        merged = joined.merged
        if merged.parallelism >= max(part.parallelism for part in joined.parts):
            return True
        if merged.contractions:
            return False
        return merged.parallelism >= _ENOUGH_TASKS or merged.work <= _SMALL_WORK


@dataclass(frozen=True)
class UniqueInputs:
    """The rule that merges groups up to ``most`` unique inputs of the merged group; 0 is no limit.

    This is F_max of Dali: an operation that would exceed the limit begins a new group as its leaf,
    and an operation that exceeds the limit alone forms a separate group.
    """

    most: int
    gathers: ClassVar[bool] = True

    def admits(self, joined: Joined) -> bool:
        """Whether the merged group reads at most ``most`` different tensors, or ``most`` is 0."""
        return not self.most or joined.inputs <= self.most
