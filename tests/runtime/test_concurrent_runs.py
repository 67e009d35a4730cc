"""Runs at the same time: on one pool of threads, with results as exact as those of single runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rammer_mlir
from rammer_mlir.errors import OptionError
from rammer_mlir.runtime.admission import Admission
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.shared_pool import SHARED
from tests.runtime.ring import Ring

RING = Ring(num_veus=3, layers=8)

OTHER = Ring(num_veus=3, layers=13, rows=4)
"""Another program on as many vEUs, with other numbers of steps."""


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """Let three threads of this process compute, also on a machine with fewer cores."""
    rammer_mlir.use_threads(3)
    yield
    rammer_mlir.use_threads(None)


def num_threads() -> int:
    """Return the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


def instances(executable: Executable) -> dict[int, Any]:
    """Return the contexts in which an executable has run, by lane."""
    return vars(vars(executable)["_instance"])["_contexts"]


@pytest.mark.parametrize("clients", [2, 3, 8])
@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
def test_results_of_concurrent_runs_are_exact(clients: int, limit: int) -> None:
    with RING.build(limit) as executable, ThreadPoolExecutor(clients) as pool:
        assert all(pool.map(partial(RING.is_right, executable), range(600)))
        assert 1 < len(instances(executable)) <= 3


def test_programs_share_a_pool() -> None:
    """Ten programs use no more threads than one, also at the same time."""
    with RING.build() as first, ThreadPoolExecutor(4) as pool:
        assert RING.is_right(first)
        tasks = num_threads()
        others = [OTHER.build() for _ in range(5)] + [RING.build() for _ in range(4)]
        rings = [OTHER] * 5 + [RING] * 4
        for ring, executable in zip(rings, others, strict=True):
            assert ring.is_right(executable)
        assert num_threads() == tasks
        runs = [
            pool.submit(ring.is_right, executable, seed)
            for seed in range(20)
            for ring, executable in zip(rings, others, strict=True)
        ]
        assert all(run.result() for run in runs)
        for executable in others:
            executable.close()


def test_the_memory_of_a_closed_program_is_used_again() -> None:
    """Step counters and hints of a program do not disturb the next program in the same memory."""
    with RING.build() as first:
        assert RING.is_right(first)
        pool = SHARED.get(vars(first)["_code"])
        for ring in (OTHER, RING, OTHER, RING):
            with ring.build() as executable:
                assert all(ring.is_right(executable, seed) for seed in range(3))
        assert len(vars(pool)["_jobs"]) == 2


def test_threads_change_during_runs() -> None:
    """Runs in progress end on the old pool, and others begin on the new pool."""
    stop = threading.Event()
    wrong: list[int] = []

    def client(executable: Executable, seed: int) -> None:
        while not stop.is_set():
            if not RING.is_right(executable, seed):
                wrong.append(seed)

    with RING.build() as executable:
        clients = [threading.Thread(target=client, args=(executable, seed)) for seed in range(3)]
        for thread in clients:
            thread.start()
        for count in (1, 2, 4, None, 3, 1, 2):
            rammer_mlir.use_threads(count)
            time.sleep(0.05)
            executable.use_threads(None if count == 4 else count)
            time.sleep(0.05)
        stop.set()
        for thread in clients:
            thread.join()
        assert not wrong
        assert executable.num_threads == 2


@pytest.mark.parametrize("count", [0, -2, 1.0, True, "3"])
def test_other_numbers_of_threads_are_refused(count: Any) -> None:
    with pytest.raises(OptionError, match="threads: expected an integer of at least 1, found"):
        rammer_mlir.use_threads(count)
    assert SHARED.count == 3


def test_threads_sleep_between_calls() -> None:
    """At 30 calls a second, threads use less than 1 % of a core between the calls."""
    with RING.build() as executable:
        assert RING.is_right(executable)
        x = RING.input()
        begin, used = time.monotonic(), 0.0
        for _ in range(30):
            executable.run({"x": x})
            after = time.process_time()
            time.sleep(1 / 30)
            used += time.process_time() - after
        assert used < 0.01 * (time.monotonic() - begin)


def test_threads_enter_in_their_order() -> None:
    """Threads get lanes in the order in which they began to wait, and no more than there are."""
    admission = Admission(2, lambda: 2)
    lanes = [admission.enter(), admission.enter()]
    assert sorted(lanes) == [0, 1]
    order: list[int] = []

    def client(number: int) -> None:
        lane = admission.enter()
        order.append(number)
        admission.leave(lane)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(5)]
    for thread in clients:
        thread.start()
        time.sleep(0.02)
    assert not order
    admission.leave(lanes[0])
    for thread in clients:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_lanes_that_an_interrupt_lost_are_replaced() -> None:
    """A lane that is never returned does not block others, as soon as no run is in progress."""
    in_progress = 1
    admission = Admission(1, lambda: in_progress)
    assert admission.enter() == 0
    entered = threading.Event()
    waiting = threading.Thread(target=lambda: (admission.enter(), entered.set()))
    waiting.start()
    assert not entered.wait(0.3)
    in_progress = 0
    assert entered.wait(10)
    waiting.join()
