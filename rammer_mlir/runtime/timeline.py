"""Measured runs as traces for Perfetto and Chrome (the Trace Event Format)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rammer_mlir.atomic_file import write_atomically
from rammer_mlir.image import CpuImage, TraceItem


class Trace:
    """Buffers for the start and end of every record of every vEU in one run."""

    def __init__(self, image: CpuImage) -> None:
        """Allocate two 64-bit numbers, nanoseconds, for each record."""
        self._image = image
        self._times = [
            np.zeros((max(len(items), 1), 2), dtype=np.int64) for items in image.table.items
        ]
        self.addresses = np.array([times.ctypes.data for times in self._times], dtype=np.uint64)

    def events(self) -> list[dict[str, Any]]:
        """Return the run as trace events, in microseconds from its first record."""
        begin = min(
            (int(t[0, 0]) for t, i in zip(self._times, self._image.table.items, strict=True) if i),
            default=0,
        )
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cpu"}}
        ]
        for veu, (items, times) in enumerate(
            zip(self._image.table.items, self._times, strict=True)
        ):
            name = {"name": f"vEU {veu}"}
            events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": veu, "args": name})
            for item, (start, end) in zip(items, times.tolist(), strict=False):
                events.append(_event(item, veu, (start - begin) / 1e3, (end - start) / 1e3))
        return events

    def write(self, path: Path) -> None:
        """Write the run as a JSON file."""
        trace = {"traceEvents": self.events(), "displayTimeUnit": "ns"}
        write_atomically(path, json.dumps(trace).encode())


def _event(item: TraceItem, veu: int, start: float, duration: float) -> dict[str, Any]:
    event: dict[str, Any] = {
        "ph": "X",
        "pid": 0,
        "tid": veu,
        "ts": start,
        "dur": duration,
        "name": item.name,
    }
    if item.is_barrier:
        return {**event, "cat": "barrier", "cname": "terrible"}
    last = item.first + item.count - 1
    rtasks = str(item.first) if item.count == 1 else f"{item.first}-{last}"
    return {**event, "cat": "rtask", "args": {"rKernel": item.kernel, "rTasks": rtasks}}
