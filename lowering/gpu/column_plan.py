"""How a block reduces columns: a vector times a matrix, sums over rows. A plan, without any IR.

Few results are made of many elements, each needed once, so that reading them is all of the cost.
Where elements for neighbouring results are neighbours in memory, neighbouring threads compute
neighbouring results, several each, and *rows* of such threads divide the elements of each result
among them. Partial results of threads in one warp meet by shuffles, those of warps in shared
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from rammer_mlir.lowering.gpu.contractions.plan import WARP, WIDEST, Access, Contraction

_MOST_RESULTS = 4
"""Results of the block for each of its threads, from which on no thread needs another's help."""

_LEAST_REDUCED = 8
"""Elements of a result below which a thread needs no help."""

_UNROLLED = 4
"""Loads of a thread that are under way at once."""


@dataclass(frozen=True)
class ColumnPlan:
    """How a block reduces columns.

    Attributes:
        contraction: what is computed.
        along: the parallel loop along which elements are neighbours.
        widest: place among the inputs of the operand with the most elements.
        threads: of the block.
    """

    contraction: Contraction
    along: int
    widest: int
    threads: int

    @property
    def num_results(self) -> int:
        """Return the number of results."""
        return prod(self.contraction.extents[loop] for loop in self.contraction.parallel)

    @property
    def num_reduced(self) -> int:
        """Return the elements that each result is made of."""
        return prod(self.contraction.extents[loop] for loop in self.contraction.reduced)

    @property
    def most_width(self) -> int:
        """Return how many neighbouring results a thread has if alignment allows."""
        width = WIDEST // self.contraction.inputs[self.widest].element_bytes
        return gcd(width, self.contraction.extents[self.along])

    @property
    def num_partial(self) -> int:
        """Return the partial results in shared memory, whatever the width turns out to be."""
        rows = max(self.at(width).parts for width in (1, 2, 4, 8) if self.most_width % width == 0)
        return rows * self.num_results if rows > 1 else 0

    @property
    def shared_bytes(self) -> int:
        """Return the bytes of partial results."""
        return self.num_partial * self.contraction.result_bytes

    def at(self, width: int) -> Columns:
        """Return how threads share the work if each has ``width`` neighbouring results."""
        tiles = self.num_results // width
        places = tiles if tiles > WARP else 1 << (tiles - 1).bit_length()
        most = max(1, min(self.threads // places, self.num_reduced))
        return Columns(tiles, places, *_rows(self.num_reduced, most), self.threads)


@dataclass(frozen=True)
class Columns:
    """How threads share the work.

    Attributes:
        tiles: of neighbouring results.
        places: threads of a row, of which the first ``tiles`` have a tile.
        rows: of threads, which divide the elements of each result among them.
        unrolled: elements that a thread takes at a time.
        threads: of the block.
    """

    tiles: int
    places: int
    rows: int
    unrolled: int
    threads: int

    @property
    def in_warp(self) -> bool:
        """Return whether whole rows lie in a warp, so that its threads meet by shuffles."""
        return self.places < WARP and self.rows > 1

    @property
    def parts(self) -> int:
        """Return the partial results that are left for each result after shuffles."""
        return -(-self.places * self.rows // WARP) if self.in_warp else self.rows


def _rows(reduced: int, most: int) -> tuple[int, int]:
    """Return rows and unrolled elements; rows divide the elements evenly where that costs few."""
    rows = max(n for n in range(1, most + 1) if reduced % n == 0)
    if 2 * rows <= most:
        return most, 1
    return rows, next(n for n in (_UNROLLED, 2, 1) if reduced // rows % n == 0)


def plan_columns(contraction: Contraction, threads: int, shared_limit: int) -> ColumnPlan | None:
    """Return the plan for a block, None where threads need no help or elements lie otherwise.

    Args:
        contraction: what to compute; the sizes of all its loops are static.
        threads: of the block.
        shared_limit: bytes of shared memory for partial results.
    """
    sizes = [_elements(contraction, access) for access in contraction.inputs]
    widest = max(range(len(sizes)), key=sizes.__getitem__)
    loops = [loop for loop, factor in enumerate(contraction.inputs[widest].rows[-1]) if factor]
    if len(loops) != 1 or loops[0] not in contraction.parallel:
        return None
    if contraction.inputs[widest].rows[-1][loops[0]] != 1:
        return None
    found = ColumnPlan(contraction, loops[0], widest, threads)
    if found.num_results > _MOST_RESULTS * threads or found.num_reduced < _LEAST_REDUCED:
        return None
    return found if found.shared_bytes <= shared_limit else None


def _elements(contraction: Contraction, access: Access) -> int:
    loops = range(len(contraction.extents))
    return prod(contraction.extents[loop] for loop in loops if access.uses(loop))
