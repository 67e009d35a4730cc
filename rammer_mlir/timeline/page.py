"""Shows timelines as an HTML page that is a single file and needs no network or server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from rammer_mlir.timeline.critical_path import Segment, critical_path
from rammer_mlir.timeline.spans import Span, Timeline

_TEMPLATE = Path(__file__).with_name("page.html")
_PLACE = "@TIMELINES@"
_EXPLANATION = "@EXPLANATION@"


def page(timelines: Sequence[Timeline], explanation: str = "") -> bytes:
    """Return an HTML page that shows timelines on a common time axis.

    The page has Gantt charts, details of spans, critical paths, the shares of activities, and the
    text ``explanation``.
    """
    data = json.dumps([_timeline(timeline) for timeline in timelines], separators=(",", ":"))
    template = _TEMPLATE.read_text(encoding="utf-8")
    # A name may contain the end tag of the script element.
    text = f"<h2>Explanation</h2><pre>{escape(explanation)}</pre>" if explanation else ""
    filled = template.replace(_EXPLANATION, text)
    return filled.replace(_PLACE, data.replace("<", "\\u003c")).encode()


def _timeline(timeline: Timeline) -> dict[str, object]:
    names = _Numbers()
    shares = timeline.shares
    path = critical_path(timeline)
    return {
        "title": timeline.title,
        "microseconds": timeline.seconds * 1e6,
        "working": shares.working * 1e6,
        "waiting": shares.waiting * 1e6,
        "idle": shares.idle * 1e6,
        "veus": [[_span(span, names) for span in veu] for veu in timeline.veus],
        "path": [[s.veu, s.index, _round(s.start), _round(s.end)] for s in path],
        "pathWorking": _path_seconds(timeline, path) * 1e6,
        "names": names.all,
    }


def _path_seconds(timeline: Timeline, path: Iterable[Segment]) -> float:
    """Return the seconds that rTasks, without waits, take on a timeline's critical path."""
    return sum(s.end - s.start for s in path if timeline.veus[s.veu][s.index].kind == "rtask")


def _span(span: Span, names: _Numbers) -> list[object]:
    """Return a span for the page's JSON as a list, which is shorter than an object.

    The list begins with the start and the end in microseconds and the index of the span's name in
    ``names``. For rTasks, the list continues with the index of the rKernel's name, the index of
    the first rTask, and the count of rTasks. For a wait or a launch, the last element is a list
    with the pairs (vEU, steps) one after another: ``steps`` rTasks of the vEU have to be complete.
    """
    times = _round(span.start), _round(span.end)
    if span.kind == "rtask":
        module = f" of module '{span.module}'" if span.module else ""
        module += " on the whole device" if span.is_exclusive else ""
        name, kernel = names.number(span.name), names.number(f"{span.kernel}{module}")
        return [*times, name, kernel, span.first, span.count]
    return [*times, names.number(span.name), [number for wait in span.waits for number in wait]]


def _round(seconds: float) -> float:
    """Return ``seconds`` in microseconds, rounded to three decimals."""
    return round(seconds * 1e6, 3)


class _Numbers:
    """A table of texts, numbered in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        return list(self._numbers)
