"""Assigns addresses to blocks of memory so that conflicting blocks are disjoint.

The problem is dynamic storage allocation. Two blocks conflict if they must not share memory. First,
blocks are placed in several greedy orders, each block in the smallest gap that fits. Then hill
climbing improves the best order by moving blocks that end at the highest address to earlier
positions of the order. The problem is NP-hard (Garey and Johnson, SR2), so greedy placement and
hill climbing are heuristics. The search ends early if the memory is only as large as a clique (a
set of blocks that all conflict with each other), because no placement is smaller.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        conflicts: for each block, the blocks that must not share memory with it; a symmetric
            relation.
        least: a lower bound on the memory in bytes; the search ends when a placement reaches it.
        work: budget for improving the first placement, in comparisons of two blocks.
    """
    degree = {block: len(conflicts[block]) for block in sizes}
    orders = [
        sorted(sizes, key=lambda block: (-sizes[block], block)),
        sorted(sizes, key=lambda block: (-sizes[block] * degree[block], block)),
        sorted(sizes, key=lambda block: (-degree[block], -sizes[block], block)),
    ]
    blocks = _Blocks(sizes, conflicts)
    best = blocks.placed(orders[0])
    cost = len(sizes) + sum(degree.values())
    attempts = work // max(cost, 1)
    if attempts and best.top > least:
        least = max(least, clique_bytes(sizes, conflicts, work))
    for order in orders[1 : 1 + attempts]:
        if best.top <= least:
            return blocks.offsets(best)
        best = min(best, blocks.placed(order), key=lambda found: found.top)
    return blocks.offsets(_climb(blocks, best, attempts - len(orders) + 1, least))


def clique_bytes(
    sizes: Mapping[int, int], conflicts: Mapping[int, Sequence[int]], work: int = WORK
) -> int:
    """Return the bytes of a large clique: a set of blocks that all conflict with each other.

    The memory cannot be smaller than a clique. From each block a clique is grown: the largest block
    that conflicts with all blocks of the clique is added repeatedly. The result is the size of the
    largest of these cliques; larger cliques may exist.

    Args:
        sizes: bytes of each block.
        conflicts: the other blocks that each block conflicts with, a symmetric relation.
        work: budget, in comparisons of two blocks, after which the search ends.
    """
    order = sorted(sizes, key=lambda block: (-sizes[block], block))
    rank = {block: index for index, block in enumerate(order)}
    most = 0
    for block in order:
        work -= len(conflicts[block])
        if work < 0:
            break
        size = sizes[block]
        # Most blocks have too few and too small neighbors to be in a larger clique.
        if size + sum(sizes[other] for other in conflicts[block]) <= most:
            continue
        common = set(conflicts[block])
        while common and work >= 0:
            largest = min(common, key=rank.__getitem__)
            work -= len(common) + len(conflicts[largest])
            size += sizes[largest]
            common.intersection_update(conflicts[largest])
        most = max(most, size)
    return most


@dataclass(frozen=True)
class _Placement:
    """The placement of blocks in a given order.

    Attributes:
        order: the blocks in the order in which they are placed.
        ends: for each block, the byte after its last byte.
        top: the size of the memory in bytes.
    """

    order: list[int]
    ends: dict[int, int]
    top: int

    def at_the_top(self) -> list[int]:
        """Return the blocks that end at the last byte of the memory."""
        return [block for block in self.order if self.ends[block] == self.top]


@dataclass(frozen=True)
class _Blocks:
    """The blocks to place: the bytes of each, and the other blocks that each conflicts with."""

    sizes: Mapping[int, int]
    conflicts: Mapping[int, Sequence[int]]

    def offsets(self, placement: _Placement) -> dict[int, int]:
        """Return the byte offset of each block in a placement."""
        return {block: end - self.sizes[block] for block, end in placement.ends.items()}

    def placed(
        self, order: list[int], ends: Mapping[int, int] | None = None, most: float = math.inf
    ) -> _Placement:
        """Place blocks one after another, in the order ``order``, and return the placement.

        Args:
            order: all blocks.
            ends: the byte after the last byte of each block that is already placed; these are the
                first blocks of the order. None to place all blocks.
            most: the largest useful size of the memory in bytes. If the memory becomes larger,
                placing ends, and the result lacks the remaining blocks.
        """
        found, sizes, conflicts = dict(ends or {}), self.sizes, self.conflicts
        top = max(found.values(), default=0)
        for block in order[len(found) :]:
            taken = [(found[other] - sizes[other], found[other])
                     for other in conflicts[block] if other in found]  # fmt: skip
            taken.sort()
            found[block] = end = _best_gap(taken, sizes[block]) + sizes[block]
            top = max(top, end)
            if top > most:
                break
        return _Placement(order, found, top)


def _climb(blocks: _Blocks, start: _Placement, attempts: int, least: int) -> _Placement:
    """Return the best placement found by hill climbing over the order of blocks.

    The search begins with the placement ``start``. A move takes a block that ends at the highest
    address, and puts it before a conflicting block in the order. The move is kept if the memory
    does not grow. There are at most ``attempts`` moves; the search ends when the memory has at most
    ``least`` bytes.
    """
    # A fixed seed makes offsets repeatable.
    best, chance = start, random.Random(0)
    for _ in range(attempts):
        if best.top <= least:
            break
        block = chance.choice(best.at_the_top())
        place = best.order.index(block)
        ahead = set(blocks.conflicts[block])
        places = [n for n, other in enumerate(best.order[:place]) if other in ahead]
        if not places:
            break  # it was placed first: memory cannot be smaller than this block
        new = chance.choice(places)
        order = [*best.order[:new], block, *best.order[new:place], *best.order[place + 1 :]]
        # The blocks before the new place stay where they are.
        kept = {other: best.ends[other] for other in order[:new]}
        found = blocks.placed(order, kept, best.top)
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
