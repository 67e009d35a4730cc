"""How much more arithmetic operators need when they are computed as one."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.passes.contractions.convolution import Convolution
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.merging.convolutions import Window

Member = Convolution | Product
"""An operator that others of its kind may be merged with."""


def growth_of(group: Sequence[Member]) -> float:
    """Return the factor for operators of one kind: 1 where nothing has to be padded."""
    convolutions = [member for member in group if isinstance(member, Convolution)]
    if not convolutions:
        return 1.0
    whole = Window.around(convolutions).work(convolutions)
    return whole / sum(member.work for member in convolutions)


def groups_within(members: Sequence[Member], growth: float) -> list[list[Member]]:
    """Put every operator into the first group that it does not make too large."""
    found: list[list[Member]] = []
    for member in members:
        for group in found:
            if growth_of([*group, member]) <= growth:
                group.append(member)
                break
        else:
            found.append([member])
    return [group for group in found if len(group) > 1]
