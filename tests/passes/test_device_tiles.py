"""Tests that tile sizes for a device are the best of all tile sizes, by predicted time.

One tiling has the least time on the device, another the least sum of the times of all rTasks.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rammer_mlir.passes.tiling.choice import (
    CONTIGUOUS,
    LoopLimit,
    TileCost,
    Tiling,
    num_tiles,
    refinements,
)
from rammer_mlir.passes.tiling.device_tiles import tiles_for
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device

EXTENTS = (96, 640)
LIMITS = (LoopLimit(), CONTIGUOUS)
DEPTH = 512


def cost(tiling: Tiling) -> TileCost:
    """Return the operations and bytes of a tile of the f32 matrix product that the tests tile.

    ``tiling`` has the tile's numbers of rows and columns.
    """
    m, n = tiling
    return TileCost(2 * m * n * DEPTH, 4 * (m * DEPTH + DEPTH * n + m * n))


def seconds(tiling: Tiling, device: Device) -> tuple[float, float]:
    """Return the predicted time of a tiled product on a device, and the sum of its rTasks' times.

    The product runs alone on the device. Both times are in seconds.
    """
    found, count = cost(tiling), num_tiles(EXTENTS, tiling)
    active = min(count, device.num_veus)
    bandwidth = min(device.bytes_per_second, device.total_bytes_per_second / active)
    arithmetic = found.operations / device.flops_per_second
    each = device.rtask_seconds + max(arithmetic, found.num_bytes / bandwidth)
    return -(-count // device.num_veus) * each, count * each


@pytest.mark.parametrize("num_veus", [1, 7, 132])
def test_against_all_refinements(num_veus: int) -> None:
    device = find_device("h100").device(num_veus)
    most = 4 * num_veus
    path = list(refinements(EXTENTS, LIMITS, cost))
    allowed = [tiling for tiling in path if num_tiles(EXTENTS, tiling) <= most]
    best = min(seconds(tiling, device)[0] for tiling in allowed)
    (fastest,) = tiles_for(device, EXTENTS, LIMITS, cost, 1)
    assert seconds(fastest, device)[0] == pytest.approx(best)
    efficient, *others = tiles_for(device, EXTENTS, LIMITS, cost, 2)
    assert others in ([], [fastest])
    quick = [t for t in allowed if seconds(t, device)[0] <= 2 * best * (1 + 1e-9)]
    least = min(seconds(tiling, device)[1] for tiling in quick)
    assert seconds(efficient, device)[1] == pytest.approx(least)


def test_one_veu_gets_one_rtask_and_many_get_many() -> None:
    description = find_device("h100")
    assert tiles_for(description.device(1), EXTENTS, LIMITS, cost, 2) == [EXTENTS]
    *_, fastest = tiles_for(description.device(132), EXTENTS, LIMITS, cost, 2)
    assert 60 <= num_tiles(EXTENTS, fastest) <= 4 * 132


def test_starts_that_cost_much_make_tiles_coarse() -> None:
    device = find_device("h100").device(132)
    slow = replace(device, rtask_seconds=1e-3)
    *_, usual = tiles_for(device, EXTENTS, LIMITS, cost, 2)
    *_, coarse = tiles_for(slow, EXTENTS, LIMITS, cost, 2)
    assert num_tiles(EXTENTS, coarse) <= 132
    assert num_tiles(EXTENTS, coarse) <= num_tiles(EXTENTS, usual)


def test_nothing_to_do_is_one_rtask() -> None:
    device = find_device("h100").device(132)
    assert tiles_for(device, (0, 64), LIMITS, lambda _: TileCost(0, 0), 2) == [(0, 64)]
