"""Writes timelines for Perfetto and Chrome (the Trace Event Format)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rammer_mlir.timeline.spans import Span, Timeline


def trace_events(timelines: Sequence[Timeline]) -> bytes:
    """Return timelines as JSON in the Trace Event Format, with times in microseconds.

    Each timeline is a process, and each vEU a thread.
    """
    events: list[dict[str, object]] = []
    for process, timeline in enumerate(timelines):
        name = {"name": timeline.title}
        events.append({"ph": "M", "name": "process_name", "pid": process, "args": name})
        for veu in range(len(timeline.veus)):
            thread = {"ph": "M", "name": "thread_name", "pid": process, "tid": veu}
            events.append({**thread, "args": {"name": f"vEU {veu}"}})
        events.extend(_event(process, span) for span in timeline.spans)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}).encode()


def _event(process: int, span: Span) -> dict[str, object]:
    event: dict[str, object] = {
        "ph": "X",
        "pid": process,
        "tid": span.veu,
        "ts": span.start * 1e6,
        "dur": span.seconds * 1e6,
        "name": span.name,
        "cat": span.kind,
    }
    if span.kind != "rtask":
        return {**event, "cname": "terrible"}
    details = {"rKernel": span.kernel, "rTasks": rtask_range(span)}
    if not span.module:
        return {**event, "args": details}
    details["module"] = span.module
    if span.is_exclusive:
        details["grain"] = "device"
    return {**event, "cat": f"{span.kind},external", "args": details}


def rtask_range(span: Span) -> str:
    """Return the indices of a span's rTasks as text, such as ``3`` or ``3-7``."""
    last = span.first + span.count - 1
    return str(span.first) if span.count == 1 else f"{span.first}-{last}"
