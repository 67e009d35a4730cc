"""Chooses tiles of results that a thread keeps in registers (register blocking).

Without tiles, a contraction or a convolution loads each operand for every product. A thread that
computes a tile of m by n results loads m + n elements for m * n products. Along each loop, the
number of results of a tile divides the number of iterations, so that all tiles are full. A tile
grows only if each thread of the block still gets a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from rammer_mlir.lowering.gpu.iteration_space import Loops
from rammer_mlir.lowering.gpu.register_pressure import MOST_ACCUMULATORS
from rammer_mlir.lowering.kernels.affine import Index
from rammer_mlir.passes.ir.structured import Structured

_MOST_ALONG_A_LOOP = 8
_NEIGHBORS = 16
"""Smallest number of tiles along the innermost loop.

Tiles along this loop belong to adjacent lanes of a warp, which then access adjacent elements.
"""

Tile = tuple[int, ...]
"""The number of a thread's results along each parallel loop."""


def choose_tile(generic: Structured, loops: Loops, block_threads: int) -> Tile:
    """Return the tile of a thread: the number of its results along each parallel loop.

    All numbers are 1 if no larger tile divides the loops, saves loads, and leaves a tile for each
    of the block's threads.
    """
    tile = [1] * len(loops.parallel)
    if not loops.reduced or loops.num_points is None:
        return tuple(tile)
    reused = [
        position
        for position, loop in enumerate(loops.parallel)
        if any(loop not in used for used in generic.used_loops)
    ]
    results = loops.num_points
    while True:
        wider = [
            position
            for position in reused
            if tile[position] < _MOST_ALONG_A_LOOP
            and _size(loops, position) % (2 * tile[position]) == 0
            and _leaves_neighbors(loops, position, 2 * tile[position])
        ]
        too_few = results < 2 * block_threads
        if not wider or too_few or _count(tile) * 2 > MOST_ACCUMULATORS:
            return tuple(tile)
        position = min(wider, key=lambda p: (tile[p], -p))
        tile[position] *= 2
        results //= 2


def _leaves_neighbors(loops: Loops, position: int, width: int) -> bool:
    inner = position == len(loops.parallel) - 1
    return not inner or _size(loops, position) // width >= _NEIGHBORS


def _size(loops: Loops, position: int) -> int:
    size = loops.sizes[position]
    return size if isinstance(size, int) else 1


def _count(tile: Sequence[int]) -> int:
    total = 1
    for size in tile:
        total *= size
    return total


def tiled_sizes(loops: Loops, tile: Tile) -> list[Index]:
    """Return the number of tiles along each parallel loop."""
    return [
        size // width if isinstance(size, int) else size
        for size, width in zip(loops.sizes, tile, strict=True)
    ]


def tile_offsets(loops: Loops, tile: Tile) -> list[tuple[int, ...]]:
    """Return the offsets of a tile's results from its first result, along each parallel loop.

    With n tiles along a loop, consecutive results of a tile are n indices apart. Adjacent tiles,
    which adjacent lanes compute, thus access adjacent elements.
    """
    steps = tiled_sizes(loops, tile)
    ranges = [
        [n * step if isinstance(step, int) else 0 for n in range(width)]
        for step, width in zip(steps, tile, strict=True)
    ]
    return list(combinations(*ranges))
