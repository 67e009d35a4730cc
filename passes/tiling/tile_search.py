"""Tile sizes by search: the tiling that moves the fewest bytes, in rTasks no larger than asked for.

The greedy refinement of ``choice`` halves one loop after the other, and never takes a cut back. The
search starts from its tiling as the incumbent and looks at all sizes that cuts of each loop lead
to. What is not better than the incumbent does not replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from rammer_mlir.passes.tiling.choice import (
    LoopLimit,
    TileCost,
    Tiling,
    bytes_moved,
    num_tiles,
    tile_sizes,
)
from rammer_mlir.scheduling.designs.search import Design, Prefix, search


def search_tiling(
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    greedy: Tiling,
    num_bytes: int,
) -> Tiling:
    """Return the tiling that moves the fewest bytes in total, ``greedy`` if none moves fewer.

    Args:
        extents: of each tileable loop class, outermost first.
        limits: how each may be cut.
        cost: work of one rTask of a tiling.
        greedy: the tiling to start from; no rTask does more operations than one of its.
        num_bytes: that an rTask may touch, where one of the greedy tiling does not touch more.
    """
    if 0 in extents:
        return greedy
    space = _TileSpace(tuple(extents), tuple(limits), cost, greedy, num_bytes)
    choices = space.prefix_of(greedy)
    incumbent = Design(0, choices, space.bound(choices))
    found = search([space], incumbent).design
    return space.tiling(found.choices) if found.cost < incumbent.cost else greedy


@dataclass(frozen=True)
class _TileSpace:
    """The tilings of a computation; a variable is a loop class, the outermost first."""

    extents: tuple[int, ...]
    limits: tuple[LoopLimit, ...]
    cost: Callable[[Tiling], TileCost]
    greedy: Tiling
    num_bytes: int

    @cached_property
    def _sizes(self) -> tuple[tuple[int, ...], ...]:
        """Tile sizes of each variable, largest first."""
        pairs = zip(self.extents, self.limits, strict=True)
        return tuple(tile_sizes(extent, limit) for extent, limit in pairs)

    @property
    def num_choices(self) -> tuple[int, ...]:
        """Number of choices of each variable."""
        return tuple(map(len, self._sizes))

    def prefix_of(self, tiling: Tiling) -> Prefix:
        """Return the choices that are a tiling."""
        pairs = zip(self._sizes, tiling, strict=True)
        return tuple(sizes.index(size) for sizes, size in pairs)

    def tiling(self, prefix: Prefix) -> Tiling:
        """Return the tile sizes of choices; the smallest ones where there is no choice yet."""
        chosen = (sizes[n] for sizes, n in zip(self._sizes, prefix, strict=False))
        return (*chosen, *(sizes[-1] for sizes in self._sizes[len(prefix) :]))

    @cached_property
    def _most(self) -> TileCost:
        greedy = self.cost(self.greedy)
        return TileCost(greedy.operations, max(greedy.num_bytes, self.num_bytes))

    def bound(self, prefix: Prefix) -> float:
        """Return the bytes that all rTasks move at least; infinitely many where one does too much.

        Boxes are never smaller than those of the smallest tiles, nor rTasks fewer than the tiles of
        the classes that have a choice.
        """
        smallest = self.tiling(prefix)
        each = self.cost(smallest)
        if each.operations > self._most.operations or each.num_bytes > self._most.num_bytes:
            return inf
        if len(prefix) == len(self.extents):
            return bytes_moved(self.extents, smallest, self.limits, self.cost)
        chosen = slice(len(prefix))
        return num_tiles(self.extents[chosen], smallest[chosen]) * float(each.num_bytes)
