"""Computes how much merging increases arithmetic, and groups operators up to a maximum increase."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.passes.contractions.convolution import Convolution
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.merging.convolutions import Window

Member = Convolution | Product
"""A convolution or matmul; members with an equal ``kind`` may be merged."""


def growth_of(group: Sequence[Member]) -> float:
    """Return the factor by which merging a group increases the number of multiplications.

    The factor is above 1 only if windows of convolutions are padded to a common window.
    """
    convolutions = [member for member in group if isinstance(member, Convolution)]
    if not convolutions:
        return 1.0
    whole = Window.around(convolutions).work(convolutions)
    return whole / sum(member.work for member in convolutions)


def groups_within(members: Sequence[Member], growth: float) -> list[list[Member]]:
    """Group operators such that a merge multiplies the arithmetic by at most ``growth``.

    A merged group needs at most ``growth`` times as many multiplications as its separate operators.
    Each operator joins the first group for which this holds, or starts a new group. Return the
    groups of at least two operators.
    """
    found: list[list[Member]] = []
    for member in members:
        for group in found:
            if growth_of([*group, member]) <= growth:
                group.append(member)
                break
        else:
            found.append([member])
    return [group for group in found if len(group) > 1]
