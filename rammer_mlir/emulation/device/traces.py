"""Finds the device memory that the warps of an emulated launch access with each instruction.

A GPU transfers device memory in sectors of 32 bytes. If the lanes of a warp access adjacent
elements (a coalesced access), a sector serves several lanes. If the lanes access distant elements,
a whole sector is transferred for each lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.emulation.records import (
    TRACE_ACCESS_SHIFT,
    TRACE_BLOCK_SHIFT,
    TracedAccess,
    TraceRecord,
)

SECTOR = 32
"""Number of bytes of the smallest transfer of device memory."""

_LANES = 1 << TRACE_BLOCK_SHIFT


@dataclass(frozen=True)
class Trace:
    """The accesses of a launch in the order of their execution.

    Attributes:
        accesses: the loads, stores and copies in the kernel's code, by access index.
        records: uint64 [executions, words], a ``TraceRecord`` for each execution of an access by a
            lane.
        shared: the first address of shared memory; all other memory has lower addresses.
        full: whether the trace was full, so that later accesses were not recorded.
    """

    accesses: tuple[TracedAccess, ...]
    records: NDArray[np.uint64]
    shared: int
    full: bool


@dataclass(frozen=True)
class WarpAccesses:
    """Statistics of the device memory accesses by all executions of a load, store or copy.

    Attributes:
        access: the load, store or copy in the kernel's code.
        executions: the count of executions by warps. A joint execution by lanes of a warp counts
            once.
        lanes: the sum over executions of the count of participating lanes.
        sectors: the sum over executions of the count of accessed sectors.
        needed: the sum over executions of the least count of sectors that can contain the accessed
            elements.
    """

    access: TracedAccess
    executions: int
    lanes: int
    sectors: int
    needed: int


def warp_accesses(trace: Trace, warp: int) -> list[WarpAccesses]:
    """Return the ``WarpAccesses`` of each load, store or copy that accessed device memory.

    The n-th execution of an access by a lane is assumed to be joint with the n-th executions by the
    other lanes of the warp. On a GPU this is true for loops with different trip counts per lane;
    for divergent branches inside a loop it is an approximation.

    Args:
        trace: the accesses of a launch.
        warp: the count of lanes of a warp.
    """
    address = trace.records[:, TraceRecord.ADDRESS]
    who = trace.records[address < trace.shared, TraceRecord.WHO]
    address = address[address < trace.shared]
    order = np.argsort(who, kind="stable")
    who, address = who[order], address[order]
    lane = who % _LANES
    key = np.stack((who - lane, lane // warp, _ranks(who)), axis=1)
    _, instruction = np.unique(key, axis=0, return_inverse=True)
    numbers = (who >> np.uint64(TRACE_ACCESS_SHIFT)).astype(np.int64)
    return [
        _summary(access, instruction[numbers == n], address[numbers == n])
        for n, access in enumerate(trace.accesses)
        if (numbers == n).any()
    ]


def _ranks(sorted_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return, for each element of a sorted array, the count of equal elements that precede it.

    For example, ``[3, 3, 5, 5, 5] -> [0, 1, 0, 1, 2]``.
    """
    places = np.arange(len(sorted_keys))
    begins = np.r_[True, sorted_keys[1:] != sorted_keys[:-1]]
    return (places - np.maximum.accumulate(np.where(begins, places, 0))).astype(np.uint64)


def _summary(
    access: TracedAccess, instruction: NDArray[np.int64], address: NDArray[np.uint64]
) -> WarpAccesses:
    sectors = _distinct(instruction, address // np.uint64(SECTOR))
    elements = _distinct(instruction, address)
    needed = -(-elements * access.num_bytes // SECTOR)
    return WarpAccesses(access, len(elements), len(address), int(sectors.sum()), int(needed.sum()))


def _distinct(instruction: NDArray[np.int64], values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the count of distinct values of each instruction, by ascending instruction index.

    ``instruction`` has, for each element of ``values``, the index of the instruction that accesses
    this value.
    """
    pairs = np.unique(np.stack((instruction.astype(np.uint64), values), axis=1), axis=0)
    return np.unique(pairs[:, 0], return_counts=True)[1]
