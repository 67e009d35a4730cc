"""Tests that vEUs are pinned to the given cores; several vEUs may share a core."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.runtime.executable import Executable
from tests.runtime.ring import Ring

RING = Ring(num_veus=3, layers=8)
CORES = sorted(os.sched_getaffinity(0))


def threads() -> set[int]:
    """Return the IDs of this process's threads."""
    return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}


def check(executable: Executable) -> bool:
    """Run the program once, and return whether the result is exact."""
    x = RING.input(1)
    return np.array_equal(executable.run({"x": x})["y"], RING.expected(x))


@pytest.mark.parametrize("runs_before", [0, 1], ids=["before threads exist", "later"])
def test_threads_run_on_the_cores_that_are_named(runs_before: int) -> None:
    """Worker threads are pinned to the given cores; the caller's thread keeps its cores."""
    others = threads()
    cores = [CORES[0], CORES[-1], CORES[0]]
    with RING.build() as executable:
        assert all(check(executable) for _ in range(runs_before))
        executable.pin(cores)
        assert check(executable)
        ours = sorted(threads() - others)
        assert [os.sched_getaffinity(thread) for thread in ours] == [{c} for c in cores[1:]]
        assert os.sched_getaffinity(0) == set(CORES)
        given: Any = np.array(cores)  # as any other list of them
        executable.pin(given)
        assert check(executable)
        ours = sorted(threads() - others)
        assert [os.sched_getaffinity(thread) for thread in ours] == [{c} for c in cores[1:]]
        executable.pin(None)
        assert check(executable)
        assert all(os.sched_getaffinity(thread) == set(CORES) for thread in threads() - others)


@pytest.mark.parametrize("cores", [0, "01", [0.0, 0, 0], object()])
def test_cores_of_another_kind_are_refused(cores: Any) -> None:
    with (
        RING.build() as executable,
        pytest.raises(OptionError, match="pinning: expected a list of numbers of cores"),
    ):
        executable.pin(cores)


@pytest.mark.parametrize("cores", [[], [CORES[0]], [CORES[0]] * 4, [CORES[0], CORES[0], 1000]])
def test_cores_that_do_not_fit_are_refused(cores: list[int]) -> None:
    with (
        RING.build() as executable,
        pytest.raises(OptionError, match="pinning: expected 3 cores of"),
    ):
        executable.pin(cores)
