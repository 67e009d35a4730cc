"""Searches for the tiling that moves the fewest bytes, with bounded work per rTask.

The greedy refinement in ``choice`` halves the tiles of one loop at a time and never reverts a cut.
This branch-and-bound search starts with the greedy tiling as the incumbent and considers all tile
sizes that cuts of each loop can give. Only a tiling that moves fewer bytes replaces the incumbent.
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
    """Return the tiling whose rTasks together access the fewest bytes; on a tie, ``greedy``.

    Args:
        extents: the trip count of each loop class (loops of several operations that are tiled
            together), outermost first.
        limits: the limits on each class's tile sizes.
        cost: called with the tile size of each class; returns the operations and bytes of one
            rTask.
        greedy: the initial tiling. No other tiling may have more operations per rTask.
        num_bytes: maximum bytes that an rTask may access; at least as many bytes as an rTask of
            ``greedy`` accesses are always allowed.
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
    """The search space of tilings, with one variable for each loop class, outermost first.

    A loop class is a set of loops that are tiled together. The variable is the index of a tile size
    in the list of the possible tile sizes of the class.

    Attributes:
        extents: the trip count of each loop class.
        limits: the limits on tile sizes of each loop class.
        cost: called with a tiling; returns the operations and bytes of one rTask.
        greedy: the initial tiling. No other tiling may have more operations per rTask.
        num_bytes: maximum bytes that an rTask may access; at least as many bytes as an rTask of
            ``greedy`` accesses are always allowed.
    """

    extents: tuple[int, ...]
    limits: tuple[LoopLimit, ...]
    cost: Callable[[Tiling], TileCost]
    greedy: Tiling
    num_bytes: int

    @cached_property
    def _sizes(self) -> tuple[tuple[int, ...], ...]:
        """For each loop class (loops that are tiled together), its possible tile sizes.

        The largest size is first.
        """
        pairs = zip(self.extents, self.limits, strict=True)
        return tuple(tile_sizes(extent, limit) for extent, limit in pairs)

    @property
    def num_choices(self) -> tuple[int, ...]:
        """The number of possible tile sizes of each loop class (loops that are tiled together)."""
        return tuple(map(len, self._sizes))

    def prefix_of(self, tiling: Tiling) -> Prefix:
        """Return for each loop class the index of its tile size among the possible sizes.

        ``tiling`` lists the tile sizes; the loops of a class are tiled together.
        """
        pairs = zip(self._sizes, tiling, strict=True)
        return tuple(sizes.index(size) for sizes, size in pairs)

    def tiling(self, prefix: Prefix) -> Tiling:
        """Return the tiling in which ``prefix`` chooses the tile sizes of the first loop classes.

        ``prefix`` lists indices into the possible tile sizes. All other loop classes have their
        smallest tile size. The loops of a class are tiled together.
        """
        chosen = (sizes[n] for sizes, n in zip(self._sizes, prefix, strict=False))
        return (*chosen, *(sizes[-1] for sizes in self._sizes[len(prefix) :]))

    @cached_property
    def _most(self) -> TileCost:
        greedy = self.cost(self.greedy)
        return TileCost(greedy.operations, max(greedy.num_bytes, self.num_bytes))

    def bound(self, prefix: Prefix) -> float:
        """Return a lower bound on the bytes that all rTasks access, for all tilings with a prefix.

        The bound is the bytes of one rTask times the count of tiles along the loop classes in
        ``prefix``. For the rTask, loop classes outside of ``prefix`` have their smallest tiles. The
        bound is infinite if this rTask exceeds the maximum of operations or bytes. If ``prefix``
        has all loop classes, the result is exact: ``bytes_moved``.

        Args:
            prefix: for each of the first loop classes (loops that are tiled together), the index of
                its tile size among the possible tile sizes.
        """
        smallest = self.tiling(prefix)
        each = self.cost(smallest)
        if each.operations > self._most.operations or each.num_bytes > self._most.num_bytes:
            return inf
        if len(prefix) == len(self.extents):
            return bytes_moved(self.extents, smallest, self.limits, self.cost)
        chosen = slice(len(prefix))
        return num_tiles(self.extents[chosen], smallest[chosen]) * float(each.num_bytes)
