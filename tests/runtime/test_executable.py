"""Tests that executables work in several threads, in forked processes, and after interrupts.

Closing an executable, or its garbage collection, ends its threads.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.errors import TargetError
from rammer_mlir.runtime.executable import Executable
from tests.runtime.elementwise import Elementwise
from tests.runtime.ring import Ring

RING = Ring(num_veus=3, layers=8)


@pytest.fixture(scope="module")
def executable() -> Iterator[Executable]:
    """A compiled program on three vEUs."""
    with RING.build() as built:
        yield built


def check(executable: Executable, seed: int) -> bool:
    """Run the program on the random input of ``seed``; return whether the result is exact."""
    x = RING.input(seed)
    return np.array_equal(executable.run({"x": x})["y"], RING.expected(x))


def threads_of_process() -> int:
    """Return the number of threads of this process, including Python's own."""
    return len(list(Path("/proc/self/task").iterdir()))


def in_child(body: Callable[[], bool], seconds: float = 20) -> None:
    """Fork, and check that ``body`` returns True in the child within ``seconds`` seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(seconds))  # ends a child that hangs
        os._exit(0 if body() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_concurrent_runs_each_get_their_own_result(executable: Executable) -> None:
    """Runs of an executable from several Python threads have right results."""
    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(partial(check, executable), range(200)))


def test_executables_run_beside_each_other() -> None:
    """Two executables run at the same time, each with its own memory."""
    with RING.build() as first, RING.build() as second, ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(check, exe, seed) for seed in range(100) for exe in (first, second)]
        assert all(run.result() for run in runs)


def test_a_forked_child_runs(executable: Executable) -> None:
    """A forked child runs with new threads, and the parent's threads continue to work."""
    assert check(executable, 0)
    in_child(lambda: all(check(executable, seed) for seed in range(20)))
    assert check(executable, 1)


def test_a_child_that_was_forked_during_a_run_runs(executable: Executable) -> None:
    """A child forked while another thread runs the executable is not blocked by that run's lock."""
    stop = threading.Event()

    def keep_running() -> None:
        while not stop.is_set():
            check(executable, 0)

    busy = threading.Thread(target=keep_running)
    busy.start()
    try:
        for _ in range(10):
            in_child(lambda: check(executable, 1))
    finally:
        stop.set()
        busy.join()


def test_a_child_may_close_and_leave_the_parent_alone(executable: Executable) -> None:
    """Closing the executable in a forked child leaves the parent's threads running."""

    def body() -> bool:
        executable.close()
        return True

    assert check(executable, 0)
    in_child(body)
    assert check(executable, 1)


def test_closing_ends_the_threads() -> None:
    """Closing ends the threads; a closed executable refuses to run, and may be closed again."""
    before = threads_of_process()
    built = RING.build()
    built.use_threads(RING.num_veus)
    assert check(built, 0)
    assert threads_of_process() == before + RING.num_veus - 1
    built.close()
    built.close()
    assert threads_of_process() == before
    with pytest.raises(TargetError, match="executable is closed: compile or load it again"):
        built.run({"x": RING.input()})


@pytest.mark.parametrize(("rows", "threads"), [(1, 0), (2, 1), (5, 3)])
def test_idle_veus_get_no_thread(rows: int, threads: int) -> None:
    """Threads are created only up to the last vEU that has rTasks.

    Pinning still takes a core for each vEU, and a recording has every rTask.
    """
    program = Elementwise((rows, 3), "f32", np.dtype(np.float32), "%q = arith.addf %p, %p : f32")
    before = threads_of_process()
    with program.build(num_veus=4) as built:
        built.pin([min(os.sched_getaffinity(0))] * 4)
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        assert np.array_equal(built.run({"x": x})["y"], x + x)
        assert threads_of_process() == before + threads
        assert built.num_veus == 4
        recorded = built.record({"x": x})
        spans = [span for veu in recorded.veus for span in veu if span.kind == "rtask"]
        assert sum(span.count for span in spans) == rows
    assert threads_of_process() == before


def test_collected_executables_end_their_threads() -> None:
    """The garbage collector ends the threads of executables that were not closed."""
    before = threads_of_process()
    for seed in range(5):
        assert check(RING.build(), seed)
    gc.collect()
    assert threads_of_process() == before


class Interrupt(BaseException):
    """An interrupt that is no ``Exception``, because NumPy's comparison swallows exceptions."""


@pytest.mark.interrupts
def test_an_interrupted_run_leaves_the_next_one_right(executable: Executable) -> None:
    """An exception at any time during a run leaves the step counters valid for the next run."""

    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    generator = np.random.default_rng(0)
    interrupts = 0
    try:
        for seed in range(300):
            try:
                # Repeats, should an interrupt strike where the interpreter ignores exceptions.
                signal.setitimer(signal.ITIMER_REAL, float(generator.uniform(2e-5, 4e-4)), 0.5)
                while True:
                    check(executable, seed)
            except Interrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                interrupts += 1
            assert check(executable, seed)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts == 300


def run_script(script: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the Python code ``script`` in a separate process, and return the ended process.

    The code finds ``RING`` and ``check`` imported. The process has at most ``seconds`` seconds.
    """
    root = Path(__file__).resolve().parents[2]
    head = "from tests.runtime.test_executable import RING, check\n"
    return subprocess.run(
        [sys.executable, "-c", head + script],
        cwd=root,
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )


EXITS = {
    "without closing": "exe = RING.build(); check(exe, 0)",
    "never run": "exe = RING.build()",
    "in a reference cycle": "exe = RING.build(); check(exe, 0); exe.stats['self'] = exe",
    "after an error": "exe = RING.build(); check(exe, 0); raise SystemExit(0)",
    "while a daemon thread runs": """
import threading, time
exe = RING.build()
def forever():
    while True: check(exe, 0)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
""",
}


@pytest.mark.parametrize("script", EXITS.values(), ids=EXITS)
def test_the_interpreter_exits(script: str) -> None:
    """The interpreter exits without an error or a hang, whatever the executable's state."""
    result = run_script(script)
    assert (result.returncode, result.stderr) == (0, "")


def test_threads_that_cannot_be_created_are_reported() -> None:
    """If the system cannot create all threads, the error has the number of created threads.

    The error also names the remedy.
    """
    result = run_script(
        """
import resource
from pathlib import Path
from rammer_mlir.errors import TargetError
from tests.runtime.ring import Ring
ring = Ring(num_veus=400, layers=1, rows=400)
exe = ring.build()
exe.use_threads(400)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, -1))
try:
    exe.run({"x": ring.input()})
except TargetError as error:
    print(error, len(list(Path("/proc/self/task").iterdir())))
"""
    )
    assert result.returncode == 0, result.stderr
    assert "cannot create 399 threads: the system made" in result.stdout
    assert "use fewer vEUs or threads" in result.stdout


def test_idle_threads_sleep(executable: Executable) -> None:
    """Threads that wait for the next run use no processor time."""
    assert check(executable, 0)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05
