"""Runs as a compiled program recorded them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.cpu_image import TaskTable
from rammer_mlir.timeline.spans import Span, Timeline


def measured_timeline(table: TaskTable, times: Sequence[NDArray[np.int64]], title: str) -> Timeline:
    """Name what was recorded.

    Args:
        table: the schedule that was executed.
        times: for each vEU int64 [records, 2], start and end of its records in nanoseconds.
        title: what people read above it.
    """
    recorded = [t for t, items in zip(times, table.items, strict=True) if items]
    begin = min((int(t[0, 0]) for t in recorded), default=0)
    veus = (_veu_spans(table, veu, times[veu], begin) for veu in range(len(times)))
    return Timeline(title, tuple(veus))


def _veu_spans(
    table: TaskTable, veu: int, times: NDArray[np.int64], begin: int
) -> tuple[Span, ...]:
    spans: list[Span] = []
    at = int(table.starts[veu])
    for item, (start, end) in zip(table.items[veu], times.tolist(), strict=False):
        seconds = (start - begin) / 1e9, (end - begin) / 1e9
        if item.is_barrier:
            count = int(table.records[at + 1])
            pairs = table.records[at + 2 : at + 2 + 2 * count].reshape(-1, 2).tolist()
            waits = tuple((other, steps) for other, steps in pairs)
            spans.append(Span(veu, *seconds, "barrier", "barrier", waits=waits))
            at += 2 + 2 * count
        else:
            name, kernel = item.name, item.kernel
            spans.append(Span(veu, *seconds, "rtask", name, kernel, item.first, item.count))
            at += 4
    return tuple(spans)
