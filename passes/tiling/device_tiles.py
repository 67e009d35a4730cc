"""How finely an rOperator is cut for a device whose vEUs are many: a GPU's multiprocessors.

On such a device, an operator alone should fill the vEUs, and a tile's size follows from the time
that the device description predicts: of all refinements from one rTask on, candidates are the one
with the smallest time for the operator by itself (the fastest), and the one that occupies vEUs
least, summed over all rTasks, as long as it takes no more than twice that time (the most efficient;
RAMMER section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from rammer_mlir.passes.tiling.choice import LoopLimit, TileCost, Tiling, num_tiles, refinements
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device import Device
from rammer_mlir.scheduling.graph import RKernel

_SLOWEST = 2.0
"""Of the most efficient rKernel's time to the fastest one's."""

_MOST_TILES = 4
"""rTasks for each vEU beyond which finer tiles only cost more starts."""


def tiles_for(
    device: Device,
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    candidates: int,
) -> list[Tiling]:
    """Return at most ``candidates`` tilings, the most efficient one first.

    Args:
        device: what the tiles are for.
        extents: of each tileable loop class.
        limits: how each may be cut.
        cost: work of one rTask of a tiling.
        candidates: 1 for the fastest one alone.
    """
    if 0 in extents:  # nothing to do is one rTask
        return [tuple(extents)]
    most = _MOST_TILES * device.num_veus
    path = refinements(extents, limits, cost)
    tilings = list(takewhile(lambda t: num_tiles(extents, t) <= most, path))
    tilings = tilings or [tuple(extents)]
    counts = [num_tiles(extents, tiling) for tiling in tilings]
    each = [
        _seconds(cost(tiling), count, device) for tiling, count in zip(tilings, counts, strict=True)
    ]
    total = [
        -(-count // device.num_veus) * seconds for count, seconds in zip(counts, each, strict=True)
    ]
    numbers = range(len(tilings))
    fastest = min(numbers, key=lambda n: (total[n], n))
    allowed = [n for n in numbers if total[n] <= _SLOWEST * total[fastest]]
    efficient = min(allowed, key=lambda n: (counts[n] * each[n], n))
    chosen = [efficient, fastest] if candidates > 1 else [fastest]
    return [tilings[n] for n in dict.fromkeys(chosen)]


def estimated_kernel(
    device: Device,
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
) -> RKernel:
    """Return the cost of the fastest tiling on a device, as an rKernel without boxes.

    Args:
        device: what it is for.
        extents: of each tileable loop class.
        limits: how each may be cut.
        cost: work of one rTask of a tiling.
    """
    (tiling,) = tiles_for(device, extents, limits, cost, 1)
    return _kernel(cost(tiling), num_tiles(extents, tiling) if all(extents) else 1)


def _seconds(cost: TileCost, count: int, device: Device) -> float:
    return rtask_seconds(_kernel(cost, count), device)


def _kernel(cost: TileCost, count: int) -> RKernel:
    return RKernel(
        name="estimate",
        num_rtasks=count,
        reads=(),
        writes=(),
        flops_per_rtask=cost.operations,
        bytes_per_rtask=cost.num_bytes,
    )
