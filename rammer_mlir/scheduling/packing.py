"""Assigns disjoint addresses to conflicting blocks of memory (dynamic storage allocation).

First, blocks are placed in several greedy orders, each block in the smallest gap that fits. Then
hill climbing improves the best order by moving blocks at the top of memory to earlier positions.
The problem is NP-hard (Garey and Johnson, SR2), so both are heuristics.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

WORK = 300_000
"""The number of comparisons of blocks to spend on better orders, a fraction of a second."""


def pack(
    sizes: Mapping[int, int],
    conflicts: Mapping[int, Sequence[int]],
    least: int,
    work: int = WORK,
) -> dict[int, int]:
    """Return byte offsets by block at which conflicting blocks do not overlap.

    Args:
        sizes: bytes of each block.
        conflicts: the other blocks that each block conflicts with, a symmetric relation.
        least: a lower bound on the memory in bytes: the search stops when it is reached.
        work: budget for improving the first placement, in comparisons of two blocks.
    """
    degree = {block: len(conflicts[block]) for block in sizes}
    orders = [
        sorted(sizes, key=lambda block: (-sizes[block], block)),
        sorted(sizes, key=lambda block: (-sizes[block] * degree[block], block)),
        sorted(sizes, key=lambda block: (-degree[block], -sizes[block], block)),
    ]
    best = _Placement(orders[0], sizes, conflicts)
    cost = len(sizes) + sum(degree.values())
    attempts = work // max(cost, 1)
    for order in orders[1 : 1 + attempts]:
        if best.top <= least:
            return best.offsets
        best = min(best, _Placement(order, sizes, conflicts), key=lambda found: found.top)
    return _climb(best, attempts - len(orders) + 1, least).offsets


class _Placement:
    """The placement of blocks in a given order: byte offsets, and the size of the memory."""

    def __init__(
        self,
        order: list[int],
        sizes: Mapping[int, int],
        conflicts: Mapping[int, Sequence[int]],
    ) -> None:
        self.order, self.sizes, self.conflicts = order, sizes, conflicts
        self.offsets: dict[int, int] = {}
        self.top = 0
        for block in order:
            placed = (other for other in conflicts[block] if other in self.offsets)
            taken = sorted((self.offsets[other], self.offsets[other] + sizes[other])
                           for other in placed)  # fmt: skip
            self.offsets[block] = _best_gap(taken, sizes[block])
            self.top = max(self.top, self.offsets[block] + sizes[block])

    def at_the_top(self) -> list[int]:
        """Return the blocks that end at the last byte of the memory."""
        return [b for b in self.order if self.offsets[b] + self.sizes[b] == self.top]


def _climb(start: _Placement, attempts: int, least: int) -> _Placement:
    """Return the best placement found by hill climbing over the order of blocks.

    Each of ``attempts`` moves puts a block that ends at the top of memory before a conflicting
    block in the order, and is kept if the memory does not grow. Memory of at most ``least`` bytes
    ends the search.
    """
    # A fixed seed makes offsets repeatable.
    best, chance = start, random.Random(0)
    for _ in range(attempts):
        if best.top <= least:
            break
        block = chance.choice(best.at_the_top())
        place = best.order.index(block)
        ahead = set(best.conflicts[block])
        places = [n for n, other in enumerate(best.order[:place]) if other in ahead]
        if not places:
            break  # it was placed first: memory cannot be smaller than this block
        order = [*best.order[:place], *best.order[place + 1 :]]
        order.insert(chance.choice(places), block)
        found = _Placement(order, best.sizes, best.conflicts)
        if found.top <= best.top:
            best = found
    return best


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the first byte of the smallest gap of at least ``size`` bytes.

    Without such a gap, return the end of all occupied intervals. ``taken`` has the first byte of
    each occupied interval, and the byte after its last byte, in ascending order.
    """
    best, best_size = -1, -1
    position = 0
    for start, end in taken:
        gap = start - position
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = position, gap
        position = max(position, end)
    return position if best < 0 else best
