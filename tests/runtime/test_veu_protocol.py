"""Tests that the protocol by which threads share vEUs is correct in all interleavings of threads.

An exhaustive search checks that every record is executed once, in order, and after its waits.
"""

from __future__ import annotations

import pytest

from tests.runtime.veu_protocol import Mutation, Protocol, Violation, search

VEUS = ((None, (1, 1), None), ((2, 1), None), (None,))
"""VEU 0 waits for vEU 1 between two rTasks; vEU 1 waits for vEU 2 before its only rTask."""

TWO = ((None, (1, 1), None), ((0, 1), None))
"""Two vEUs that each wait for a step of the other one, without a deadlock."""

FOUND = {
    Mutation.RELEASE_BEFORE_POSITION: "once and in order",
    Mutation.TAKE_IN_TWO_STEPS: "once and in order",
    Mutation.TAKE_IN_ANY_EPOCH: "once and in order",
    Mutation.HINT_ALONE: "before it is met",
    Mutation.POSITION_STAYS: "once and in order",
    Mutation.STEPS_FROM_BASE: "has not counted all steps",
    Mutation.HELD_IS_ENDED: "returns before all records",
    Mutation.LEFT_IS_ENDED: "returns before all records",
    Mutation.SLEEP_UNCONDITIONALLY: "wake-up is lost",
    Mutation.SLEEPERS_FIRST: "wake-up is lost",
    Mutation.NOBODY_WAKES: "wake-up is lost",
    Mutation.RING_FIRST: "wake-up is lost",
    Mutation.TABLE_FIRST: "wake-up is lost",
}
"""A part of the message of the violation that each error causes."""


@pytest.mark.parametrize("is_guided", [True, False], ids=["ready ones", "any"])
def test_three_threads_execute_three_veus_twice(is_guided: bool) -> None:
    """The protocol is correct for three threads, three vEUs and two runs.

    The large number of states shows that threads leave vEUs, and others take them.
    """
    states = search(Protocol(VEUS, is_guided=is_guided))
    assert states > 50_000


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_fewer_and_more_threads_than_veus(num_threads: int) -> None:
    """The protocol is correct for fewer and for more threads than vEUs."""
    assert search(Protocol(VEUS, num_threads, num_runs=3 if num_threads < 3 else 1)) > 50
    assert search(Protocol(TWO, num_threads)) > 50


@pytest.mark.parametrize(("num_threads", "limit", "num_runs"), [(2, 2, 2), (3, 2, 1), (3, 3, 1)])
def test_two_callers_execute_their_jobs(num_threads: int, limit: int, num_runs: int) -> None:
    """The protocol is correct for two callers, alone or with a thread of the pool.

    ``limit`` is the maximum number of threads that compute. If it is 2, the thread of the pool
    withdraws while both callers launch.
    """
    protocol = Protocol(TWO, num_threads, num_callers=2, num_runs=num_runs, limit=limit)
    assert search(protocol) > 20_000


def test_a_thread_helps_two_callers_twice() -> None:
    """The protocol is correct for a thread of the pool and two callers with two runs each.

    The thread finds the next runs of both jobs, even if it is late.
    """
    short = ((None,), (None,))
    assert search(Protocol(short, num_callers=2, num_runs=2, limit=3)) > 50_000


def test_threads_that_wait_for_each_other_are_found() -> None:
    """The search detects a deadlock of two vEUs that wait for each other."""
    with pytest.raises(Violation, match="for ever"):
        search(Protocol((((1, 1), None), ((0, 1), None)), num_threads=2, num_runs=1))


@pytest.mark.parametrize("mutation", list(FOUND), ids=lambda mutation: mutation.name.lower())
def test_an_error_in_the_protocol_is_found(mutation: Mutation) -> None:
    assert set(FOUND) == set(Mutation) - {Mutation.NONE}
    with pytest.raises(Violation, match=FOUND[mutation]):
        search(Protocol(VEUS, mutation=mutation))


WITHOUT_BARRIERS = (
    Mutation.TAKE_IN_TWO_STEPS, Mutation.TAKE_IN_ANY_EPOCH, Mutation.HELD_IS_ENDED,
    Mutation.SLEEP_UNCONDITIONALLY, Mutation.SLEEPERS_FIRST, Mutation.NOBODY_WAKES,
    Mutation.RING_FIRST, Mutation.TABLE_FIRST,
)  # fmt: skip
"""Errors that show with a single record on each vEU."""


@pytest.mark.parametrize("mutation", WITHOUT_BARRIERS, ids=lambda mutation: mutation.name.lower())
def test_an_error_is_found_with_two_callers(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        search(Protocol(((None,), (None,)), num_callers=2, limit=3, mutation=mutation))
