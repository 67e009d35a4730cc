"""Tests that blocks are placed in memory without conflicts, and in little memory.

The reference is first fit, in the best of all orders of the blocks.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping, Sequence

import pytest

from rammer_mlir.scheduling.packing import clique_bytes, pack


def intervals(seed: int, count: int) -> tuple[dict[int, int], dict[int, list[int]], int]:
    """Return random blocks of memory: sizes, conflicts, and the largest total size at one time.

    Each block has a random lifetime. ``conflicts`` has the blocks whose lifetimes overlap that of
    each block.
    """
    chance = random.Random(seed)
    lives = [sorted(chance.sample(range(3 * count), 2)) for _ in range(count)]
    sizes = {n: chance.randint(1, 9) for n in range(count)}
    conflicts = {
        a: [b for b in range(count) if b != a and max(lives[a][0], lives[b][0])
            <= min(lives[a][1], lives[b][1])]
        for a in range(count)
    }  # fmt: skip
    load = max(
        sum(sizes[n] for n in range(count) if lives[n][0] <= time <= lives[n][1])
        for time in range(3 * count)
    )
    return sizes, conflicts, load


def top(offsets: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    return max(offsets[block] + sizes[block] for block in sizes)


def lowest_fit(
    order: Sequence[int], sizes: Mapping[int, int], conflicts: Mapping[int, Sequence[int]]
) -> int:
    """Place blocks in an order, each at the lowest free address; return the memory that they need.

    ``conflicts`` has, for each block, the blocks that it may not overlap. The smallest memory over
    all orders is the smallest possible memory.
    """
    offsets: dict[int, int] = {}
    for block in order:
        taken = sorted(
            (offsets[b], offsets[b] + sizes[b]) for b in conflicts[block] if b in offsets
        )
        place = 0
        for start, end in taken:
            if start - place >= sizes[block]:
                break
            place = max(place, end)
        offsets[block] = place
    return top(offsets, sizes)


@pytest.mark.parametrize("seed", range(40))
def test_blocks_that_conflict_are_apart(seed: int) -> None:
    sizes, conflicts, load = intervals(seed, count=30)
    offsets = pack(sizes, conflicts, load)
    assert set(offsets) == set(sizes)
    for a, b in itertools.combinations(sizes, 2):
        if b in conflicts[a]:
            assert offsets[a] + sizes[a] <= offsets[b] or offsets[b] + sizes[b] <= offsets[a]
    assert load <= top(offsets, sizes) <= 1.1 * load


@pytest.mark.parametrize("seed", range(30))
def test_small_memories_are_as_small_as_can_be(seed: int) -> None:
    """``pack`` finds the smallest memory of six blocks, as trying all 720 orders does."""
    sizes, conflicts, _ = intervals(seed, count=6)
    best = min(lowest_fit(order, sizes, conflicts) for order in itertools.permutations(sizes))
    assert top(pack(sizes, conflicts, least=0), sizes) == best


def test_cliques_bound_the_memory() -> None:
    """The lower bound by cliques is mostly the largest total size of blocks in use at one time.

    It is never above that size.
    """
    loads, bounds = [], []
    for seed in range(100):
        sizes, conflicts, load = intervals(seed, count=30)
        loads.append(load)
        bounds.append(clique_bytes(sizes, conflicts))
    assert all(bound <= load for bound, load in zip(bounds, loads, strict=True))
    assert sum(bound == load for bound, load in zip(bounds, loads, strict=True)) >= 80


def test_many_blocks_that_all_conflict_take_no_long() -> None:
    """Placing 1,000 blocks that all conflict takes seconds.

    The search for cliques has a budget; without it, these blocks took a minute.
    """
    sizes = {n: 64 * (1 + n % 7) for n in range(1000)}
    conflicts = {a: [b for b in sizes if b != a] for a in sizes}
    begin = time.process_time()
    assert top(pack(sizes, conflicts, least=0), sizes) == sum(sizes.values())
    assert time.process_time() - begin < 15


def test_effort_is_limited() -> None:
    """With a search budget of zero, ``pack`` returns a valid but possibly larger placement."""
    sizes, conflicts, load = intervals(seed=3, count=200)
    quick = pack(sizes, conflicts, load, work=0)
    better = pack(sizes, conflicts, load)
    assert load <= top(better, sizes) <= top(quick, sizes)


def test_nothing_to_place() -> None:
    assert pack({}, {}, least=0) == {}
