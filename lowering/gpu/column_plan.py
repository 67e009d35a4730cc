"""Plans a block's column reduction (vector times matrix, sums over rows), without IR.

A column reduction has few results, each from many input elements, and uses each element only once,
so its cost is that of reading the elements. A reduction is planned only if elements of adjacent
results are adjacent in memory:

- A *tile* is a few adjacent results. A thread reduces the elements of one tile.
- A *row* of threads is a sequence of adjacent threads, which have adjacent tiles and together all
  tiles of the block.
- With several rows, threads at the same position in each row have the same tile, and each reduces a
  part of its elements.

Partial results are combined by shuffles within a warp, and in shared memory between warps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from rammer_mlir.lowering.gpu.contractions.plan import WARP, WIDEST, Access, Contraction

_MOST_RESULTS = 4
"""Most results per thread of the block for which threads share the reduction of a result."""

_LEAST_REDUCED = 8
"""Smallest number of reduced elements per result for which threads share the reduction."""

_UNROLLED = (16, 8, 4, 2, 1)
"""Numbers of elements that a thread may load before it uses them.

A thread's widest accesses, 16 of them at once, are 64 KiB in flight for 256 threads: a
multiprocessor needs some 25 KiB to keep up its share of the memory's bandwidth.
"""


@dataclass(frozen=True)
class ColumnPlan:
    """Plan of a block's column reduction.

    Attributes:
        contraction: the loops and inputs of the reduction.
        along: the parallel loop along which the widest input's elements are adjacent in memory.
        widest: index of the widest input in ``contraction.inputs``: the input with the most
            elements.
        threads: count of threads of the block.
    """

    contraction: Contraction
    along: int
    widest: int
    threads: int

    @property
    def num_results(self) -> int:
        """The number of results of the block's reduction."""
        return prod(self.contraction.extents[loop] for loop in self.contraction.parallel)

    @property
    def num_reduced(self) -> int:
        """The number of elements from which each result is reduced."""
        return prod(self.contraction.extents[loop] for loop in self.contraction.reduced)

    @property
    def most_width(self) -> int:
        """The largest number of adjacent results per thread; alignment may permit fewer."""
        width = WIDEST // self.contraction.inputs[self.widest].element_bytes
        return gcd(width, self.contraction.extents[self.along])

    @property
    def num_partial(self) -> int:
        """The count of partial results for which the block needs shared memory.

        The count depends on how many adjacent results a thread has; this is the maximum over all
        permitted widths. The count is 0 if warps need not combine results.
        """
        rows = max(self.at(width).parts for width in (1, 2, 4, 8) if self.most_width % width == 0)
        return rows * self.num_results if rows > 1 else 0

    @property
    def shared_bytes(self) -> int:
        """The bytes of partial results in shared memory."""
        return self.num_partial * self.contraction.result_bytes

    def at(self, width: int) -> Columns:
        """Return how threads divide the work if each computes ``width`` adjacent results."""
        tiles = self.num_results // width
        # A power of two, so that shuffles by xor stay within the threads of a place.
        places = tiles if tiles > WARP else 1 << (tiles - 1).bit_length()
        most = max(1, min(self.threads // places, self.num_reduced))
        return Columns(tiles, places, *_rows(self.num_reduced, most), self.threads)


@dataclass(frozen=True)
class Columns:
    """Division of a column reduction among the threads of a block.

    Attributes:
        tiles: count of tiles; a tile is the adjacent results that a thread computes.
        places: count of threads in a row; the first ``tiles`` threads of a row each compute a tile,
            and the rest of the row is idle.
        rows: count of rows of threads; the rows divide the elements of each result among them.
        unrolled: count of consecutive elements per result that a thread loads before it reduces
            them.
        threads: count of threads of the block.
    """

    tiles: int
    places: int
    rows: int
    unrolled: int
    threads: int

    @property
    def in_warp(self) -> bool:
        """Whether a warp contains several rows of threads, which combine results by shuffles."""
        return self.places < WARP and self.rows > 1

    @property
    def parts(self) -> int:
        """The number of partial results that remain for each result after the shuffles."""
        return -(-self.places * self.rows // WARP) if self.in_warp else self.rows


def _rows(reduced: int, most: int) -> tuple[int, int]:
    """Return the count of rows of threads, and the count of unrolled elements per iteration.

    The rows divide the ``reduced`` elements of a result among them. The count of rows is the
    largest divisor of ``reduced`` up to ``most``. If that is at most half of ``most``, the count is
    ``most`` instead, and the rows have unequal shares.
    """
    rows = max(n for n in range(1, most + 1) if reduced % n == 0)
    if 2 * rows <= most:
        return most, 1
    return rows, next(n for n in _UNROLLED if reduced // rows % n == 0)


def plan_columns(contraction: Contraction, threads: int, shared_limit: int) -> ColumnPlan | None:
    """Return the plan of a block's column reduction, or None.

    The result is None in these cases:

    - The reduction has more than ``_MOST_RESULTS`` results per thread.
    - The reduction has fewer than ``_LEAST_REDUCED`` elements per result.
    - Adjacent results do not read adjacent elements of the widest input.
    - Shared memory is too small for the partial results.

    Args:
        contraction: the computation, with static extents of all loops.
        threads: count of threads of the block.
        shared_limit: bytes of shared memory for partial results.
    """
    sizes = [_elements(contraction, access) for access in contraction.inputs]
    widest = max(range(len(sizes)), key=sizes.__getitem__)
    loops = [loop for loop, factor in enumerate(contraction.inputs[widest].rows[-1]) if factor]
    if len(loops) != 1 or loops[0] not in contraction.parallel:
        return None
    *others, last = contraction.inputs[widest].rows
    if last[loops[0]] != 1 or any(row[loops[0]] for row in others):
        return None
    found = ColumnPlan(contraction, loops[0], widest, threads)
    if found.num_results > _MOST_RESULTS * threads or found.num_reduced < _LEAST_REDUCED:
        return None
    return found if found.shared_bytes <= shared_limit else None


def _elements(contraction: Contraction, access: Access) -> int:
    loops = range(len(contraction.extents))
    return prod(contraction.extents[loop] for loop in loops if access.uses(loop))
