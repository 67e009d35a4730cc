"""Finds the critical path of a run: the chain of rTasks and waits that set its duration."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from rammer_mlir.timeline.spans import Span, Timeline


@dataclass(frozen=True)
class Segment:
    """A segment of the critical path: a vEU's span (an activity), or a part of the span.

    Attributes:
        veu: the vEU of the span.
        index: index of the span among those of the vEU.
        start: beginning of the segment, in seconds.
        end: end of the segment, in seconds.
    """

    veu: int
    index: int
    start: float
    end: float


def critical_path(timeline: Timeline) -> tuple[Segment, ...]:
    """Return the critical path in order of time.

    The path is traced back from the span that ended last. The predecessor of a span is usually the
    previous span of the same vEU. If the span is a barrier or launch that had to wait, the
    predecessor is the span of the awaited rTask that ended last.
    """
    lanes = [_Lane(spans) for spans in timeline.veus]
    last = [(lane.spans[-1].end, veu) for veu, lane in enumerate(lanes) if lane.spans]
    if not last:
        return ()
    veu = max(last)[1]
    index, until = len(lanes[veu].spans) - 1, lanes[veu].spans[-1].end
    path: list[Segment] = []
    while index >= 0:
        span = lanes[veu].spans[index]
        awaited = max(
            ((lanes[other].end(steps), other, steps) for other, steps in span.waits),
            default=(span.start, veu, 0),
        )
        # A launch starts when the rTask that it awaits ends.
        if span.waits and awaited[0] >= span.start:
            # A trace records an rTask's end after it is published: a reader may start earlier.
            met = min(awaited[0], until)
            path.append(Segment(veu, index, met, until))
            veu, until = awaited[1], met
            index = lanes[veu].find(awaited[2])
        else:
            path.append(Segment(veu, index, min(span.start, until), until))
            until = min(span.start, until)
            index -= 1
    return tuple(reversed(path))


class _Lane:
    """The spans of a vEU, and for each span the number of rTasks completed at its end."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        self.spans = spans
        self._done: list[int] = []
        done = 0
        for span in spans:
            done += span.count
            self._done.append(done)

    def find(self, steps: int) -> int:
        """Return the index of the span that contains the vEU's rTask ``steps``, counted from 1."""
        return bisect_left(self._done, steps)

    def end(self, steps: int) -> float:
        """Return the time in seconds at which the vEU has completed ``steps`` rTasks.

        The rTasks of a span are assumed to take equally long.
        """
        index = self.find(steps)
        span = self.spans[index]
        missing = self._done[index] - steps
        return span.end - missing * span.seconds / span.count
