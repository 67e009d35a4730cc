"""Tests that concurrent runs share a pool of threads, and are as exact as single runs."""

from __future__ import annotations

import ctypes
import gc
import platform
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.errors import OptionError
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.lanes import Lanes
from rammer_mlir.runtime.pool import Job
from rammer_mlir.runtime.shared_pool import SHARED
from tests.runtime.ring import Ring
from tests.runtime.test_executable import in_child

RING = Ring(num_veus=3, layers=8)

OTHER = Ring(num_veus=3, layers=13, rows=4)
"""Another program on as many vEUs as ``RING``, with other numbers of steps."""


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """Let three threads of this process compute, also on a machine with fewer cores."""
    rammer_mlir.use_threads(3)
    yield
    rammer_mlir.use_threads(None)


def num_threads() -> int:
    """Return the number of threads of this process."""
    return len(list(Path("/proc/self/task").iterdir()))


def contexts(executable: Executable) -> list[Any]:
    """Return the contexts that an executable has created; a context serves one run at a time."""
    return vars(vars(executable)["_instance"])["_contexts"]


@pytest.mark.parametrize("clients", [2, 3, 8])
@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["table", "straight-line"])
def test_results_of_concurrent_runs_are_exact(clients: int, limit: int) -> None:
    with RING.build(limit) as executable, ThreadPoolExecutor(clients) as pool:
        assert all(pool.map(partial(RING.is_right, executable), range(600)))
        assert 1 < len(contexts(executable)) <= 3


def test_programs_share_a_pool() -> None:
    """Ten programs that run one after the other use no more threads than a single program.

    Their results are also exact if they run at the same time.
    """
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
    """A new program may use the memory of a closed program, and still gives exact results.

    Step counters that the closed program left in the memory do not disturb the new program.
    """
    with RING.build() as first:
        assert RING.is_right(first)
        pool = SHARED.get(vars(first)["_code"])
        for ring in (OTHER, RING, OTHER, RING):
            with ring.build() as executable:
                assert all(ring.is_right(executable, seed) for seed in range(3))
        assert len(vars(pool)["_jobs"]) == 2


def test_threads_change_during_runs() -> None:
    """A new number of threads takes effect while clients run programs, and results stay exact.

    Runs in progress end on the old pool, and later runs begin on the new pool.
    """
    stop = threading.Event()

    def client(executable: Executable, seed: int) -> bool:
        results = [RING.is_right(executable, seed)]
        while not stop.is_set():
            results.append(RING.is_right(executable, seed))
        return all(results)

    with RING.build() as executable, ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(client, executable, seed) for seed in range(3)]
        for count in (1, 2, 4, None, 3, 1, 2):
            rammer_mlir.use_threads(count)
            time.sleep(0.05)
            executable.use_threads(None if count == 4 else count)
            time.sleep(0.05)
        stop.set()
        assert all(running.result() for running in clients)
        assert executable.num_threads == 2


@pytest.mark.parametrize("count", [0, -2, 1.0, True, "3"])
def test_other_numbers_of_threads_are_refused(count: Any) -> None:
    with pytest.raises(OptionError, match="threads: expected an integer of at least 1, found"):
        rammer_mlir.use_threads(count)
    assert SHARED.count == 3


def share_between_calls(executable: Executable) -> float:
    """Return the processor time that the process uses between calls, divided by the elapsed time.

    The program is called 30 times, with a pause of 1/30 s after each call.
    """
    x = RING.input()
    begin, used = time.monotonic(), 0.0
    for _ in range(30):
        executable.run({"x": x})
        after = time.process_time()
        time.sleep(1 / 30)
        used += time.process_time() - after
    return used / (time.monotonic() - begin)


def test_threads_sleep_between_calls() -> None:
    """At 30 calls a second, threads use less than 1 % of a core between the calls.

    On a busy machine, threads still execute their last polls after a call; the smallest of ten
    measured shares counts.
    """
    rammer_mlir.use_threads(2)
    with RING.build() as executable:
        assert RING.is_right(executable)
        assert any(share_between_calls(executable) < 0.01 for _ in range(10))


def test_executors_keep_the_order_of_requests() -> None:
    lanes = Lanes(1)
    assert lanes.take() == 0
    assert lanes.take() is None
    order: list[int] = []
    clients: list[threading.Thread] = []

    def client(number: int) -> None:
        assert lanes.request(lambda lane: order.append(number) or number) == number

    for number in range(5):
        clients.append(threading.Thread(target=client, args=(number,)))
        clients[-1].start()
        while len(vars(lanes)["_waiting"]) <= number:
            time.sleep(0.001)
    assert not order
    lanes.give_back(0)
    for thread in clients:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    while (lane := lanes.take()) is None:
        time.sleep(0.001)
    assert lane == 0
    lanes.close()


def test_no_request_is_overtaken_for_long() -> None:
    """Of four clients that share a lane, none has four times as many runs as another client.

    An executor that waits for a lane gets the next free lane.
    """
    lanes = Lanes(2)
    assert lanes.take() is not None  # a long run
    counts = [0] * 4
    deadline = time.monotonic() + 0.8

    def client(number: int) -> None:
        while time.monotonic() < deadline:
            lanes.request(lambda lane: time.sleep(0.004))
            counts[number] += 1

    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert min(counts) > max(counts) / 4 > 1
    lanes.close()


def test_errors_of_requests_are_raised_in_the_client() -> None:
    lanes = Lanes(1)
    gc.collect()
    gc.disable()
    try:
        used = Ring()
        reference = weakref.ref(used)
        with pytest.raises(ZeroDivisionError):
            lanes.request(lambda lane, used=used: used.rows // 0)
        del used
        # The executor's frame may still end.
        assert any(time.sleep(0.01) or reference() is None for _ in range(200))
    finally:
        gc.enable()
    assert lanes.request(lambda lane: lane) == 0
    lanes.close()


def test_a_request_of_an_interrupted_client_is_given_up() -> None:
    """A request that has not begun is never executed after its client was interrupted."""
    lanes = Lanes(1)
    lane = lanes.take()
    assert lane == 0
    executed: list[int] = []

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            lanes.request(executed.append)
    finally:
        signal.signal(signal.SIGALRM, before)
    lanes.give_back(lane)
    assert lanes.request(lambda lane: lane + 1) == 1
    assert not executed
    lanes.close()


def test_lanes_that_an_interrupt_lost_are_found() -> None:
    """A lane that was never given back is used again, unless a run holds the lock of the lane."""
    lanes = Lanes(1)
    assert lanes.take() == 0
    found: list[object] = []
    client = threading.Thread(target=lambda: found.append(lanes.request(lambda lane: lane)))
    with lanes.locks[0]:
        client.start()
        client.join(2.5)
        assert not found
    client.join(10)
    assert found == [0]
    lanes.close()


@pytest.mark.interrupts
def test_interrupts_at_any_time_leave_the_next_run_right() -> None:
    """An interrupt of a client whose request is executed causes no hang or error in later runs."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    stop = threading.Event()
    rammer_mlir.use_threads(1)
    before = signal.signal(signal.SIGALRM, interrupt)
    generator = np.random.default_rng(0)
    interrupts = 0

    def other(executable: Executable) -> None:
        while not stop.is_set():
            executable.run({"x": RING.input(1)})

    with RING.build() as executable, ThreadPoolExecutor(1) as pool:
        running = pool.submit(other, executable)
        try:
            for seed in range(200):
                try:
                    # Repeats, should an interrupt strike where the interpreter ignores exceptions.
                    delay = float(generator.uniform(2e-5, 1e-3))
                    signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
                    while True:
                        executable.run({"x": RING.input(2)})
                except KeyboardInterrupt:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    interrupts += 1
                assert RING.is_right(executable, seed)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            stop.set()
        running.result()
    assert interrupts == 200


def test_a_child_that_was_forked_beside_executors_runs() -> None:
    """A child forked while clients wait for executors has a pool of its own."""
    stop = threading.Event()
    rammer_mlir.use_threads(1)

    def keep_running(executable: Executable) -> None:
        while not stop.is_set():
            executable.run({"x": RING.input()})

    with RING.build() as executable, ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(keep_running, executable) for _ in range(3)]
        try:
            for _ in range(5):
                in_child(lambda: RING.is_right(executable))
        finally:
            stop.set()
        for client in clients:
            client.result()


def test_garbage_collection_while_a_job_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may free a program while the job of another program is created."""
    made = Job.__init__

    def collecting(self: Job, pool: int, num_veus: int) -> None:
        gc.collect()
        made(self, pool, num_veus)

    with RING.build() as first:
        assert RING.is_right(first)
        gc.disable()
        try:
            other = RING.build()
            assert RING.is_right(other)
            other.stats["self"] = other
            del other
            monkeypatch.setattr(Job, "__init__", collecting)
            with Ring(num_veus=4).build() as executable:
                executable.prepare()
                assert Ring(num_veus=4).is_right(executable)
        finally:
            gc.enable()


def test_requests_round_as_their_clients_do() -> None:
    """Executors compute in the rounding mode of the thread that called ``run``."""
    library = ctypes.CDLL("libm.so.6")
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]  # C's FE_UPWARD
    x = RING.input()

    def client(executable: Executable, is_upward: bool) -> None:
        if is_upward:
            library.fesetround(upward)
        for _ in range(100):
            found[is_upward].append(executable.run({"x": x})["y"])

    found: dict[bool, list[Any]] = {False: [], True: []}
    with RING.build() as executable:
        clients = [threading.Thread(target=client, args=(executable, n % 2 == 1)) for n in range(8)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
    assert all(np.array_equal(y, RING.expected(x)) for y in found[False])
    assert not np.array_equal(found[True][0], found[False][0])
    assert all(np.array_equal(y, found[True][0]) for y in found[True])
