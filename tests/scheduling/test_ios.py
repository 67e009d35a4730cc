"""Endings and their dynamic programming against brute force; blocks; the counts of small graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from rammer_mlir.benchmarks.experiments.ios_table_1 import BLOCKS, Block
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.endings import (
    EndingSearch,
    Pruning,
    allowed,
    count,
    endings,
    groups,
    members,
    rooted_endings,
)
from rammer_mlir.scheduling.policies.ios import Ios, blocks
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.placements import one_rtask_operators


def random_readers(rng: random.Random, length: int) -> list[int]:
    return [
        sum(1 << other for other in range(number + 1, length) if rng.random() < 0.35)
        for number in range(length)
    ]


def all_schedules(readers: Sequence[int]) -> list[list[int]]:
    """Return every division into non-empty stages, by giving each operator a stage's number."""
    length = len(readers)
    found: list[list[int]] = []
    for stages in product(range(length), repeat=length):
        if set(stages) != set(range(max(stages) + 1)):
            continue
        if all(stages[n] <= stages[m] for n in range(length) for m in members(readers[n])):
            masks = [0] * (max(stages) + 1)
            for number, stage in enumerate(stages):
                masks[stage] |= 1 << number
            found.append(masks)
    return found


def random_cost(rng: random.Random) -> Callable[[int], float]:
    table: dict[int, float] = {}
    return lambda stage: table.setdefault(stage, rng.random())


@pytest.mark.parametrize("pruning", [None, Pruning(1, 8), Pruning(2, 2)])
def test_dynamic_programming_equals_brute_force(pruning: Pruning | None) -> None:
    rng = random.Random(1)
    for _ in range(150):
        readers, cost = random_readers(rng, rng.randint(1, 5)), random_cost(rng)
        seconds, stages = EndingSearch(readers, cost, pruning).solve()
        possible = [
            schedule
            for schedule in all_schedules(readers)
            if pruning is None or all(allowed(readers, stage, pruning) for stage in schedule)
        ]
        assert seconds == pytest.approx(min(sum(map(cost, schedule)) for schedule in possible))
        assert list(stages) in possible


def is_rooted(readers: Sequence[int], stage: int) -> bool:
    """Whether each group of a stage has one operator that reads nothing inside it."""
    read = 0
    for number in members(stage):
        read |= readers[number] & stage
    return all((group & ~read).bit_count() == 1 for group in groups(readers, stage))


def test_numbers_of_schedules_and_transitions_equal_brute_force() -> None:
    rng = random.Random(2)
    for _ in range(100):
        readers = random_readers(rng, rng.randint(1, 5))
        schedules = [
            schedule
            for schedule in all_schedules(readers)
            if all(is_rooted(readers, stage) for stage in schedule)
        ]
        transitions = {
            (sum(schedule[: n + 1]), schedule[n])
            for schedule in schedules
            for n in range(len(schedule))
        }
        assert count(readers) == (len(transitions), len(schedules))


def test_rooted_endings_are_those_endings_whose_groups_have_one_first_operator() -> None:
    rng = random.Random(3)
    for _ in range(100):
        readers = random_readers(rng, rng.randint(1, 9))
        rest = (1 << len(readers)) - 1
        found = rooted_endings(readers, rest)
        expected = {ending for ending in endings(readers, rest) if is_rooted(readers, ending)}
        assert len(found) == len(set(found))
        assert set(found) == expected


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.network)
def test_counts_of_the_papers_table_1(block: Block) -> None:
    """To the digits that the paper prints."""
    for ours, paper in zip(count(block.readers), (block.transitions, block.schedules), strict=True):
        digits = len(paper.partition("e")[0].replace(".", ""))
        rounded = f"{ours:.{digits - 1}e}"
        assert float(rounded) == float(paper)


def test_counts_of_the_papers_figure_5() -> None:
    """IOS figure 5: a before b, c alone; its path has 12 steps, a transition each."""
    assert count([0b010, 0, 0])[0] == 12


def test_blocks_are_cut_where_one_result_goes_on() -> None:
    assert blocks([[], [0], [0], [1, 2], [3]]) == [(0, 1), (1, 4), (4, 5)]
    assert blocks([[]] * 3, longest=2) == [(0, 1), (1, 2), (2, 3)]
    assert blocks([]) == []


def test_equal_plans_are_correct_also_when_the_search_gives_up() -> None:
    for seed in range(10):
        graph = one_rtask_operators(seed, 12)
        for policy in (Ios(), Ios(max_transitions=3)):
            verify(graph, policy.schedule(graph, cpu_device(3)))
