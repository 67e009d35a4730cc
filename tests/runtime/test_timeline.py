"""Tests that the timeline of a recorded run has the right events, in the right order."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.errors import ArtifactError, InputError
from tests.runtime.ring import Ring

Events = list[dict[str, Any]]


def trace(ring: Ring, path: Path, limit: int = 0) -> Events:
    """Record a run of a ring program (``ring.py``) to the file ``path``; return its trace events.

    ``limit`` is the largest number of records for which the program has no dispatch loop.
    """
    with ring.build(limit) as executable:
        executable.run({"x": ring.input()})
        executable.timeline(path, {"x": ring.input()})
        # Tracing is a run like any other: what follows is right.
        assert np.array_equal(executable.run({"x": ring.input()})["y"], ring.expected(ring.input()))
    return json.loads(path.read_text())["traceEvents"]


@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
@pytest.mark.parametrize("num_veus", [1, 3])
def test_one_event_for_each_record(num_veus: int, limit: int, tmp_path: Path) -> None:
    """Every rTask has one event, with its layer's name, on the vEU that runs it."""
    ring = Ring(num_veus, layers=7, programs=2)
    events = trace(ring, tmp_path / "trace.json", limit)
    rtasks = [event for event in events if event.get("cat") == "rtask"]
    found = sorted((event["name"], event["args"]["rTasks"]) for event in rtasks)
    expected = [(f"layer{layer}", str(row)) for layer in range(7) for row in range(ring.rows)]
    assert found == sorted(expected)
    assert {event["args"]["rKernel"] for event in rtasks} == {"step"}
    names = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert names == {veu: f"vEU {veu}" for veu in range(num_veus)}


def test_barriers_have_another_color(tmp_path: Path) -> None:
    """Every barrier has one event, whose color differs from that of rTasks."""
    ring = Ring(2, layers=6)
    events = trace(ring, tmp_path / "trace.json")
    barriers = [event for event in events if event.get("cat") == "barrier"]
    assert len(barriers) == ring.text().count("rtask.barrier") > 0
    assert {event["cname"] for event in barriers} == {"terrible"}
    assert not any("cname" in event for event in events if event.get("cat") == "rtask")


def test_times_are_in_order(tmp_path: Path) -> None:
    """Events of a vEU do not overlap, and the first event of a run begins at time zero."""
    events = [event for event in trace(Ring(3), tmp_path / "trace.json") if event["ph"] == "X"]
    assert min(event["ts"] for event in events) == 0
    assert all(event["dur"] >= 0 for event in events)
    assert max(event["ts"] + event["dur"] for event in events) < 1e6
    for veu in range(3):
        mine = [event for event in events if event["tid"] == veu]
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(mine))


def test_a_reader_begins_after_its_writers(tmp_path: Path) -> None:
    """An rTask begins after the begin of the rTasks whose rows it reads, on any vEU.

    It may begin before their recorded end, which is taken after the result is published.
    """
    ring = Ring(3, layers=10, columns=2000)
    events = [
        event for event in trace(ring, tmp_path / "trace.json") if event.get("cat") == "rtask"
    ]
    at = {(e["name"], int(e["args"]["rTasks"])): e["ts"] for e in events}
    for layer in range(1, 10):
        for row in range(ring.rows):
            begin = at[f"layer{layer}", row]
            for read in (row, (row + 1) % ring.rows):
                assert at[f"layer{layer - 1}", read] <= begin


def test_errors_leave_no_file(tmp_path: Path) -> None:
    """A recording that fails for wrong inputs or a full device leaves no file."""
    ring = Ring()
    path = tmp_path / "trace.json"
    with ring.build() as executable:
        with pytest.raises(InputError):
            executable.timeline(path, {})
        with pytest.raises(ArtifactError, match="cannot write '/dev/full': No space left"):
            executable.timeline("/dev/full", {"x": ring.input()})
    assert list(tmp_path.iterdir()) == []
