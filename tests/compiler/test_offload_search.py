"""Tests that the search for the regions to keep finds those that save time.

The tests make up the time of each choice of regions. Measured times must differ significantly
before the search prefers regions to the host.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations

import pytest

from rammer_mlir.compiler.offload_search import HOST, MOST_SIMULATIONS, Choice, Search
from rammer_mlir.compiler.offload_timing import Measured, Rounds, fastest, time_twice
from rammer_mlir.support.interleaved_timing import clearly_faster


def always() -> bool:
    return True


def search(
    partitions: Sequence[Sequence[str]],
    simulate: Callable[[Choice], float],
    has_time: Callable[[], bool] = always,
    most: int = MOST_SIMULATIONS,
) -> tuple[Choice, Search]:
    found = Search(partitions, simulate, has_time, most)
    return found.run(), found


def kept(*names: str) -> Choice:
    return Choice(0, frozenset(names))


@pytest.mark.parametrize("seed", range(50))
def test_gains_that_add_up_are_all_found(seed: int) -> None:
    rng = random.Random(seed)
    gains = {f"r{n}": rng.uniform(-1, 1) for n in range(rng.randint(1, 8))}

    def seconds(choice: Choice) -> float:
        return 10 - sum(gains[name] for name in choice.kept)

    best = min(
        (kept(*names) for n in range(len(gains) + 1) for names in combinations(gains, n)),
        key=seconds,
    )
    assert search([list(gains)], seconds)[0] == best


@pytest.mark.parametrize("seed", range(50))
def test_never_worse_than_host_or_all(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"r{n}" for n in range(6)]
    times: dict[Choice, float] = {}

    def seconds(choice: Choice) -> float:
        return times.setdefault(choice, rng.uniform(1, 2))

    chosen, found = search([names], seconds)
    # All but a ten-thousandth of the host's time for each region.
    assert seconds(chosen) <= min(found.seconds.values()) + 6e-4 * seconds(HOST)
    assert seconds(chosen) <= seconds(HOST)
    assert {HOST, kept(*names)} <= found.seconds.keys()
    assert found.untried == 0


def test_regions_that_pay_only_together() -> None:
    """The search also starts from all regions, so it finds those that pay only together."""

    def seconds(choice: Choice) -> float:
        boundary = 3 if 0 < len(choice.kept & {"a", "b", "c"}) < 3 else 0
        return 10 + boundary - len(choice.kept & {"a", "b", "c"}) + 5 * ("bad" in choice.kept)

    assert search([["a", "b", "c", "bad"]], seconds)[0] == kept("a", "b", "c")


def test_equal_times_are_the_hosts() -> None:
    assert search([["a", "b"]], lambda choice: 1.0 - 1e-5 * len(choice.kept))[0] == HOST


def test_a_program_is_simulated_once() -> None:
    asked: list[Choice] = []

    def seconds(choice: Choice) -> float:
        asked.append(choice)
        return len(choice.kept)

    _, found = search([["a", "b", "c"], ["a"]], seconds)
    assert len(set(asked)) == len(asked) == len(found.seconds)


def test_the_better_of_two_partitions() -> None:
    times = {kept("x", "y"): 5.0, kept("x"): 4.5, Choice(1, frozenset({"z"})): 3.0}
    chosen, _ = search([["x", "y"], ["z"]], lambda choice: times.get(choice, 6.0))
    assert chosen == Choice(1, frozenset({"z"}))


def test_no_region_at_all() -> None:
    chosen, found = search([[]], lambda choice: 1.0)
    assert chosen == HOST and list(found.seconds) == [HOST]


def test_simulations_are_limited() -> None:
    names = [f"r{n}" for n in range(500)]
    _, found = search([names], lambda choice: float(len(choice.kept)))
    assert len(found.seconds) == MOST_SIMULATIONS
    assert found.untried == 2 * 500 - (MOST_SIMULATIONS - 2)


def test_without_time_host_and_all_are_known() -> None:
    times = {HOST: 2.0, kept("a", "b"): 1.0}
    chosen, found = search([["a", "b"]], lambda choice: times[choice], lambda: False)
    assert chosen == kept("a", "b") and found.untried > 0


@pytest.mark.parametrize("seconds_left", [True, False])
def test_what_is_worth_a_measurement(seconds_left: bool) -> None:
    """The finalists are the search's choice, no regions, and all regions of each partition.

    The finalists are the choices that are compiled and timed. If no seconds are left for
    simulations, the search chooses no regions.
    """

    def seconds(choice: Choice) -> float:
        return 20 if choice.partition else 10 + {"a": -1, "b": 1}.get("".join(choice.kept), 2)

    chosen, found = search([["a", "b", "c"], ["b"]], seconds, lambda: seconds_left)
    whole = {HOST, kept("a", "b", "c"), Choice(1, frozenset({"b"}))}
    finalists = found.finalists()
    assert chosen == (kept("a") if seconds_left else HOST)
    assert set(finalists) == whole | {chosen} and len(set(finalists)) == len(finalists)


def test_a_program_of_no_regions_is_measured_once() -> None:
    assert search([[]], lambda choice: 1.0)[1].finalists() == [HOST]


def times(seconds: dict[Choice, float], *faster: Choice) -> Measured:
    """Return measured times; ``faster`` are the choices significantly faster than ``HOST``."""
    return Measured(seconds, frozenset(faster))


def test_the_fastest_of_the_measured_programs() -> None:
    a, b, both = kept("a"), kept("b"), kept("a", "b")
    assert fastest(times({HOST: 2.0, a: 1.5, b: 1.0, both: 1.1}, a, b, both), both) == b
    assert fastest(times({HOST: 2.0, a: 1.5, b: 1.0}, a, b), both) == b
    assert fastest(times({HOST: 1.019, a: 1.0, both: 1.001}, a, both), both) == HOST
    assert fastest(times({HOST: 1.021, a: 1.0, both: 1.019}, a, both), both) == both
    assert fastest(times({HOST: 1.021, a: 1.0, both: 1.021}, a, both), both) == a


def test_a_program_that_may_be_no_faster_is_not_chosen() -> None:
    a, both = kept("a"), kept("a", "b")
    assert fastest(times({HOST: 1.2, a: 1.0, both: 1.1}), both) == HOST
    assert fastest(times({HOST: 1.2, a: 1.0, both: 1.1}, both), both) == both
    assert fastest(times({HOST: 1.2, a: 1.0, both: 1.01}, a), both) == a


@pytest.mark.parametrize(
    ("wins", "rounds", "clear"),
    [(5, 5, True), (4, 5, False), (4, 4, False), (9, 11, True), (8, 11, False), (0, 11, False)],
)
def test_an_implementation_is_faster_if_it_wins_nearly_all_rounds(
    wins: int, rounds: int, clear: bool
) -> None:
    """An implementation counts as faster if a sign test finds its won rounds significant.

    The test is one-sided, at 5 %. It counts rounds, however slow the lost rounds are.
    """
    taken = {
        "slow": [[2.0, 9.0, 2.0]] * rounds,
        "tried": [[1.9, 1.9, 7.0]] * wins + [[50.0] * 3] * (rounds - wins),
    }
    assert clearly_faster(taken, "slow") == ({"tried"} if clear else set())


def test_more_candidates_have_to_win_more_rounds() -> None:
    """Nine won rounds of eleven are significant for a single candidate, not for one of three."""
    wins = [[1.9]] * 9 + [[2.1]] * 2
    slow = [[2.0]] * 11
    assert clearly_faster({"host": slow, "a": wins}, "host") == {"a"}
    assert clearly_faster({"host": slow, "a": wins, "b": slow, "c": slow}, "host") == set()
    assert clearly_faster({"host": slow, "a": [[1.9]] * 11, "b": slow}, "host") == {"a"}


def test_near_programs_are_timed_again() -> None:
    """Programs near the fastest are timed again, beside the program without regions.

    If the machine is slower then, the other programs' first times are scaled, so their order stays.
    """
    seconds = {HOST: 1.5, kept("a"): 1.0, kept("b"): 1.1, kept("a", "b"): 1.2}
    asked: list[list[Choice]] = []

    def timed(choices: Sequence[Choice], least: int) -> Rounds:
        asked.append(list(choices))
        slower = 1.3 if len(asked) > 1 else 1.0
        return {choice: [[seconds[choice] * slower]] * least for choice in choices}

    found = time_twice(list(seconds), timed)
    assert asked[1:] == [[HOST, kept("a"), kept("b")]]
    assert found.seconds == {c: pytest.approx(1.3 * each) for c, each in seconds.items()}
    assert found.faster == {kept("a"), kept("b")}
    seconds = {HOST: 2.0}
    assert time_twice([HOST], timed) == Measured({HOST: 2.6})


@pytest.mark.parametrize("wins", [True, False])
def test_a_duel_decides_where_the_second_timing_is_not_significant(wins: bool) -> None:
    """A program that wins 9 of 11 rounds twice is timed once more, only beside ``HOST``.

    ``HOST`` is the program without regions.
    """
    a, b = kept("a"), kept("b")
    asked: list[list[Choice]] = []

    def timed(choices: Sequence[Choice], least: int) -> Rounds:
        asked.append(list(choices))
        if len(asked) == 3:
            seconds = {HOST: 2.0, a: 1.9 if wins else 2.1}
            return {choice: [[seconds[choice]]] * least for choice in choices}
        lost = [n in (3, 7) for n in range(least)]
        seconds = {HOST: 2.0, a: 1.9, b: 1.95}
        return {
            choice: [[seconds[choice] + (0.2 if bad and choice != HOST else 0.0)] for bad in lost]
            for choice in choices
        }

    found = time_twice([HOST, a, b], timed)
    assert asked == [[HOST, a, b], [HOST, a, b], [HOST, a]]
    assert found.faster == ({a} if wins else set())
    assert found.seconds[HOST] == pytest.approx(2.0)
    assert fastest(found, b) == (a if wins else HOST)
