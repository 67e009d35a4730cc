"""Runs as a compiled program recorded them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import BarrierRecord, Program, Record
from rammer_mlir.timeline.spans import Span, Timeline


def measured_timeline(
    program: Program,
    times: Sequence[NDArray[np.int64]],
    title: str,
    modules: Mapping[int, str] | None = None,
) -> Timeline:
    """Name what was recorded.

    Args:
        program: the schedule whose only launch was executed.
        times: for each vEU int64 [records, 2], start and end of its records in nanoseconds.
        title: what people read above it.
        modules: code from elsewhere, by the number of the rKernel that it is.
    """
    (launch,) = program.launches
    recorded = [t for t, records in zip(times, launch.veus, strict=True) if records]
    begin = min((int(t[0, 0]) for t in recorded), default=0)
    return Timeline(
        title,
        tuple(
            tuple(
                _span(
                    program, veu, record, (start - begin) / 1e9, (end - begin) / 1e9, modules or {}
                )
                for record, (start, end) in zip(records, found.tolist(), strict=False)
            )
            for veu, (records, found) in enumerate(zip(launch.veus, times, strict=True))
        ),
    )


def _span(
    program: Program,
    veu: int,
    record: Record,
    start: float,
    end: float,
    modules: Mapping[int, str],
) -> Span:
    if isinstance(record, BarrierRecord):
        return Span(veu, start, end, "barrier", "barrier", waits=record.waits)
    operator, kernel = program.operators[record.operator], program.kernel_of(record).name
    return Span(
        veu, start, end, "rtask", operator.name, kernel, record.first, record.count,
        module=modules.get(operator.kernel, ""),
    )  # fmt: skip
