"""Makes timelines from the times that a compiled program recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.programs.records import BarrierRecord, Program, Record
from rammer_mlir.timeline.spans import Span, Timeline


def measured_timeline(
    program: Program,
    times: Sequence[NDArray[np.int64]],
    title: str,
    modules: Mapping[int, str] | None = None,
    exclusive: Collection[int] = (),
) -> Timeline:
    """Return the timeline of a recorded run; its spans have the names of rOperators.

    A record is an entry of a vEU's table: consecutive rTasks of an rKernel, or a wait.

    Args:
        program: the program that ran; it has a single launch.
        times: for each vEU an int64 array [records, 2] with the start and the end of each record,
            in nanoseconds.
        title: heading of the timeline.
        modules: names of the external modules that implement rKernels, by rKernel index.
        exclusive: indices of rKernels whose rTasks use the whole device.
    """
    (launch,) = program.launches
    recorded = [t for t, records in zip(times, launch.veus, strict=True) if records]
    begin = min((int(t[0, 0]) for t in recorded), default=0)
    named = _Named(program, modules or {}, exclusive)
    return Timeline(
        title,
        tuple(
            tuple(
                named.span(veu, record, (start - begin) / 1e9, (end - begin) / 1e9)
                for record, (start, end) in zip(records, found.tolist(), strict=False)
            )
            for veu, (records, found) in enumerate(zip(launch.veus, times, strict=True))
        ),
    )


@dataclass(frozen=True)
class _Named:
    """Makes the spans of a timeline from a program's records, with the names of its rOperators.

    Attributes:
        program: the program that ran, with the names of its rOperators and rKernels.
        modules: names of the external modules that implement rKernels, by rKernel index.
        exclusive: the indices of rKernels whose rTasks use the whole device.
    """

    program: Program
    modules: Mapping[int, str]
    exclusive: Collection[int]

    def span(self, veu: int, record: Record, start: float, end: float) -> Span:
        """Return the span of a record of a vEU; ``start`` and ``end`` are in seconds.

        The span of a wait has the name ``barrier`` in place of an rOperator's name.
        """
        if isinstance(record, BarrierRecord):
            return Span(veu, start, end, "barrier", "barrier", waits=record.waits)
        operator = self.program.operators[record.operator]
        return Span(
            veu, start, end, "rtask", operator.name, self.program.kernel_of(record).name,
            record.first, record.count, module=self.modules.get(operator.kernel, ""),
            is_exclusive=operator.kernel in self.exclusive,
        )  # fmt: skip
