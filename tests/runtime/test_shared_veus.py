"""Tests that results are bitwise equal if threads share vEUs, whichever thread runs which part."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rammer_mlir.errors import OptionError
from rammer_mlir.programs.native_interface import POOL
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import ThreadPool
from tests.runtime.ring import Ring

RING = Ring(num_veus=3, layers=8)

SECONDS = 2.0
"""Duration of each stress test."""

SPIN = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Run ``count`` processes that keep cores busy while the context is open.

    Each process also ends by itself after some seconds.
    """
    command = [sys.executable, "-c", SPIN, str(5 * SECONDS)]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def head_of(executable: Executable) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    """Return the structure ``POOL`` at the begin of the memory of an executable's thread pool.

    It is a view: writing to its fields changes the pool.
    """
    executable.prepare()
    pool: ThreadPool = vars(vars(executable)["_instance"])["_pool"]
    memory: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = vars(pool)["_memory"]
    return memory[: POOL.itemsize].view(POOL)


def threads() -> set[str]:
    """Return the IDs of this process's threads."""
    return {entry.name for entry in Path("/proc/self/task").iterdir()}


@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
@pytest.mark.parametrize("patience", [1, 32])
def test_results_are_exact_beside_busy_processes(limit: int, patience: int) -> None:
    """Results are exact while two busy processes for each core make threads lose their cores.

    A thread takes over a vEU of another thread after it has found the vEU ready ``patience`` times.
    """
    cores = len(os.sched_getaffinity(0))
    with RING.build(limit) as executable, busy_processes(2 * cores):
        executable.use_threads(3)
        head = head_of(executable)
        head["patience"] = patience
        head["idle_polls"] = 20  # so that threads sleep, and wake up late, in the middle of runs
        end = time.monotonic() + SECONDS
        runs = 0
        while time.monotonic() < end:
            assert RING.is_right(executable, seed=runs % 7)
            runs += 1
        assert runs > 20
        assert all(executable.record({"x": RING.input()}).veus)
        assert RING.is_right(executable)


@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
def test_any_number_of_threads_runs_all_veus(limit: int) -> None:
    ring = Ring(num_veus=5, layers=9, programs=2)
    others = threads()
    with ring.build(limit) as executable:
        for count in (1, 2, 4, 5, 9):
            executable.use_threads(count)
            assert executable.num_threads == min(count, 5)
            assert all(ring.is_right(executable, seed) for seed in range(20))
            assert len(threads() - others) == min(count, 5) - 1
        executable.use_threads(None)
        assert executable.num_threads == min(5, len(os.sched_getaffinity(0)))
        assert all(ring.is_right(executable, seed) for seed in range(20))
        executable.use_threads(2)
        executable.pin([min(os.sched_getaffinity(0))] * 2)
        assert ring.is_right(executable)
        with pytest.raises(OptionError, match="pinning: expected 2 cores of"):
            executable.pin([min(os.sched_getaffinity(0))] * 5)


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_numbers_of_threads_that_do_not_exist_are_refused(count: Any) -> None:
    with (
        RING.build() as executable,
        pytest.raises(OptionError, match="threads: expected an integer of at least 1, found"),
    ):
        executable.use_threads(count)


UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}
"""The value of the C library's FE_UPWARD on each architecture."""


def test_every_veu_rounds_as_the_caller_does() -> None:
    """All threads of a run use the rounding mode of the thread that calls ``run``.

    That holds even for threads that were created under another rounding mode.
    """
    library = ctypes.CDLL("libm.so.6")
    x = RING.input()
    nearest = RING.expected(x)
    with RING.build() as executable, Ring(num_veus=1, layers=8).build() as alone:
        executable.use_threads(3)
        assert np.array_equal(executable.run({"x": x})["y"], nearest)
        before = library.fegetround()
        library.fesetround(UPWARD[platform.machine()])
        try:
            found, upward = (each.run({"x": x})["y"] for each in (executable, alone))
        finally:
            library.fesetround(before)
        assert np.array_equal(found, upward)
        assert not np.array_equal(upward, nearest)
        assert np.array_equal(executable.run({"x": x})["y"], nearest)
