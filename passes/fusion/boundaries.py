"""Where an rOperator ends, decided operation by operation while groups grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import Units
from rammer_mlir.passes.fusion.spaces import FusedSpace
from rammer_mlir.passes.ir.structured import shape_of

_SMALL_WORK = 200_000
"""Scalar operations below which losing parallelism costs less than one more rOperator."""

_ENOUGH_TASKS = 64
"""Independent pieces that keep every vEU of a small device busy."""


@dataclass(frozen=True)
class Joined:
    """A group that two groups would become, and the facts about all three."""

    parts: Sequence[FusedSpace]
    merged: FusedSpace
    operations: Sequence[ir.OpView]
    units: Units

    @property
    def inputs(self) -> int:
        """How many different arrays the group reads; scalars are none."""
        return sum(bool(shape_of(value)) for value in self.units.inputs(self.operations))


class Boundary(Protocol):
    """A rule that says whether an operation joins the group of a producer."""

    gathers: ClassVar[bool]
    """Whether an operation may gather from values of its own group."""

    def admits(self, joined: Joined) -> bool:
        """Whether two groups become one, where that is legal."""
        ...


@dataclass(frozen=True)
class Separate:
    """No operation joins another one: what fusion gains is the difference."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Whether two groups become one: never."""
        del joined
        return False


@dataclass(frozen=True)
class Parallelism:
    """Operations join unless that loses parallelism that matters."""

    gathers: ClassVar[bool] = False

    def admits(self, joined: Joined) -> bool:
        """Whether both parts were as parallel as the whole, or the loss is small."""
        merged = joined.merged
        if merged.parallelism >= max(part.parallelism for part in joined.parts):
            return True
        if merged.contractions:
            return False
        return merged.parallelism >= _ENOUGH_TASKS or merged.work <= _SMALL_WORK


@dataclass(frozen=True)
class UniqueInputs:
    """Operations join while a group has no more than ``most`` unique inputs; 0 is no limit.

    This is F_max of Dali: an operation that would need more begins a new group as its leaf, and one
    that needs more by itself is a group of its own.
    """

    most: int
    gathers: ClassVar[bool] = True

    def admits(self, joined: Joined) -> bool:
        """Whether the whole reads few enough different tensors."""
        return not self.most or joined.inputs <= self.most
