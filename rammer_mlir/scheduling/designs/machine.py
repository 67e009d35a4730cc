"""Defines the vEUs and lanes of a design search, and lists the possible mappings of a loop.

The search maps each class of coupled loops of a fused group to vEUs, lanes, both or neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rammer_mlir.scheduling.device_costs import Device

VECTOR_LANES = 16
"""The number of f32 elements in an AVX-512 register."""

BLOCK_LANES = 256
"""The number of threads of a GPU's block, the default of the pass `rtask-map-to-threads`."""

_VECTOR_MEETING_SECONDS = 5e-9
"""Seconds of a horizontal reduction of a vector: about 15 cycles at 3 GHz."""

_LANES_MEETING_SECONDS = 1e-7
"""Seconds of a butterfly reduction over a warp: five shuffles of about 30 cycles at 1.5 GHz each.
"""


@dataclass(frozen=True)
class Choice:
    """A mapping of a loop to rTasks and lanes.

    Attributes:
        name: the mapping in printed designs: ``rTask``, ``lanes`` (or ``vector``), ``both``,
            ``serial``, or a tile such as ``rTask of 8``.
        tile: number of iterations of the loop that each rTask executes.
        by_lanes: whether the lanes of a vEU execute these iterations in parallel; if not, they run
            in sequence.
    """

    name: str
    tile: int
    by_lanes: bool


@dataclass(frozen=True)
class Machine:
    """The vEUs and lanes to which the loops of a fused group are mapped.

    Attributes:
        units: number of vEUs, which execute rTasks in parallel.
        lanes: number of lanes of a vEU: threads of a block, or elements of a vector.
        step_seconds: time in which each lane of a vEU executes a scalar operation.
        meeting_seconds: time to combine the partial reductions of a vEU's lanes, per result.
        start_seconds: time of a barrier or launch. A barrier or launch comes before each unit of
            the group; a unit is a part between two barriers (``Decided.units``).
        task_seconds: time to start an rTask.
        bytes_per_second: memory bandwidth of a vEU if no other vEU uses the memory.
        total_bytes_per_second: memory bandwidth of all vEUs together.
        is_vector: whether lanes are elements of a vector: then only contiguous loops can use lanes,
            and no loop has the mapping ``both``.
    """

    units: int
    lanes: int
    step_seconds: float
    meeting_seconds: float = 0.0
    start_seconds: float = 0.0
    task_seconds: float = 0.0
    bytes_per_second: float = float("inf")
    total_bytes_per_second: float = float("inf")
    is_vector: bool = False

    def choices(self, extent: int, *, may_spread: bool, tiles: bool = False) -> tuple[Choice, ...]:
        """Return the possible mappings of a loop, in order of preference among equal costs.

        Args:
            extent: number of iterations of the loop.
            may_spread: whether the loop's iterations may be distributed over rTasks.
            tiles: whether an rTask may also execute a half, a quarter and so on of the iterations.
        """
        lanes = Choice("vector" if self.is_vector else "lanes", extent, by_lanes=True)
        serial = Choice("serial", extent, by_lanes=False)
        spread = self._spread(extent, tiles=tiles) if may_spread else ()
        return (lanes, *spread, serial)

    def _spread(self, extent: int, *, tiles: bool) -> Iterator[Choice]:
        yield Choice("rTask", 1, by_lanes=False)
        if not self.is_vector:
            yield Choice("both", min(extent, self.lanes), by_lanes=True)
        name = "vector" if self.is_vector else "lanes"
        for tile in _halves(extent) if tiles else ():
            yield Choice(f"rTask of {tile}", tile, by_lanes=False)
            yield Choice(f"rTask of {tile}, {name}", tile, by_lanes=True)


def _halves(extent: int) -> Iterator[int]:
    tile = -(-extent // 2)
    while 1 < tile < extent:
        yield tile
        extent, tile = tile, -(-tile // 2)


def machine_of(device: Device) -> Machine:
    """Return the vEUs and lanes of a device, with their times, for a design search.

    The lanes are threads of a block, or elements of a vector if a vEU is a single thread.
    """
    is_vector = device.max_threads == 1
    lanes = VECTOR_LANES if is_vector else min(BLOCK_LANES, device.max_threads)
    return Machine(
        units=device.num_veus,
        lanes=lanes,
        step_seconds=lanes / device.flops_per_second,
        meeting_seconds=_VECTOR_MEETING_SECONDS if is_vector else _LANES_MEETING_SECONDS,
        start_seconds=device.barrier_seconds,
        task_seconds=device.rtask_seconds,
        bytes_per_second=device.bytes_per_second,
        total_bytes_per_second=device.total_bytes_per_second,
        is_vector=is_vector,
    )
