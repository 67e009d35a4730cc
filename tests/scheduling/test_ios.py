"""Tests that the dynamic programming of IOS finds the schedules that brute force finds.

Its counts of schedules and transitions equal those in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import inf

import pytest

from rammer_mlir.benchmarks.papers.ios.blocks_of_table_1 import BLOCKS, Block
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.dependencies import Dependencies
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.ios_blocks import (
    chain_units,
    crossing_values,
    cut_at_single_values,
    cut_long,
    fill_units,
    most_transitions,
    unit_sources,
    width,
)
from rammer_mlir.scheduling.ios_dynamic_programming import (
    EndingSearch,
    Pruning,
    closed_groups,
    count,
    groups,
    members,
    rooted_endings,
)
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.ios import Ios, place_stages
from rammer_mlir.scheduling.program import Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.stage_times import ConcurrentTimes, OperatorTimes
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph
from tests.scheduling.placements import one_rtask_operators


def endings(readers: Sequence[int], rest: int) -> Iterator[int]:
    """Yield every ending of ``rest``: each non-empty subset that the remaining units do not read.

    Sets are bit masks; ``readers`` has the mask of the readers of each unit.
    """
    for stage in range(1, rest + 1):
        is_part = stage & rest == stage
        if is_part and not any(readers[n] & rest & ~stage for n in members(stage)):
            yield stage


def allowed(readers: Sequence[int], stage: int, pruning: Pruning) -> bool:
    parts = groups(readers, stage)
    return len(parts) <= pruning.num_groups and all(
        part.bit_count() <= pruning.group_size for part in parts
    )


@dataclass
class AnyTimes:
    """A stub for the predicted times of stages, for searches that are compared with brute force.

    ``cost`` returns the time of a stage, a bit mask of units. All lower bounds are 0.
    """

    cost: Callable[[int], float]

    def group(self, units: int) -> tuple[float, float]:
        return 0.0, 0.0

    def bound(self, units: int, longest: float, work: float) -> float:
        return 0.0

    def stage(self, units: int) -> float:
        return self.cost(units)

    def least(self, unit: int) -> float:
        return 0.0


def random_readers(rng: random.Random, length: int) -> list[int]:
    return [
        sum(1 << other for other in range(number + 1, length) if rng.random() < 0.35)
        for number in range(length)
    ]


def all_schedules(readers: Sequence[int]) -> list[list[int]]:
    """Return all schedules: divisions into ordered stages without producers in later stages.

    A stage is a non-empty set of operators, as a bit mask; ``readers`` has the mask of the readers
    of each operator.
    """
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
        seconds, stages = EndingSearch(readers, AnyTimes(cost), pruning).solve()
        possible = [
            schedule
            for schedule in all_schedules(readers)
            if pruning is None or all(allowed(readers, stage, pruning) for stage in schedule)
        ]
        assert seconds == pytest.approx(min(sum(map(cost, schedule)) for schedule in possible))
        assert list(stages) in possible


def is_rooted(readers: Sequence[int], stage: int) -> bool:
    """Return whether each group of a stage has one operator without producers in the group."""
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
    """The counts of transitions and schedules equal all printed digits of IOS's table 1."""
    for ours, paper in zip(count(block.readers), (block.transitions, block.schedules), strict=True):
        digits = len(paper.partition("e")[0].replace(".", ""))
        rounded = f"{ours:.{digits - 1}e}"
        assert float(rounded) == float(paper)


def test_counts_of_the_papers_figure_5() -> None:
    """IOS's figure 5 has 12 transitions: ``a`` precedes ``b``, and ``c`` is independent of both."""
    assert count([0b010, 0, 0])[0] == 12


def test_groups_are_the_connected_endings() -> None:
    rng = random.Random(4)
    for _ in range(100):
        readers = random_readers(rng, rng.randint(1, 8))
        rest = rng.getrandbits(len(readers)) or 1
        for most in (1, 2, 3, 8):
            expected = {
                ending
                for ending in endings(readers, rest)
                if ending.bit_count() <= most and len(groups(readers, ending)) == 1
            }
            found = closed_groups(readers, rest, most)
            assert len(found) == len(expected) and set(found) == expected


def random_times(rng: random.Random, readers: Sequence[int], num_veus: int) -> ConcurrentTimes:
    """Return the predicted times of stages of random units; a unit is a chain of 1 to 3 operators.

    ``readers`` has the mask of the units that read each unit.
    """
    units: list[list[int]] = []
    sources: list[list[int]] = []
    for number in range(len(readers)):
        before = [units[n][-1] for n in range(number) if readers[n] >> number & 1]
        unit: list[int] = []
        for _ in range(rng.randint(1, 3)):
            unit.append(len(sources))
            sources.append(unit[-2:-1] or before)
        units.append(unit)
    kernels = [
        RKernel("k", rng.randint(1, 9), (), (), flops_per_rtask=rng.randint(1, 40) * 10_000)
        for _ in sources
    ]
    device = replace(cpu_device(num_veus), barrier_seconds=2e-6)
    return ConcurrentTimes(units, OperatorTimes(sources, kernels, device))


@pytest.mark.parametrize("pruning", [None, Pruning(), Pruning(2, 3)])
def test_stages_of_predicted_times_equal_brute_force(pruning: Pruning | None) -> None:
    """The search finds stages whose total predicted time is the least of all schedules.

    With a pruning, only the schedules whose stages the pruning allows are compared.
    """
    rng = random.Random(5)
    for _ in range(100):
        readers = random_readers(rng, rng.randint(1, 5))
        times = random_times(rng, readers, rng.randint(1, 6))
        seconds, stages = EndingSearch(readers, times, pruning).solve()
        best = min(
            sum(map(times.stage, schedule))
            for schedule in all_schedules(readers)
            if pruning is None or all(allowed(readers, stage, pruning) for stage in schedule)
        )
        assert seconds == pytest.approx(best) == pytest.approx(sum(map(times.stage, stages)))


def test_bounds_on_stages_are_never_above_their_times() -> None:
    rng = random.Random(6)
    for _ in range(200):
        readers = random_readers(rng, rng.randint(1, 7))
        times = random_times(rng, readers, rng.randint(1, 6))
        for stage in endings(readers, (1 << len(readers)) - 1):
            parts = [times.group(group) for group in groups(readers, stage)]
            bound = times.bound(stage, max(a for a, _ in parts), sum(w for _, w in parts))
            assert bound <= times.stage(stage) * (1 + 1e-12)
            assert sum(map(times.least, members(stage))) <= times.stage(stage)


def test_a_stage_takes_as_long_as_its_placed_rtasks() -> None:
    """The estimated time of a stage is close to the time of a plan of the stage alone."""
    rng = random.Random(7)
    for seed in range(50):
        graph = random_graph(seed, length=6)
        device = replace(cpu_device(rng.randint(1, 5)), barrier_seconds=2e-6, launch_seconds=0.0)
        everything = range(len(graph.operators))
        plan = place_stages(graph, device, [list(everything)])
        kernels = [o.kernels[k] for o, k in zip(graph.operators, plan.kernels, strict=True)]
        found = Dependencies(graph)
        times = OperatorTimes([found.producers(n) for n in everything], kernels, device)
        slack = len(graph.operators) * device.barrier_seconds
        assert times.simulated(everything) == pytest.approx(
            plan.predicted_seconds, rel=0.25, abs=slack
        )


def random_sources(rng: random.Random, length: int) -> list[list[int]]:
    return [[p for p in range(max(0, n - 6), n) if rng.random() < 0.35] for n in range(length)]


def test_blocks_are_cut_where_one_value_goes_on() -> None:
    assert cut_at_single_values([[], [0], [0], [1, 2], [3]]) == [(0, 1), (1, 3), (3, 4), (4, 5)]
    # The parts of a concatenation, which others read as a whole, are one value.
    # The last two run concurrently, although a single result goes on from the first of them.
    assert cut_at_single_values([[], [0], [0], [1, 2], [1, 2]]) == [(0, 1), (1, 3), (3, 5)]
    assert cut_at_single_values([[], [0], [0]]) == [(0, 1), (1, 3)]
    assert cut_at_single_values([]) == cut_long([], 3) == []


def test_long_blocks_are_cut_where_the_fewest_values_go_on() -> None:
    """A chain of NASNet-like cells is cut between cells.

    Each cell reads the two cells before it, so that every cut crosses more than one value.
    """
    cell = [[-2], [-1], [0], [-2, 1], [0, 1], [2, 3]]
    sources: list[list[int]] = [[], []]
    ends = [0, 1]
    for _ in range(5):
        first = len(sources)
        places = {-2: ends[-2], -1: ends[-1]}
        for found in [*cell, [4, 5]]:
            sources.append(sorted(places.get(n, first + n) for n in found))
        ends.append(len(sources) - 1)
    found = cut_long(sources, 10)
    assert found[0][0] == 0 and found[-1][1] == len(sources)
    assert [end - first for first, end in found[2:-2]] == [7, 7, 7], "a cell each"
    assert all(first == before for (_, before), (first, _) in pairwise(found))
    assert all(end - first == 1 for first, end in cut_long(sources, 0))


def test_values_that_cross_equal_a_count_from_the_definition() -> None:
    rng = random.Random(6)
    for _ in range(50):
        sources = random_sources(rng, rng.randint(1, 15))
        expected: list[int] = []
        for place in range(1, len(sources)):
            readers = {
                tuple(n for n in range(place, len(sources)) if producer in sources[n])
                for producer in range(place)
            }
            expected.append(len(readers - {()}))
        assert crossing_values(sources) == expected


def test_units_keep_dependencies_and_add_none() -> None:
    rng = random.Random(7)
    for _ in range(200):
        sources = random_sources(rng, rng.randint(1, 14))
        fills = [n for n, found in enumerate(sources) if not found and rng.random() < 0.7]
        joined = fill_units(sources, fills)
        for units in (joined, chain_units(sources, joined)):
            assert sorted(n for unit in units for n in unit) == list(range(len(sources)))
            between = unit_sources(sources, units)
            assert all(source < n for n, found in enumerate(between) for source in found)
            unit_of = {n: index for index, unit in enumerate(units) for n in unit}
            for n, found in enumerate(sources):
                assert {unit_of[p] for p in found} <= {*between[unit_of[n]], unit_of[n]}


def test_operators_that_fill_borders_join_what_writes_the_inside() -> None:
    # 2 fills a border of what 3 and 4 read besides 1, and 5 one of what 6 reads besides 3.
    sources = [[], [0], [], [1, 2], [1, 2], [], [5, 3]]
    assert fill_units(sources, [2, 5]) == [[0], [2, 1], [5, 3], [4], [6]]
    assert fill_units([[], [0]], [0]) == [[0, 1]]
    assert fill_units([[], [0], [0]], [0]) == [[0], [1], [2]], "two would wait for each other"
    assert fill_units([[]], [0]) == [[0]]


def test_chains_are_units() -> None:
    sources = [[], [0], [0], [1], [3], [2, 4]]
    chains = chain_units(sources, [[n] for n in range(6)])
    assert chains == [[0], [1, 3, 4], [2], [5]] or chains == [[0], [2], [1, 3, 4], [5]]


def test_the_width_is_that_of_the_largest_antichain() -> None:
    rng = random.Random(8)
    for _ in range(100):
        sources = random_sources(rng, rng.randint(1, 8))
        before: list[set[int]] = []
        for found in sources:
            before.append(set(found).union(*(before[p] for p in found)))
        best = max(
            chosen.bit_count()
            for chosen in range(1, 1 << len(sources))
            if not any(before[n] & set(members(chosen)) for n in members(chosen))
        )
        assert width(sources) == best


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.network)
def test_the_bound_on_transitions_holds(block: Block) -> None:
    sources = [
        [p for p, mask in enumerate(block.readers) if mask >> n & 1]
        for n in range(len(block.readers))
    ]
    assert count(block.readers)[0] <= most_transitions(sources)


@pytest.mark.parametrize(
    "policy",
    ["ios", "ios{units=chains}", "ios{max-transitions=3}", "ios{barriers=stage}"],
)
def test_plans_are_correct(policy: str) -> None:
    for seed in range(10):
        graph = one_rtask_operators(seed, 12)
        plan = get_policy(policy).schedule(graph, cpu_device(3))
        verify(graph, plan)
        (note,) = plan.notes
        assert ("cut to keep the search short" in note) == ("max" in policy)


def test_everything_waits_for_all_of_the_stage_before() -> None:
    for seed in range(10):
        graph, device = one_rtask_operators(seed, 12), cpu_device(3)
        policy = Ios(barriers="stage")
        plan = policy.schedule(graph, device)
        stage_of = {n: k for k, stage in enumerate(policy.stages(graph, device)) for n in stage}
        ends: dict[int, float] = {}
        begins: dict[int, float] = {}
        for event in simulate(graph, plan, device).events:
            if not isinstance(event.item, Run):
                continue
            stage = stage_of[event.item.operator]
            ends[stage] = max(ends.get(stage, 0.0), event.end)
            begins[stage] = min(begins.get(stage, inf), event.start)
        assert all(ends[stage - 1] <= begins[stage] for stage in range(1, len(ends)))


def test_options_are_checked() -> None:
    assert get_policy("ios{group-size=2 num_groups=4}") == Ios(2, 4)
    for text, words in {
        "ios{group-size=0}": "ios: group-size: expected at least 1, found 0",
        "ios{units=cells}": "'ios': option 'units': expected operators or chains, found 'cells'",
        "ios{widest=3}": "'ios': unknown option 'widest': expected one of group-size, num-groups",
        "ios{units=chains": r"policy 'ios\{units=chains': expected a brace at the end",
        "wavefront{x=1}": "'wavefront': unknown option 'x': expected one of readiness",
        "auto{x=1}": "'auto': unknown option 'x'",
    }.items():
        with pytest.raises(OptionError, match=words):
            get_policy(text)
