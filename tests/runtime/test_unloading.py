"""Tests that the code of a loaded artifact is unmapped when its executable is closed or collected.

It is not unmapped during a run.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.compiled import RunnableModel
from tests.runtime.artifacts import RING, loads_and_runs


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the artifact of a program with a weight."""
    path = tmp_path_factory.mktemp("artifacts") / "ring.rammer"
    with RING.build() as built:
        built.save(path)
    return path


def mapped_libraries() -> int:
    """Return the number of memory mappings of artifacts' code in this process.

    Collects garbage first: executables of earlier tests may still wait for the collector, which
    would otherwise unmap their code between two counts.
    """
    gc.collect()
    return sum("/rammer-" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_closing_unmaps_the_code(saved: Path) -> None:
    before = mapped_libraries()
    loaded = rammer_mlir.load(saved)
    assert RING.is_right(loaded)
    assert mapped_libraries() > before
    loaded.close()
    loaded.close()
    assert mapped_libraries() == before
    with pytest.raises(TargetError, match="the executable is closed: compile or load it again"):
        loaded.run({"x": RING.input()})


def test_collected_executables_unmap_their_code(saved: Path) -> None:
    """The garbage collector unmaps the code of executables, whether or not they ran."""
    before = mapped_libraries()
    for _ in range(20):
        assert RING.is_right(rammer_mlir.load(saved))
        rammer_mlir.load(saved)
    assert mapped_libraries() == before


def test_one_of_two_executables_is_closed(saved: Path) -> None:
    """Closing an executable leaves the code of another executable of the same file mapped."""
    with rammer_mlir.load(saved) as kept:
        loads_and_runs(saved)
        assert RING.is_right(kept)


def run_until_closed(loaded: RunnableModel, started: threading.Event) -> None:
    """Run an executable repeatedly until it is closed, and check the results.

    Sets ``started`` after the first run.
    """
    x = RING.input(1)
    expected = RING.expected(x)
    while True:
        try:
            found = loaded.run({"x": x})["y"]
        except TargetError as error:
            assert "is closed" in str(error)
            return
        assert np.array_equal(found, expected)
        started.set()


def test_closing_waits_for_runs_of_other_threads(saved: Path) -> None:
    before = mapped_libraries()
    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            loaded = rammer_mlir.load(saved)
            assert RING.is_right(loaded)
            started = threading.Event()
            running = [pool.submit(run_until_closed, loaded, started) for _ in range(3)]
            started.wait(60)
            loaded.close()
            for run in running:
                run.result()
            assert started.is_set()
    assert mapped_libraries() == before


def test_a_forked_child_closes_its_copy(saved: Path) -> None:
    with rammer_mlir.load(saved) as loaded:
        assert RING.is_right(loaded)
        child = os.fork()
        if child == 0:
            loaded.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert RING.is_right(loaded)


_EXIT_DURING_A_RUN = """
import sys, threading, time
import rammer_mlir
from tests.runtime.artifacts import RING
loaded = rammer_mlir.load(sys.argv[1])
x = RING.input(1)
def run():
    while True:
        loaded.run({"x": x})
threading.Thread(target=run, daemon=True).start()
time.sleep(0.2)
"""


def test_the_process_ends_while_a_daemon_thread_runs(saved: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", _EXIT_DURING_A_RUN, str(saved)]
    for _ in range(3):
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
