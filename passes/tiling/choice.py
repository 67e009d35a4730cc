"""Chooses the tile sizes of an rOperator greedily.

The search starts with one rTask. Each step halves the tiles of one loop: the loop for which all
rTasks together then access the fewest bytes. The search ends when the work of an rTask is at most a
target. Each of several targets gives a candidate rKernel: few large rTasks are the most efficient,
many small rTasks the fastest on an idle device (RAMMER paper, section 3.3). For devices with many
vEUs, predicted times select one of the search's tilings instead (``device_tiles``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log2

Tiling = tuple[int, ...]
"""The tile size of each loop class that can be tiled, outermost first.

A loop class is a set of loops of several operations that are tiled together with the same tile
size.
"""


@dataclass(frozen=True)
class Aim:
    """Targets for the operations and for the bytes of an rTask, and when tiles are no longer cut.

    A cut makes the tiles of one loop smaller. Tiles are cut until an rTask meets both targets and
    accesses at most ``memory`` bytes. Cutting ends early if ``is_partly_met`` is true and the next
    cut costs too much: for each doubling of the count of rTasks, the cut would multiply the bytes
    moved by all rTasks together by more than ``_MUCH_MORE``.

    Attributes:
        operations: target: an rTask executes at most this number of scalar operations.
        num_bytes: target: an rTask accesses at most this number of bytes.
        enough: least count of rTasks with which cutting may end early if the target of operations
            is not met.
        memory: maximum bytes that an rTask may access; cutting does not end early above this
            maximum. 0 for no maximum.
    """

    operations: int
    num_bytes: int
    enough: int = 1 << 62
    memory: int = 0

    def is_met(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost meets all targets and accesses at most ``memory`` bytes."""
        return cost.operations <= self.operations and self.fits_bytes_and_memory(cost)

    def fits_bytes_and_memory(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost meets the target ``num_bytes`` and the limit ``memory``."""
        return cost.num_bytes <= self.num_bytes and self.fits_memory(cost)

    def fits_memory(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost accesses at most ``memory`` bytes; 0 allows any number."""
        return cost.num_bytes <= (self.memory or cost.num_bytes)

    def is_partly_met(self, cost: TileCost, num_rtasks: int) -> bool:
        """Whether cutting may stop early with ``num_rtasks`` rTasks of this cost.

        An rTask must access at most ``memory`` bytes. In addition, one of these conditions must
        hold:

        - An rTask meets the target of operations.
        - An rTask meets the target of bytes, and there are at least ``enough`` rTasks.
        - An rTask has at most ``_PLENTY`` times the target of operations, and there are at least
          ``_PLENTY * enough`` rTasks. This is for products with long rows: their weights exceed
          ``num_bytes`` in tiles of any size.
        """
        enough = (
            cost.operations <= self.operations
            or (num_rtasks >= self.enough and self.fits_bytes_and_memory(cost))
            or (
                num_rtasks >= _PLENTY * self.enough and cost.operations <= _PLENTY * self.operations
            )
        )
        return enough and self.fits_memory(cost)


def aims(work: int, enough: int = 0) -> tuple[Aim, ...]:
    """Return the targets of the candidate rKernels of an rOperator, from coarse to fine.

    The last target gives small rTasks, which fill gaps of a schedule; such rKernels are compiled
    only for functions that many rOperators call.

    Args:
        work: scalar operations per rTask of the first target; finer targets have a fraction of it.
        enough: for the first target, the least count of rTasks with which cutting tiles may end
            early (``Aim.enough``); 0 if it must not end early.
    """
    return (
        Aim(work, work // _OPERATIONS_PER_BYTE, enough or 1 << 62),
        *(Aim(work // n, work // n // _OPERATIONS_PER_BYTE) for n in (_FINER, _FINEST)),
    )


_OPERATIONS_PER_BYTE = 4
"""The number of scalar operations that a CPU core executes while it moves a byte."""

_FINER = 8
"""Divisor of the first target's operations for the second candidate."""

_FINEST = 32
"""Divisor of the first target's operations for the third candidate, the finest."""

_MUCH_MORE = 1.4
"""Maximum factor by which a cut in half may increase the bytes moved once a target is met in part.

The factor applies per doubling of the number of rTasks, so that several smaller cuts together
cannot increase the bytes more than a cut in half may.
"""

_PLENTY = 4
"""Factor on ``Aim.enough`` and ``Aim.operations`` for an early stop that meets no target.

A product of 300x12544 by 12544x1024 takes 62 ms in rTasks of 25 rows, whose micro tiles share a
panel of weights in cache, and 104 ms in rTasks of 10 rows, a single micro tile.
"""

_RAGGED = 1.25
"""Factor on the bytes moved for each loop whose trip count is no multiple of its tile size."""

_FEWEST_OF_HALF = 4
"""Divisor of a halved tile size that does not divide the loop's trip count.

Smaller sizes that divide the trip count are tried instead, down to the halved size divided
by this divisor.
"""

CONTIGUOUS_MINIMUM = 32
"""Minimum tile size along contiguous memory, in elements: two AVX-512 registers of f32."""


@dataclass(frozen=True)
class TileCost:
    """The cost of a full-size rTask: its scalar ``operations``, and the bytes that it accesses."""

    operations: int
    num_bytes: int


@dataclass(frozen=True)
class LoopLimit:
    """The limits on the tile sizes of a loop.

    Tiles have at least ``smallest`` iterations. If the loop is ``contiguous``, that is, indexes
    adjacent elements of an argument or result, tiles consist of whole vectors.
    """

    contiguous: bool = False
    smallest: int = 1


CONTIGUOUS = LoopLimit(True, CONTIGUOUS_MINIMUM)
"""The limit of a loop over contiguous memory."""


def choose(
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    aim: Aim,
) -> Tiling:
    """Return the coarsest tiling whose rTasks meet the target ``aim``.

    The tilings are those of ``refinements``, from coarse to fine. If a cut increases the bytes
    moved by more than ``aim`` allows, return the tiling before this cut. If no tiling meets the
    target, return the finest.

    Args:
        extents: the trip count of each loop class: loops of several operations that are tiled
            together.
        limits: the limits on each class's tile sizes.
        cost: called with the tile size of each class; returns the operations and bytes of one
            rTask.
        aim: the target of an rTask's work.
    """
    if 0 in extents:  # an empty iteration space is one rTask
        return tuple(extents)
    path = refinements(extents, limits, cost)
    tiling = next(path)
    while True:
        current = cost(tiling)
        if aim.is_met(current):
            return tiling
        finer = next(path, None)
        if finer is None:
            return tiling
        if aim.is_partly_met(current, num_tiles(extents, tiling)):
            before, after = (bytes_moved(extents, t, limits, cost) for t in (tiling, finer))
            doublings = log2(num_tiles(extents, finer) / num_tiles(extents, tiling))
            if after > _MUCH_MORE**doublings * before:
                return tiling
        tiling = finer


def refinements(
    extents: Sequence[int], limits: Sequence[LoopLimit], cost: Callable[[Tiling], TileCost]
) -> Iterator[Tiling]:
    """Yield ever finer tilings, from one rTask to the smallest tiles.

    A tiling has a tile size for each loop class: loops of several operations that are tiled
    together. Each refinement reduces the tile size of one class. The chosen class is the one that
    gives the fewest bytes moved by all rTasks together.

    Args:
        extents: the trip count of each class.
        limits: the limits on each class's tile sizes.
        cost: called with a tiling; returns the operations and bytes of one rTask.
    """
    tiling = tuple(extents)
    while True:
        yield tiling
        finer = [
            candidate
            for loop in range(len(extents))
            for candidate in _cut(tiling, loop, extents, limits)
        ]
        if not finer:
            return
        tiling = min(finer, key=lambda t: bytes_moved(extents, t, limits, cost))


def num_tiles(extents: Sequence[int], tiling: Tiling) -> int:
    """Return the number of tiles, and so of rTasks, of loop classes with given trip counts.

    ``extents`` has the trip count of each class, ``tiling`` its tile size.
    """
    total = 1
    for extent, tile in zip(extents, tiling, strict=True):
        total *= -(-extent // tile)
    return total


def bytes_moved(
    extents: Sequence[int],
    tiling: Tiling,
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
) -> float:
    """Return the bytes that all rTasks of a tiling access, with a penalty for unequal tiles.

    If the tile size does not divide the trip count, the trip count of a tile is dynamic, which
    makes the code of all rTasks slower. Loops over contiguous memory have no penalty, because their
    last vector is masked.

    Args:
        extents: the trip count of each loop class: loops of several operations that are tiled
            together.
        tiling: the tile size of each class.
        limits: the limits on each class's tile sizes.
        cost: called with a tiling; returns the operations and bytes of one rTask.
    """
    ragged = sum(
        not limit.contiguous and tile > 0 and extent % tile > 0
        for extent, tile, limit in zip(extents, tiling, limits, strict=True)
    )
    return num_tiles(extents, tiling) * cost(tiling).num_bytes * _RAGGED**ragged


def tile_sizes(extent: int, limit: LoopLimit) -> tuple[int, ...]:
    """Return all tile sizes that a loop can have after any number of cuts, the largest first.

    ``extent`` is the loop's trip count, ``limit`` the limits on its tile sizes.
    """
    found: dict[int, None] = {}
    pending = [extent]
    while pending:
        size = pending.pop()
        if size not in found:
            found[size] = None
            pending.extend(tile for (tile,) in _cut((size,), 0, [extent], [limit]))
    return tuple(sorted(found, reverse=True))


def _cut(
    tiling: Tiling, loop: int, extents: Sequence[int], limits: Sequence[LoopLimit]
) -> Iterator[Tiling]:
    """Yield at most two tilings with smaller tiles of loop class ``loop``.

    The first tiling has tiles of about half the size; there is none if tiles cannot be smaller.
    The second tiling exists only if the half size does not divide the trip count and the loops do
    not run over contiguous memory. Its tile size is the largest divisor of the trip count from a
    quarter of the half size up to the half size, if there is one.

    Args:
        tiling: the tile size of each loop class.
        loop: index of the loop class to cut.
        extents: the trip count of each loop class.
        limits: the limits on each loop class's tile sizes.
    """
    size = _halve(tiling, loop, extents, limits)
    if size is None:
        return
    yield (*tiling[:loop], size, *tiling[loop + 1 :])
    extent, limit = extents[loop], limits[loop]
    if limit.contiguous or extent % size == 0:
        return
    smallest = max(min(limit.smallest, extent), -(-size // _FEWEST_OF_HALF))
    equal = next((n for n in range(size, smallest - 1, -1) if extent % n == 0), None)
    if equal is not None:
        yield (*tiling[:loop], equal, *tiling[loop + 1 :])


def _halve(
    tiling: Tiling, loop: int, extents: Sequence[int], limits: Sequence[LoopLimit]
) -> int | None:
    extent, tile, limit = extents[loop], tiling[loop], limits[loop]
    parts = 2 * -(-extent // tile)
    smallest = min(limit.smallest, extent)
    size = _round(-(-extent // parts), tile - 1, extent, smallest, limit.contiguous)
    return size if size < tile else None


def _round(size: int, largest: int, extent: int, smallest: int, contiguous: bool) -> int:
    """Return a suitable tile size near ``size`` for a loop with trip count ``extent``.

    If the loop is ``contiguous``, round ``size`` up to whole vectors, but to at most ``largest``.
    Else return the least divisor of ``extent`` from ``size`` to 1.5 times ``size`` and at most
    ``largest``; without such a divisor, return ``size``. The result is at least ``smallest``, even
    if ``smallest`` exceeds ``largest``.
    """
    if contiguous:
        vectors = min(-(-size // CONTIGUOUS_MINIMUM), largest // CONTIGUOUS_MINIMUM)
        return max(vectors * CONTIGUOUS_MINIMUM, smallest)
    size = max(size, smallest)
    for candidate in range(size, min(largest, size + size // 2) + 1):
        if extent % candidate == 0:
            return candidate
    return size
