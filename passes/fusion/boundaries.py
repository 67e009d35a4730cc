"""Defines fusion boundaries: rules that decide whether two groups merge into one rOperator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units
from rammer_mlir.passes.fusion.spaces import FusedSpace
from rammer_mlir.passes.ir.structured import shape_of

_SMALL_WORK = 200_000
"""Maximum scalar operations of a merged group that has less parallelism than its parts.

For less work, the lost parallelism costs less time than one more rOperator.
"""

ENOUGH_TASKS = 64
"""The number of independent rTasks that keeps every vEU of a small device busy."""


@dataclass(frozen=True)
class Joined:
    """Two groups of operations that may legally be merged; a boundary decides on the merge.

    Attributes:
        parts: the parallelism and work of each of the two groups.
        merged: the parallelism and work of the merged group.
        operations: the operations of the merged group.
        units: the cache of computed properties of operations, such as their operands.
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
    """A rule that decides whether to merge an operation with the group of an operand's producer.

    ``gathers`` tells whether an operation may gather from values that its own group computes.
    """

    gathers: ClassVar[bool]
    """Whether the rule lets an operation gather from values that its own group computes."""

    def admits(self, joined: Joined) -> bool:
        """Whether to merge the two groups ``joined``, which may legally be merged."""
        ...


@dataclass(frozen=True)
class Separate:
    """The rule that never merges groups, as a baseline to measure the gain of fusion."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Return False for every pair of groups: groups are never merged."""
        del joined
        return False


@dataclass(frozen=True)
class Parallelism:
    """The rule that merges two groups of operations if enough of their parallelism remains.

    ``enough`` is the least number of independent rTasks that keeps the device busy.
    """

    enough: int = ENOUGH_TASKS
    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Whether the merged group keeps enough independent rTasks.

        The result is True if merging loses no parallelism: the merged group has at least as many
        independent rTasks as each of its two parts. For a merged group without contractions, it is
        also True if the group has at least ``enough`` independent rTasks, or at most
        ``_SMALL_WORK`` scalar operations.
        """
        merged = joined.merged
        if merged.parallelism >= max(part.parallelism for part in joined.parts):
            return True
        if merged.contractions:
            return False
        return merged.parallelism >= self.enough or merged.work <= _SMALL_WORK


@dataclass(frozen=True)
class UniqueInputs:
    """The rule that merges groups if the merged group reads at most ``most`` different tensors.

    ``most`` is F_max of the Dali paper; 0 is no limit. An operation that would exceed the limit
    begins a new group, and an operation that exceeds the limit by itself is a separate group.
    """

    most: int
    gathers: ClassVar[bool] = True

    def admits(self, joined: Joined) -> bool:
        """Whether the merged group reads at most ``most`` different tensors, or ``most`` is 0."""
        return not self.most or joined.inputs <= self.most
