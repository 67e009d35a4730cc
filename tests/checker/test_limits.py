"""Files that would cost much time or memory are refused in one line, within ``SECONDS``."""

from __future__ import annotations

import json
import random
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rammer_mlir.checker import verify
from rammer_mlir.errors import RammerError
from tests.checker.files import Json, members_of, write_members
from tests.checker.random_programs import Drawer, Drawn

SECONDS = 20
"""The longest time until a refusal on a busy machine; an idle one needs two seconds."""


def many_rtasks(drawn: Drawn) -> None:
    """Give four million rTasks to an rKernel that touches nothing."""
    drawn.proof["kernels"][0] = [(1 << 22) - 1, [], [], []]


def too_many_rtasks(drawn: Drawn) -> None:
    """Give an rKernel more rTasks than a 64-bit number holds."""
    drawn.proof["kernels"][0][0] = 1 << 70


def many_accesses(drawn: Drawn) -> None:
    """Repeat an access of an rKernel 3,000 times, and an rOperator with this rKernel as often."""
    kernel = drawn.proof["kernels"][0]
    kernel[2] = kernel[2] * 3000
    for part in (drawn.program, drawn.proof):
        part["operators"] += [part["operators"][0]] * 3000


def large_boxes(drawn: Drawn) -> None:
    """Set all sizes of boxes to 2**47, so that the product of a box's sizes overflows."""
    drawn.boxes[:] = [1 << 47] * len(drawn.boxes)


def many_pieces(drawn: Drawn) -> None:
    """Add a box with large sizes, and with strides of which none divides the other."""
    first = len(drawn.boxes)
    drawn.boxes += [0, 1 << 20, 1 << 20]
    drawn.proof["kernels"][0] = [1, [], [[0, 1, first, first + 1, [6, 7]]], []]


def many_waits(drawn: Drawn) -> None:
    """Let two vEUs wait for each other, 100,000 times each."""
    wait = [[[1, 1]] * 100_000]
    drawn.program["launches"] = [[wait, [[[0, 1]] * 100_000]]]


def many_runs(drawn: Drawn) -> None:
    """List the same two million rTasks 100,000 times."""
    drawn.proof["kernels"][0] = [(1 << 21) - 1, [], [], []]
    drawn.program["launches"] = [[[[0, 0, (1 << 21) - 1]] * 100_000]]


def many_arguments(drawn: Drawn) -> None:
    """Give an rOperator 100,000 arguments, and list it 100,000 times."""
    for part in (drawn.program, drawn.proof):
        part["operators"][0][-1] = part["operators"][0][-1][:1] * 100_000
    drawn.program["kernels"][drawn.program["operators"][0][1]][1] = 100_000
    drawn.program["launches"] = [[[[0, 0, 1]] * 100_000]]


CASES = (
    many_rtasks, too_many_rtasks, many_accesses, large_boxes, many_pieces, many_waits, many_runs,
    many_arguments,
)  # fmt: skip


def refusal(path: Path) -> str:
    """Require that a file is refused within ``SECONDS`` and in one line; return the message."""
    begin = time.perf_counter()
    with pytest.raises(RammerError) as caught:
        verify(path)
    assert time.perf_counter() - begin < SECONDS
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("change", CASES)
def test_hostile_sizes(change: Callable[[Drawn], None], tmp_path: Path) -> None:
    """A program of hostile sizes is refused before the time limit."""
    drawn = Drawer(random.Random(5)).draw()
    change(drawn)
    members = members_of(drawn.program, drawn.proof, drawn.boxes, drawn.sizes, "cpu")
    refusal(write_members(tmp_path / "hostile.rammer", members))


def test_deep_json(tmp_path: Path) -> None:
    """JSON of a million nested brackets is refused."""
    drawn = Drawer(random.Random(5)).draw()
    members = members_of(drawn.program, drawn.proof, drawn.boxes, drawn.sizes, "cpu")
    members["program.json"] = b"[" * 1_000_000
    assert "RecursionError" in refusal(write_members(tmp_path / "deep.rammer", members))


def test_compressed_members(tmp_path: Path) -> None:
    """A small file with a compressed member that would become large is refused."""
    manifest: Json = {"format": "rammer-mlir", "version": 5}
    path = tmp_path / "bomb.rammer"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", json.dumps(manifest) + " " * (1 << 26))
    assert "manifest.json: expected at most" in refusal(path)
