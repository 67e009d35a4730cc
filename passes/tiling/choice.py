"""How finely an rOperator is cut into rTasks.

Starting from one rTask, the loop whose halving moves the least data in total is halved until an
rTask fits the time aimed at, or as a device's times suggest (``device_tiles``). Several aims give
several candidate rKernels: few large rTasks are the most efficient, many small ones the fastest on
an idle device (RAMMER section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Tiling = tuple[int, ...]
"""Tile size of each tileable loop class, outermost first."""


@dataclass(frozen=True)
class Aim:
    """Work of one rTask to aim at: scalar operations and bytes.

    Where one of them is reached, no cut is made for the other one that has all rTasks together move
    much more bytes; for fewer operations only from ``enough`` rTasks on. Nothing stops cuts before
    an rTask touches at most ``memory`` bytes (0: any number).
    """

    operations: int
    num_bytes: int
    enough: int = 1 << 62
    memory: int = 0

    def is_met(self, cost: TileCost) -> bool:
        """Whether an rTask is small enough in both."""
        return cost.operations <= self.operations and self.is_light(cost)

    def is_light(self, cost: TileCost) -> bool:
        """Whether an rTask touches few enough bytes."""
        return cost.num_bytes <= self.num_bytes and self.is_held(cost)

    def is_held(self, cost: TileCost) -> bool:
        """Whether the memory holds what an rTask touches."""
        return cost.num_bytes <= (self.memory or cost.num_bytes)

    def is_partly_met(self, cost: TileCost, num_rtasks: int) -> bool:
        """Whether what is left to reach is not worth many more bytes."""
        enough = cost.operations <= self.operations or (
            num_rtasks >= self.enough and self.is_light(cost)
        )
        return enough and self.is_held(cost)


def aims(work: int, enough: int = 0) -> tuple[Aim, ...]:
    """Return the aims of candidate rKernels, coarse to fine, for ``work`` operations at first.

    ``enough`` is that of the first one, 0 for none. The last one is for rKernels that so many
    rOperators run that small pieces to fill gaps with are worth another one.
    """
    return (
        Aim(work, work // _OPERATIONS_PER_BYTE, enough or 1 << 62),
        *(Aim(work // n, work // n // _OPERATIONS_PER_BYTE) for n in (_FINER, _FINEST)),
    )


_OPERATIONS_PER_BYTE = 4
"""What a CPU core computes while it moves a byte."""

_FINER = 8
"""How many times less work an rTask of the finer candidate is."""

_FINEST = 32
"""How many times less work an rTask of the finest candidate is."""

_MUCH_MORE = 1.4
"""How many times more bytes are much more."""

_RAGGED = 1.25
"""How much worse a tiling is for each loop that it does not divide."""

_FEWEST_OF_HALF = 4
"""A loop that cannot be cut in two equal parts is cut into up to so many times two."""

CONTIGUOUS_MINIMUM = 32
"""Elements kept together along a loop that walks contiguous memory: two AVX-512 registers."""


@dataclass(frozen=True)
class TileCost:
    """Scalar operations and bytes of one full rTask."""

    operations: int
    num_bytes: int


@dataclass(frozen=True)
class LoopLimit:
    """How a loop may be cut: into whole vectors where it is contiguous, nowhere below a size."""

    contiguous: bool = False
    smallest: int = 1


CONTIGUOUS = LoopLimit(True, CONTIGUOUS_MINIMUM)
"""The limit of a loop that walks contiguous memory."""


def choose(
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    aim: Aim,
) -> Tiling:
    """Return the tile sizes for one aim."""
    if 0 in extents:  # nothing to do is one rTask
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
            if after > _MUCH_MORE * before:
                return tiling
        tiling = finer


def refinements(
    extents: Sequence[int], limits: Sequence[LoopLimit], cost: Callable[[Tiling], TileCost]
) -> Iterator[Tiling]:
    """Yield tile sizes from one rTask on, each time cutting what moves the least data in total."""
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
    """Return the number of rTasks."""
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
    """Return the bytes that all rTasks move, counted higher where the last ones are smaller.

    Loops of a size that only the run knows make slower code, in all rTasks; not so where they are
    vectors, of which the last one is masked.
    """
    ragged = sum(
        not limit.contiguous and tile > 0 and extent % tile > 0
        for extent, tile, limit in zip(extents, tiling, limits, strict=True)
    )
    return num_tiles(extents, tiling) * cost(tiling).num_bytes * _RAGGED**ragged


def tile_sizes(extent: int, limit: LoopLimit) -> tuple[int, ...]:
    """Return the sizes that cuts of a loop lead to, from the whole loop on, largest first."""
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
    """Yield the tiling with a loop cut in two, and into equal parts where halves are not equal."""
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
    """Prefer a divisor of the extent near ``size``, and whole vectors on contiguous loops.

    The result is at least ``smallest`` and, where that allows it, at most ``largest``.
    """
    if contiguous:
        vectors = min(-(-size // CONTIGUOUS_MINIMUM), largest // CONTIGUOUS_MINIMUM)
        return max(vectors * CONTIGUOUS_MINIMUM, smallest)
    size = max(size, smallest)
    for candidate in range(size, min(largest, size + size // 2) + 1):
        if extent % candidate == 0:
            return candidate
    return size
