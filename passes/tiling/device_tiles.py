"""Chooses tile sizes for a device with many vEUs, such as a GPU's multiprocessors.

On such a device, a single rOperator should occupy all vEUs. The candidates are two tilings among
all ``refinements``, by times that the device description predicts (RAMMER paper, section 3.3):

- the fastest tiling: the least time of the rOperator, with its rTasks on all vEUs
- the most efficient tiling: the least sum of the times of all rTasks, among the tilings with at
  most twice the time of the fastest
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from rammer_mlir.passes.tiling.choice import LoopLimit, TileCost, Tiling, num_tiles, refinements
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

_SLOWEST = 2.0
"""Maximum ratio of the most efficient rKernel's time to that of the fastest rKernel."""

_MOST_TILES = 4
"""Maximum number of rTasks per vEU; finer tiles only add start-up costs."""


def tiles_for(
    device: Device,
    extents: Sequence[int],
    limits: Sequence[LoopLimit],
    cost: Callable[[Tiling], TileCost],
    candidates: int,
) -> list[Tiling]:
    """Return the most efficient and the fastest tiling on a device; only one if they are equal.

    The fastest tiling minimizes the time of the rOperator, with its rTasks on all vEUs. The most
    efficient tiling minimizes the sum of the times of all rTasks, among the tilings with at most
    twice the time of the fastest.

    Args:
        device: the device.
        extents: the trip count of each loop class: loops of several operations that are tiled
            together.
        limits: the limits on each class's tile sizes.
        cost: called with the tile size of each class; returns the operations and bytes of one
            rTask.
        candidates: maximum count of tilings to return; 1 for the fastest tiling only.
    """
    if 0 in extents:  # an empty iteration space is one rTask
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
    """Return an rKernel for estimates, with only the costs and the rTasks of the fastest tiling.

    The rKernel has no boxes, and so its rTasks have no data dependencies.

    Args:
        device: the device on which the tiling is the fastest.
        extents: the trip count of each loop class: loops of several operations that are tiled
            together.
        limits: the limits on each class's tile sizes.
        cost: called with the tile size of each class; returns the operations and bytes of one
            rTask.
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
