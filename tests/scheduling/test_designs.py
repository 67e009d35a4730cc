"""Tests that the design search finds the designs that an exhaustive search finds.

Its counts equal those of the Dali paper.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf, prod

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.designs.coupling import couple, uncoupled
from rammer_mlir.scheduling.designs.decisions import decide
from rammer_mlir.scheduling.designs.machine import Choice, machine_of
from rammer_mlir.scheduling.designs.outcome import find_design
from rammer_mlir.scheduling.designs.problem import (
    Assignment,
    Loop,
    LoopKind,
    Problem,
    Read,
    Value,
)
from rammer_mlir.scheduling.designs.search import (
    Design,
    Prefix,
    best_first,
    num_designs,
    search,
)
from rammer_mlir.scheduling.designs.space import DesignSpace, default_design
from rammer_mlir.scheduling.devices.catalog import find_device
from tests.scheduling.design_problems import (
    TITAN_X,
    random_machine,
    random_problem,
    softmax_cross_entropy,
    spaces_of,
    transformer_kernel,
)

MOST_EXHAUSTED = 1 << 12


def all_designs(space: DesignSpace) -> Iterator[Prefix]:
    """Yield each complete design of a space: a tuple with the index of each variable's choice."""
    yield from product(*map(range, space.num_choices))


def exhausted(spaces: list[DesignSpace]) -> float:
    """Return the least cost of all designs of all ``spaces``, by trying each design."""
    return min(space.bound(design) for space in spaces for design in all_designs(space))


def random_spaces(seeds: range, num_loops: int) -> Iterator[list[DesignSpace]]:
    """Yield the design spaces of random groups that have few enough designs to try all of them."""
    for seed in seeds:
        rng = random.Random(seed)
        problem = random_problem(rng, num_loops, decide=seed % 3 == 0)
        spaces = spaces_of(problem, random_machine(rng), tiles=seed % 2 == 0)
        if num_designs(spaces) <= MOST_EXHAUSTED:
            yield spaces


def test_the_papers_example() -> None:
    """The example of section 2.4 has 14 loops and 4,194,304 designs.

    Coupling of loops leaves 7 independent choices and 512 designs.
    """
    problem = softmax_cross_entropy()
    outcome = find_design(problem, TITAN_X)
    assert len(problem.used_loops) == 14
    assert outcome.num_uncoupled == 4_194_304
    assert [len(space.classes) for space in outcome.spaces] == [7]
    assert num_designs(outcome.spaces) == 512
    expected = {
        loop.name: "rTask" if loop.name.endswith(("batch", "time")) else "lanes"
        for loop in problem.loops
    }
    assert {name: choice.name for name, choice in outcome.chosen.items()} == expected
    assert outcome.found.design.cost == exhausted(list(outcome.spaces)) == 101_820.0
    assert outcome.summary() == (
        f"14 loops, 4,194,304 designs; 7 variables, 512; {outcome.found.taken} taken"
    )


def test_the_papers_example_without_an_incumbent() -> None:
    """The search evaluates no more designs than the paper's, which evaluated 155 of the 512."""
    spaces = spaces_of(softmax_cross_entropy(), TITAN_X)
    found = best_first(spaces)
    assert found.taken <= 155 and found.evaluated <= 155
    assert found.design == find_design(softmax_cross_entropy(), TITAN_X).found.design


def test_the_access_of_the_papers_example() -> None:
    """Of 14 loops, the 8 loops over batch and time may be distributed over blocks.

    The other 6 loops cannot, since a value is broadcast over them.
    """
    problem = softmax_cross_entropy()
    spread = {problem.loops[n].name for c in couple(problem) if c.may_spread for n in c.loops}
    stages = ("max", "exp", "sum", "out")
    assert spread == {f"{stage}.{loop}" for stage in stages for loop in ("batch", "time")}


def test_the_counts_of_the_papers_transformer() -> None:
    """The paper's Transformer kernel has 36 loops and 2^43 designs, of which coupling leaves 2^20.

    Coupling removes 17 loops.
    """
    fitting = [wide for wide in range(37) if 4**wide * 2 ** (36 - wide) == 2**43]
    gone = [wide for wide in range(18) if 4**wide * 2 ** (17 - wide) == 2**23]
    assert (fitting, gone) == ([7], [6])
    problem = transformer_kernel()
    (decided,) = decide(problem)
    assert len(problem.used_loops) == 36
    single, coupled = (
        DesignSpace(decided, TITAN_X, classes) for classes in (uncoupled(problem), couple(problem))
    )
    assert (num_designs([single]), num_designs([coupled])) == (2**43, 2**20)
    wide = [sum(c.may_spread for c in space.classes) for space in (single, coupled)]
    narrow = [sum(not c.may_spread for c in space.classes) for space in (single, coupled)]
    assert (wide, narrow) == ([7, 1], [29, 18])


def test_search_equals_exhaustion() -> None:
    tried = 0
    for spaces in random_spaces(range(250), 7):
        best = exhausted(spaces)
        assert best_first(spaces).design.cost == best
        choices = default_design(spaces[0])
        known = Design(0, choices, spaces[0].bound(choices))
        found = search(spaces, known)
        assert (found.design.cost, found.bound, found.gap, found.beam) == (best, best, 1.0, 0)
        assert spaces[found.design.space].bound(found.design.choices) == best
        tried += 1
    assert tried > 120


def test_an_incumbent_changes_nothing() -> None:
    for spaces in random_spaces(range(60), 7):
        plain = best_first(spaces)
        known = best_first(spaces, plain.design)
        assert known.design == plain.design
        assert known.taken <= plain.taken and known.evaluated <= plain.evaluated


def test_of_equally_cheap_designs_the_preferred_one_is_found() -> None:
    for spaces in random_spaces(range(150), 6):
        best = exhausted(spaces)
        cheapest = (
            (number, design)
            for number, space in enumerate(spaces)
            for design in all_designs(space)
            if space.bound(design) == best
        )
        found = best_first(spaces).design
        assert (found.space, found.choices) == next(cheapest)


def test_bounds_never_fall_and_are_below_all_completions() -> None:
    for spaces in random_spaces(range(400, 480), 6):
        for space in spaces:
            least: dict[Prefix, float] = {}
            for design in all_designs(space):
                bounds = [space.bound(design[:length]) for length in range(len(design) + 1)]
                assert bounds == sorted(bounds)
                for length in range(len(design)):
                    known = least.get(design[:length], inf)
                    least[design[:length]] = min(known, bounds[-1])
            for prefix, cost in least.items():
                assert space.bound(prefix) <= cost


def consistent_designs(problem: Problem, space: DesignSpace) -> Iterator[Prefix]:
    """Yield designs of uncoupled loops in which loops over the same elements have equal choices.

    Two loops are over the same elements if an edge of the problem connects them, from a value to
    its reader, and their sizes are equal.
    """
    position = {c.loops[0]: n for n, c in enumerate(space.variables)}
    edges = [
        sorted((position[a], position[b]))
        for a, b in problem.edges
        if problem.loops[a].extent == problem.loops[b].extent
    ]
    pending: list[Prefix] = [()]
    while pending:
        prefix = pending.pop()
        if len(prefix) == len(space.num_choices):
            yield prefix
            continue
        ends = [first for first, second in edges if second == len(prefix)]
        for choice in range(space.num_choices[len(prefix)]):
            if all(prefix[end] == choice for end in ends):
                pending.append((*prefix, choice))


def test_coupling_keeps_the_optimum_of_consistent_designs() -> None:
    """The best coupled design costs as much as the best design that is consistent.

    A design is consistent if loops over the same elements have equal choices, so that an element is
    read in the rTask that writes it.
    """
    for seed in range(120):
        rng = random.Random(seed)
        problem = random_problem(rng, 8)
        machine = random_machine(rng)
        (decided,) = decide(problem)
        single = DesignSpace(decided, machine, uncoupled(problem))
        coupled = DesignSpace(decided, machine, couple(problem))
        best = min(map(single.bound, consistent_designs(problem, single)))
        assert best_first([coupled]).design.cost == pytest.approx(best, rel=1e-12)
        assert num_designs([coupled]) <= num_designs([single])


def test_a_beam_reports_its_gap() -> None:
    """A beam search that drops designs reports a correct lower bound of the best cost."""
    gaps: list[float] = []
    for spaces in random_spaces(range(520, 620), 7):
        found = search(spaces, most=1, width=2)
        best = exhausted(spaces)
        if num_designs(spaces) == 1:
            continue
        assert found.beam == 2
        assert found.bound <= best <= found.design.cost
        assert found.gap == pytest.approx(found.design.cost / found.bound)
        gaps.append(found.gap)
    assert max(gaps) > 1.0


def test_a_wide_beam_is_exact() -> None:
    for spaces in random_spaces(range(620, 660), 6):
        found = search(spaces, most=0, width=1 << 20)
        assert (found.design.cost, found.gap) == (exhausted(spaces), 1.0)


def test_more_designs_than_a_search_tries_are_left_to_a_beam() -> None:
    problem = transformer_kernel()
    one_more = Loop("more", 50, LoopKind.REDUCTION)
    loops = (*problem.loops, one_more)
    last = problem.assignments[-1]
    assignments = (*problem.assignments[:-1], replace(last, loops=(*last.loops, 36)))
    outcome = find_design(replace(problem, loops=loops, assignments=assignments), TITAN_X)
    assert num_designs(outcome.spaces) == 2**21
    assert outcome.found.beam == 4096
    assert outcome.summary().endswith(
        f"by a beam of 4,096, at most {outcome.found.gap:.2f} times the optimum"
    )


def test_a_diagonal_is_not_spread() -> None:
    """Loops are not distributed over rTasks if a value is read both by rows and by columns.

    An rTask would need elements of other rTasks.
    """
    loops = (Loop("i", 8), Loop("j", 8), Loop("k", 8))
    problem = Problem(
        loops,
        (Assignment("value", (0,), 1), Assignment("outer", (1, 2), 1, is_returned=True)),
        (Value("value", 0, (0,), (8,)),),
        (Read(0, 1, (1,)), Read(0, 1, (2,))),
    )
    (found,) = couple(problem)
    assert (found.loops, found.may_spread) == ((0, 1, 2), False)


def test_choices() -> None:
    names = [choice.name for choice in TITAN_X.choices(100, may_spread=True)]
    assert names == ["lanes", "rTask", "both", "serial"]
    cpu = machine_of(find_device("cpu").device(4))
    assert [c.name for c in cpu.choices(100, may_spread=True)] == ["vector", "rTask", "serial"]
    assert [c.name for c in cpu.choices(100, may_spread=False)] == ["vector", "serial"]
    tiles = cpu.choices(10, may_spread=True, tiles=True)
    assert {choice.tile for choice in tiles} == {1, 2, 3, 5, 10}
    assert Choice("rTask of 3, vector", 3, by_lanes=True) in tiles
    assert machine_of(find_device("h100").device()).lanes == 256


def test_a_group_that_cannot_be_executed_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"loop 'i': expected an extent of at least 1, found 0"):
        Problem((Loop("i", 0),), (Assignment("a", (0,), 1),))
    value = Value("v", 0, (0,), (3,))
    with pytest.raises(ScheduleError, match=r"value 'v': expected readers behind assignment 0"):
        Problem((Loop("i", 3),), (Assignment("a", (0,), 1),), (value,), (Read(0, 0, (0,)),))


def test_the_number_of_designs_is_that_of_the_choices() -> None:
    for spaces in random_spaces(range(30), 5):
        assert num_designs(spaces) == sum(len(list(all_designs(space))) for space in spaces)
        assert all(prod(space.num_choices) > 0 for space in spaces)
