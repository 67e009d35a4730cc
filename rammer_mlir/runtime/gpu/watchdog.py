"""What a watchdog's buffer says, in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.cpu_image import TraceItem
from rammer_mlir.programs.gpu_image import GpuImage, WatchWord

_BARRIER, _RUN_WORDS = -1, 5
"""Kind of a barrier's record, and words of a run's (see lowering/gpu/program/task_table)."""


def check_watch(image: GpuImage, watch: NDArray[np.int64]) -> None:
    """Raise ``TargetError`` if a waiting vEU has lost patience.

    Args:
        image: the program.
        watch: int64, the buffer after a run.
    """
    if not watch[WatchWord.CLAIMS]:
        return
    veu, awaited, position, run = (
        int(watch[word])
        for word in (WatchWord.VEU, WatchWord.AWAITED, WatchWord.POSITION, WatchWord.RUN)
    )
    before = run * int(image.tables[0][image.num_veus + awaited])
    expected = int(watch[WatchWord.EXPECTED]) - before
    seen = int(watch[WatchWord.SEEN]) - before
    raise TargetError(
        f"watchdog: vEU {veu}, before {_waiting(image, veu, position)}, waited in vain for step "
        f"{expected} of vEU {awaited} ({_step(image.items[awaited], expected)}), which is at step "
        f"{seen}, in run {run + 1}; raise the watchdog's limit, or look for what keeps vEU "
        f"{awaited}"
    )


def _step(items: tuple[TraceItem, ...], step: int) -> str:
    """Name the rOperator whose rTask is a vEU's step of this number, from 1."""
    done = 0
    for item in items:
        done += item.count
        if done >= step:
            return f"rOperator '{item.name}'"
    return "no rTask of this program"


def _waiting(image: GpuImage, veu: int, position: int) -> str:
    """Name what a vEU wants to do after the barrier whose pairs stand at a position."""
    table = image.tables[0]
    pc = int(table[veu])
    for number, item in enumerate(image.items[veu]):
        size = 2 + 2 * int(table[pc + 1]) if int(table[pc]) == _BARRIER else _RUN_WORDS
        if item.is_barrier and pc < position <= pc + size:
            later = image.items[veu][number + 1 :]
            return next((f"rOperator '{i.name}'" for i in later if not i.is_barrier), "its end")
        pc += size
    return "its end"
