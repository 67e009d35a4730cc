"""Rules for the end of an rOperator, applied per operation while groups grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units
from rammer_mlir.passes.fusion.spaces import FusedSpace
from rammer_mlir.passes.ir.structured import shape_of

_SMALL_WORK = 200_000
"""Fuse despite lost parallelism up to this many scalar operations.

Below this, the lost parallelism costs less than one more rOperator.
"""

_ENOUGH_TASKS = 64
"""Independent tasks that keep every vEU of a small device busy."""


@dataclass(frozen=True)
class Joined:
    """The merger of two groups, and the facts about all three."""

    parts: Sequence[FusedSpace]
    merged: FusedSpace
    operations: Sequence[ir.OpView]
    units: Units

    @property
    def inputs(self) -> int:
        """The number of different arrays that the group reads; scalars do not count."""
        return sum(bool(shape_of(value)) for value in self.units.inputs(self.operations))


class Boundary(Protocol):
    """A rule for whether an operation joins the group of a producer."""

    gathers: ClassVar[bool]
    """Whether an operation may gather from values of its own group."""

    def admits(self, joined: Joined) -> bool:
        """Whether to merge two groups whose merger is legal."""
        ...


@dataclass(frozen=True)
class Separate:
    """No fusion: the baseline for measuring the gain of fusion."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Return False: never merge two groups."""
        del joined
        return False


@dataclass(frozen=True)
class Parallelism:
    """Fuse unless that loses parallelism that matters."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Whether the merged group is as parallel as both parts, or the loss is small."""
        merged = joined.merged
        if merged.parallelism >= max(part.parallelism for part in joined.parts):
            return True
        if merged.contractions:
            return False
        return merged.parallelism >= _ENOUGH_TASKS or merged.work <= _SMALL_WORK


@dataclass(frozen=True)
class UniqueInputs:
    """Fuse while a group has at most ``most`` unique inputs; 0 means no limit.

    This is F_max of Dali: an operation that would exceed the limit begins a new group as its leaf,
    and an operation that exceeds the limit alone forms a separate group.
    """

    most: int
    gathers: ClassVar[bool] = True

    def admits(self, joined: Joined) -> bool:
        """Whether the merged group reads at most ``most`` different tensors; 0 is no limit."""
        return not self.most or joined.inputs <= self.most
