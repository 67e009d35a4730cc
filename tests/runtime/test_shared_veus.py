"""Threads that share vEUs: the same bits whichever thread ran which part, also on a busy machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest

from rammer_mlir.programs.native_interface import POOL
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import ThreadPool
from tests.runtime.ring import Ring

RING = Ring(num_veus=3, layers=8)

SECONDS = 2.0
"""Of each stress test."""

SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Keep processors busy; the processes end by themselves, should the test not end them."""
    command = [sys.executable, "-c", SPIN, str(5 * SECONDS)]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def head_of(executable: Executable) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    """Return the head of the memory of a program's pool."""
    executable.prepare()
    pool: ThreadPool = vars(executable)["_pool"]
    memory: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = vars(pool)["_memory"]
    return memory[: POOL.itemsize].view(POOL)


@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
@pytest.mark.parametrize("patience", [1, 32])
def test_results_are_exact_beside_busy_processes(limit: int, patience: int) -> None:
    """Two for each core, so that threads lose their cores anywhere; vEUs change hands at once."""
    cores = len(os.sched_getaffinity(0))
    with RING.build(limit) as executable, busy_processes(2 * cores):
        head = head_of(executable)
        head["patience"] = patience
        head["idle_polls"] = 20  # so that threads sleep, and wake up late, in the middle of runs
        end = time.monotonic() + SECONDS
        runs = 0
        while time.monotonic() < end:
            assert RING.is_right(executable, seed=runs % 7)
            runs += 1
        assert runs > 20
        x = RING.input()
        record = executable.record({"x": x})
        assert {span.veu for span in record.spans} == {0, 1, 2}
        assert RING.is_right(executable)
