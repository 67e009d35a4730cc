"""Traces of an emulated launch: the device memory that each instruction of a warp touches.

Device memory is transferred in sectors of 32 bytes. A coalesced access of a warp, whose lanes touch
adjacent elements, transfers only needed sectors; lanes that touch distant elements transfer a
sector each.
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
"""Number of bytes of a memory transfer."""

_LANES = 1 << TRACE_BLOCK_SHIFT


@dataclass(frozen=True)
class Trace:
    """The accesses of a launch in order of time.

    Attributes:
        accesses: the kernel's accesses, by number.
        records: a row of ``TraceRecord``'s words for each access of a lane, uint64.
        shared: first address of shared memory.
        full: whether later accesses were dropped.
    """

    accesses: tuple[TracedAccess, ...]
    records: NDArray[np.uint64]
    shared: int
    full: bool


@dataclass(frozen=True)
class WarpAccesses:
    """Device memory touched by an access, over all executions by all warps.

    Attributes:
        access: the access.
        executions: number of executed instructions, counted per warp.
        lanes: number of participating lanes, summed over executions.
        sectors: number of touched sectors, summed over executions.
        needed: fewest sectors that could contain the touched elements, summed over executions.
    """

    access: TracedAccess
    executions: int
    lanes: int
    sectors: int
    needed: int


def warp_accesses(trace: Trace, warp: int) -> list[WarpAccesses]:
    """Group a trace's accesses of device memory by instructions of warps; return their sums.

    The n-th execution of an access by a lane is grouped with the n-th executions by the other lanes
    of its warp. For loops with different trip counts per lane this equals a GPU's behaviour; for
    divergent branches inside a loop it is an approximation.

    Args:
        trace: a launch's accesses.
        warp: number of lanes of a warp.
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
    """Return for each key the number of equal keys before it."""
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
    """Return for each instruction number the number of its distinct ``values``."""
    pairs = np.unique(np.stack((instruction.astype(np.uint64), values), axis=1), axis=0)
    return np.unique(pairs[:, 0], return_counts=True)[1]
