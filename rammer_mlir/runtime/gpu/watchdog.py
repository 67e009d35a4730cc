"""Reads the buffer in which a GPU program's watchdog reports a wait that timed out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuImage
from rammer_mlir.programs.gpu_table import WAITS_AT, place_records
from rammer_mlir.programs.native_interface import WatchWord
from rammer_mlir.programs.records import Program, RunRecord


def check_watch(image: GpuImage, watch: NDArray[np.int64]) -> None:
    """Raise ``TargetError`` if a vEU waited longer than the watchdog's limit.

    Args:
        image: the program.
        watch: the watchdog's buffer after a run, indexed by ``WatchWord``.
    """
    if not watch[WatchWord.CLAIMS]:
        return
    veu, awaited, position, run = (
        int(watch[word])
        for word in (WatchWord.VEU, WatchWord.AWAITED, WatchWord.POSITION, WatchWord.RUN)
    )
    before = run * image.program.launches[0].totals[awaited]
    expected = int(watch[WatchWord.EXPECTED]) - before
    seen = int(watch[WatchWord.SEEN]) - before
    waiting = _waiting(image.program, veu, position)
    step = _step(image.program, awaited, expected)
    raise TargetError(
        f"watchdog: vEU {veu}, before {waiting}, waited in vain for step "
        f"{expected} of vEU {awaited} ({step}), which is at step "
        f"{seen}, in run {run + 1}; raise the watchdog's limit, or look for what keeps vEU "
        f"{awaited}"
    )


def _step(program: Program, veu: int, step: int) -> str:
    """Return the name of the rOperator whose rTask is step ``step`` of a vEU.

    Steps count from 1. If the vEU has fewer steps, return "no rTask of this program".
    """
    done = 0
    for record in program.launches[0].veus[veu]:
        if isinstance(record, RunRecord):
            done += record.count
            if done >= step:
                return _named(program, record)
    return "no rTask of this program"


def _waiting(program: Program, veu: int, position: int) -> str:
    """Return a text that names the first rOperator after a barrier of vEU ``veu``.

    ``position`` is the barrier's position in the task table, as the index of a word. If no
    rOperator follows, the text is "its end", which is the end of the vEU's list.
    """
    later = (
        placed.record
        for placed in place_records(program.launches[0])[veu]
        if placed.position + WAITS_AT > position and isinstance(placed.record, RunRecord)
    )
    return next((_named(program, record) for record in later), "its end")


def _named(program: Program, record: RunRecord) -> str:
    return f"rOperator '{program.operators[record.operator].name}'"
