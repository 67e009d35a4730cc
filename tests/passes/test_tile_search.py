"""Tests that a search over tile sizes finds the tiles that move the fewest bytes.

Its tiles are no larger than those of the greedy choice.
"""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.rtask_tile import Tile
from rammer_mlir.passes.tiling.choice import (
    CONTIGUOUS,
    Aim,
    LoopLimit,
    TileCost,
    Tiling,
    bytes_moved,
    choose,
    tile_sizes,
)
from rammer_mlir.passes.tiling.tile_search import search_tiling

LIMITS = (LoopLimit(), LoopLimit(), LoopLimit(smallest=3), CONTIGUOUS)


class Windows:
    """A function that returns the cost of a tile of a convolution.

    A tile reads its filters, and a part of the image that is larger than the tile by borders.
    """

    def __init__(self, window: int, channels: int) -> None:
        """Set the side of the window, and the number of channels of the image."""
        self._window, self._channels = window, channels

    def __call__(self, tiling: Tiling) -> TileCost:
        """Return the cost of a tile of filters, rows and columns."""
        filters, *image = tiling
        area = self._window * self._window * self._channels
        borders = prod(size + self._window - 1 for size in image) * self._channels
        return TileCost(2 * prod(tiling) * area, 4 * (borders + filters * area + prod(tiling)))


def random_case(seed: int) -> tuple[list[int], list[LoopLimit], Windows, Aim]:
    """Return a random input of the search for tile sizes.

    It has the extents of three loops, their limits on tile sizes, the cost of a tile, and the
    desired operations and bytes of an rTask.
    """
    rng = random.Random(seed)
    extents = [rng.choice([1, 4, 13, 27, 56, 100]) for _ in range(3)]
    limits = [rng.choice(LIMITS) for _ in extents]
    cost = Windows(rng.choice([1, 3, 5]), rng.choice([1, 16, 64]))
    operations = rng.choice([10_000, 200_000, 1_000_000])
    return extents, limits, cost, Aim(operations, operations // 4)


def test_no_tiling_of_rtasks_as_small_moves_fewer_bytes() -> None:
    better = 0
    for seed in range(120):
        extents, limits, cost, aim = random_case(seed)
        greedy = choose(extents, limits, cost, aim)
        found = search_tiling(extents, limits, cost, greedy, aim.num_bytes)
        most = cost(greedy)
        allowed = [
            tiling
            for tiling in product(*map(tile_sizes, extents, limits))
            if cost(tiling).operations <= most.operations
            and cost(tiling).num_bytes <= max(most.num_bytes, aim.num_bytes)
        ]
        assert greedy in allowed and found in allowed
        moved = [bytes_moved(extents, tiling, limits, cost) for tiling in (*allowed, found, greedy)]
        assert moved[-2] == min(moved)
        better += moved[-2] < moved[-1]
    assert better > 3


def test_what_is_not_better_does_not_replace_the_greedy_tiling() -> None:
    def pointwise(tiling: Tiling) -> TileCost:
        """Return the cost of a tile: an operation and eight bytes for each point."""
        return TileCost(prod(tiling), 8 * prod(tiling))

    for greedy in ((16, 8), (2, 64), (4, 32)):
        assert search_tiling([16, 64], [LoopLimit()] * 2, pointwise, greedy, 1 << 40) == greedy


def test_sizes_are_those_of_cuts() -> None:
    assert tile_sizes(56, LoopLimit()) == (56, 28, 14, 7, 4, 2, 1)
    assert tile_sizes(100, CONTIGUOUS) == (100, 64, 32)
    assert tile_sizes(1, LoopLimit()) == (1,)


def test_nothing_to_do_is_not_cut() -> None:
    limits = [LoopLimit()] * 2
    assert search_tiling([0, 64], limits, lambda _: TileCost(0, 0), (0, 64), 1) == (0, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Tile(design="best"), "design: expected one of greedy, search, found 'best'"),
        (Tile(design="search", device="h100"), "design: expected 'greedy' with a device"),
    ],
)
def test_wrong_options_are_refused(options: Tile, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options.check_options()
