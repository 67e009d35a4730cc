"""Chooses the tile sizes of an rOperator greedily.

Starting from one rTask, halve the tiles of the loop for which all rTasks together then access the
fewest bytes, until the work of an rTask is at most a target. For devices with many vEUs, predicted
times select one of these tilings (``device_tiles``). Several targets give several candidate
rKernels: few large rTasks are the most efficient, many small rTasks the fastest on an idle device
(RAMMER paper, section 3.3).
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
    """The target of an rTask's work: tiles are cut until the work is at most the target.

    Tiles are cut again until an rTask reaches both targets, ``operations`` and ``num_bytes``. If it
    has reached only one of them, cutting may stop early: before a cut that increases the bytes
    moved by all rTasks together by more than the factor ``_MUCH_MORE`` for each doubling of the
    number of rTasks.

    Attributes:
        operations: the target of scalar operations of an rTask.
        num_bytes: the target of bytes that an rTask accesses.
        enough: the least number of rTasks with which cutting may stop early if only ``num_bytes``
            is reached; ``_PLENTY`` times as many rTasks suffice even if neither target is reached.
        memory: maximum bytes that an rTask may access; cutting does not stop early before rTasks
            meet it. 0 for no maximum.
    """

    operations: int
    num_bytes: int
    enough: int = 1 << 62
    memory: int = 0

    def is_met(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost reaches the targets of both operations and bytes."""
        return cost.operations <= self.operations and self.fits_bytes_and_memory(cost)

    def fits_bytes_and_memory(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost accesses at most ``num_bytes`` and ``memory`` bytes."""
        return cost.num_bytes <= self.num_bytes and self.fits_memory(cost)

    def fits_memory(self, cost: TileCost) -> bool:
        """Whether an rTask of this cost accesses at most ``memory`` bytes; 0 allows any number."""
        return cost.num_bytes <= (self.memory or cost.num_bytes)

    def is_partly_met(self, cost: TileCost, num_rtasks: int) -> bool:
        """Whether an rTask reaches so much of the targets that cutting may stop early.

        That is the case if the rTask accesses at most ``memory`` bytes, and reaches the target of
        operations or, if there are at least ``enough`` rTasks, the target of bytes. With ``_PLENTY
        * enough`` rTasks, at most ``_PLENTY`` times the target of operations suffices: the weights
        of a product with long rows exceed ``num_bytes`` in tiles of any size. ``cost`` is the cost
        of each of the ``num_rtasks`` rTasks.
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
    """Return the targets of candidate rKernels, from coarse to fine.

    The first target is ``work`` scalar operations per rTask, with ``enough`` as ``Aim.enough`` (0
    stands for infinity). The other targets are fractions of ``work``. The last target gives small
    rTasks, which fill gaps of a schedule; such rKernels are compiled only for functions that many
    rOperators call.
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

It applies per doubling of the number of rTasks, so that several smaller cuts cannot together
increase the bytes more than a cut in half may.
"""

_PLENTY = 4
"""Factor on ``Aim.enough`` and on ``Aim.operations`` for a stop without any target reached.

A product of 300x12544 by 12544x1024 takes 62 ms in rTasks of 25 rows, whose micro tiles share a
panel of weights in cache, and 104 ms in rTasks of 10 rows, a single micro tile.
"""

_RAGGED = 1.25
"""Factor on the bytes moved for each loop whose trip count is no multiple of its tile size."""

_FEWEST_OF_HALF = 4
"""Divisor of a halved tile size that does not divide the loop's trip count.

Smaller sizes that divide the trip count are tried instead, down to the halved size divided by this.
"""

CONTIGUOUS_MINIMUM = 32
"""Minimum tile size along contiguous memory, in elements: two AVX-512 registers of f32."""


@dataclass(frozen=True)
class TileCost:
    """The cost of a full rTask: its scalar ``operations``, and the bytes that it accesses."""

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
    """Return the coarsest tiling whose rTasks reach the target ``aim``.

    The tilings are those of ``refinements``, from coarse to fine. If a cut increases the bytes
    moved by more than ``aim`` allows, return the tiling before this cut. If no tiling reaches the
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
    together. Each tiling is its predecessor with smaller tiles of a single class: the class for
    which all rTasks together then move the fewest bytes. ``extents`` lists the trip count of each
    class, ``limits`` the limits on its tile sizes; ``cost`` is called with a tiling and returns the
    operations and bytes of one rTask.
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
    """Return the number of rTasks of a tiling of loops with the trip counts ``extents``."""
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
    """Yield one or two tilings with smaller tiles of loop class number ``loop``.

    The first tiling has tiles of about half the size. If this half size does not divide the trip
    count, the second tiling has the largest smaller size that divides it and is at least a quarter
    of the half size, if there is one. There is no second tiling for loops over contiguous memory,
    and no tiling if the tiles cannot be smaller. ``extents`` lists the trip count of each loop
    class, ``limits`` the limits on its tile sizes.
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

    On a loop over contiguous memory, it is ``size`` rounded up to whole vectors, or the most whole
    vectors within ``largest``. On another loop, it is the least divisor of ``extent`` from ``size``
    to 1.5 times ``size`` that is at most ``largest``, or ``size`` if there is none. The result is
    at least ``smallest``, even if that exceeds ``largest``.
    """
    if contiguous:
        vectors = min(-(-size // CONTIGUOUS_MINIMUM), largest // CONTIGUOUS_MINIMUM)
        return max(vectors * CONTIGUOUS_MINIMUM, smallest)
    size = max(size, smallest)
    for candidate in range(size, min(largest, size + size // 2) + 1):
        if extent % candidate == 0:
            return candidate
    return size
