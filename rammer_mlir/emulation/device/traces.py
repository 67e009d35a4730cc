"""What an emulated launch accessed: the device memory that each instruction of a warp touches.

Device memory is moved in sectors of 32 bytes. An instruction of a warp whose lanes read
neighbouring elements moves no more sectors than it uses; one whose lanes read far apart moves a
sector for each lane.
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
"""Bytes that device memory moves at once."""

_LANES = 1 << TRACE_BLOCK_SHIFT


@dataclass(frozen=True)
class Trace:
    """The accesses of one launch, in order of time.

    Attributes:
        accesses: what records refer to.
        records: a row of ``TraceRecord``'s words for each access of a lane, uint64.
        shared: addresses from which on memory is shared memory.
        full: whether later accesses were left out.
    """

    accesses: tuple[TracedAccess, ...]
    records: NDArray[np.uint64]
    shared: int
    full: bool


@dataclass(frozen=True)
class WarpAccesses:
    """How all warps' executions of an access touched device memory.

    Attributes:
        access: the access.
        executions: instructions of a warp.
        lanes: lanes that took part, summed over executions.
        sectors: sectors that were touched, summed over executions.
        needed: sectors that would hold what was touched, summed over executions.
    """

    access: TracedAccess
    executions: int
    lanes: int
    sectors: int
    needed: int


def warp_accesses(trace: Trace, warp: int) -> list[WarpAccesses]:
    """Group a trace's accesses of device memory by instructions of warps.

    The n-th execution of an access by a lane belongs to the n-th one by the other lanes of its
    warp. Where lanes of a warp go through a loop a different number of times, that is what a GPU
    does, too; where they branch apart inside of it, it is an approximation.

    Args:
        trace: a launch's accesses.
        warp: lanes of a warp.
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
    """Return for each key how many equal ones come before it."""
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
    """Count the different values of each instruction."""
    pairs = np.unique(np.stack((instruction.astype(np.uint64), values), axis=1), axis=0)
    return np.unique(pairs[:, 0], return_counts=True)[1]
