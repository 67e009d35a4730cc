"""Tests that the verifier refuses plans that break a rule, and accepts right ones.

Each rule has an example; random plans are changed at random.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    BufferKind,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Item, Plan, RProgram, Run
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import chain, random_graph
from tests.scheduling.interleavings import Tasks, judge
from tests.scheduling.mutations import mutants

GRAPH = chain(length=1, size=4, tile=2)
"""Two operators of two rTasks; rTask ``i`` of the second reads the first one's rTask ``i``."""


def plan_of(*veus: tuple[Item, ...]) -> Plan:
    """Return a plan of one rProgram for ``GRAPH``, given the items of each vEU."""
    return Plan((RProgram(len(veus), veus),), (0, 0))


def test_smallest_correct_plan() -> None:
    verify(GRAPH, plan_of((Run(0, 0, 2), Run(1, 0, 1)), (Barrier(((0, 1),)), Run(1, 1, 1))))


FIRST = Run(0, 0, 2)
BROKEN: dict[str, tuple[Plan, str]] = {
    "unordered": (
        plan_of((FIRST, Run(1, 0, 1)), (Barrier(((0, 0),)), Run(1, 1, 1))),
        r"^map1\[1\] on vEU 1 order 0 reads what map0\[1\] on vEU 0 order 1 writes",
    ),
    "own vEU, wrong order": (plan_of((Run(1, 0, 2), FIRST)), r"^map1\[0\] .* map0\[0\] "),
    "missing": (plan_of((FIRST, Run(1, 0, 1))), r"^map1\[1\] never runs"),
    "twice": (plan_of((FIRST, Run(1, 0, 2), Run(0, 1, 1))), r"^map0\[1\] runs on vEU 0 order 1"),
    "no such rTask": (plan_of((FIRST, Run(1, 0, 3))), "runs rTasks 0 to 2 of 'map1'"),
    "negative rTask": (plan_of((Run(0, -1, 2), Run(1, 0, 2))), "expected ids from 0 to 1"),
    "empty run": (plan_of((FIRST, Run(1, 0, 0), Run(1, 0, 2))), "expected ids from 0 to 1"),
    "no such operator": (plan_of((FIRST, Run(2, 0, 2))), "operator 2: expected one from 0 to 1"),
    "own vEU awaited": (
        plan_of((FIRST, Barrier(((0, 0),)), Run(1, 0, 2))),
        "wait for vEU 0 order 0: expected another vEU",
    ),
    "no such vEU": (plan_of((FIRST, Barrier(((1, 0),)), Run(1, 0, 2))), "expected another vEU"),
    "no such order": (
        plan_of((FIRST,), (Barrier(((0, 2),)), Run(1, 0, 2))),
        "order 2: expected an order below 2",
    ),
    "negative order": (plan_of((FIRST,), (Barrier(((0, -1),)), Run(1, 0, 2))), "order -1"),
    "circle": (
        plan_of((Barrier(((1, 0),)), FIRST), (Barrier(((0, 0),)), Run(1, 0, 2))),
        r"^deadlock: map0\[0\] on vEU 0 order 0 waits for map1\[0\] on vEU 1 order 0; map1\[0\]",
    ),
    "too many vEUs": (Plan((RProgram(2, ((FIRST, Run(1, 0, 2)),)),), (0, 0)), "expected 2 vEUs"),
    "rKernels missing": (replace(plan_of((FIRST, Run(1, 0, 2))), kernels=(0,)), "found 1"),
    "no such rKernel": (replace(plan_of((FIRST, Run(1, 0, 2))), kernels=(0, 1)), "'map1' uses"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rules(name: str) -> None:
    plan, message = BROKEN[name]
    with pytest.raises(ScheduleError, match=message):
        verify(GRAPH, plan)


@pytest.mark.parametrize("num_veus", [2, 3, 5])
def test_waits_in_a_circle_end_with_a_message(num_veus: int) -> None:
    """A deadlock in which each vEU waits for the next one is reported with all vEUs."""
    graph = chain(length=num_veus - 1, size=2, tile=2)
    items = [(Barrier((((v + 1) % num_veus, 0),)), Run(v, 0, 1)) for v in range(num_veus)]
    with pytest.raises(ScheduleError, match=r"^deadlock") as failure:
        verify(graph, Plan((RProgram(num_veus, tuple(items)),), (0,) * num_veus))
    assert all(f"vEU {veu} " in str(failure.value) for veu in range(num_veus))


def test_programs_follow_each_other() -> None:
    first = RProgram(2, ((), (Run(0, 0, 2),)))
    second = RProgram(2, ((Run(1, 0, 2),), ()))
    verify(GRAPH, Plan((first, second), (0, 0)))
    with pytest.raises(ScheduleError, match=r"map1\[0\] on vEU 0 order 0 reads what map0\[0\] on"):
        verify(GRAPH, Plan((second, first), (0, 0)))


def graph_of(kind: BufferKind, *writes: tuple[int, int]) -> TaskGraph:
    """Return a graph of an operator whose rTasks each write an interval of a buffer.

    The buffer has 8 elements; ``writes`` has the first element and the length of each interval.
    """
    offsets = np.array([first for first, _ in writes], dtype=np.int64)
    sizes = np.array([[length] for _, length in writes], dtype=np.int64)
    access = Access(0, Boxes(offsets, sizes, (1,)))
    kernel = RKernel("k", len(writes), (), (access,))
    return TaskGraph((Buffer("b", 8, 4, kind),), (ROperator("op", (kernel,), (View(0),)),))


@pytest.mark.parametrize(
    ("kind", "writes", "message"),
    [
        ("output", [(0, 4), (3, 5)], r"op\[0\] on vEU 0 order 0 and op\[1\] .* both write"),
        ("intermediate", [(0, 4), (0, 4)], r"op\[0\] .* and op\[1\] .* both write"),
        ("output", [(0, 4), (5, 3)], "'b': expected 8 elements written, found 7"),
        ("intermediate", [(0, 4), (5, 4)], r"op\[1\] .* expected elements from 0 to 7"),
        ("input", [(0, 4)], "writes input 'b': expected only reads"),
    ],
)
def test_broken_writes(kind: BufferKind, writes: list[tuple[int, int]], message: str) -> None:
    plan = Plan((RProgram(1, ((Run(0, 0, len(writes)),),)),), (0,))
    with pytest.raises(ScheduleError, match=message):
        verify(graph_of(kind, *writes), plan)


def graph_of_updates(kind: BufferKind, *updates: tuple[int, int], reads: bool) -> TaskGraph:
    """Return a graph of operators that each update an interval of a buffer of 8 elements in place.

    ``updates`` has the first element and the length of each interval; with ``reads``, another
    operator reads the whole buffer.
    """
    operators: list[ROperator] = []
    for number, (first, length) in enumerate(updates):
        boxes = Boxes(np.array([first]), np.array([[length]]), (1,))
        kernel = RKernel("k", 1, (), (), updates=(Access(0, boxes),))
        operators.append(ROperator(f"op{number}", (kernel,), (View(0),)))
    if reads:
        whole = Access(0, Boxes(np.array([0]), np.array([[8]]), (1,)))
        operators.append(ROperator("reader", (RKernel("read", 1, (whole,), ()),), (View(0),)))
    return TaskGraph((Buffer("b", 8, 4, kind),), tuple(operators))


@pytest.mark.parametrize(
    ("kind", "updates", "reads", "message"),
    [
        ("output", [(0, 4), (5, 3)], False, "'b': expected 8 elements written, found 7"),
        ("inout", [(0, 4), (5, 4)], True, r"op1\[0\] .* expected elements from 0 to 7"),
        ("inout", [(-1, 4)], False, r"op0\[0\] .* expected elements from 0 to 7"),
        ("input", [(0, 4)], False, "updates input 'b': expected only reads"),
        ("constant", [(0, 4)], True, "updates constant 'b': expected only reads"),
        ("intermediate", [(0, 0), (3, 0)], True, r"reader\[0\] .* 0 to 7 .* never written before"),
    ],
)
def test_broken_updates(
    kind: BufferKind, updates: list[tuple[int, int]], reads: bool, message: str
) -> None:
    graph = graph_of_updates(kind, *updates, reads=reads)
    runs = tuple(Run(number, 0, 1) for number in range(len(graph.operators)))
    with pytest.raises(ScheduleError, match=message):
        verify(graph, Plan((RProgram(1, (runs,)),), (0,) * len(runs)))


def test_updates_keep_their_order() -> None:
    """A plan in which two consecutive updates of a buffer are swapped is refused.

    That holds even if no rTask reads the buffer between them.
    """
    graph = graph_of_updates("inout", (0, 4), (3, 5), (2, 2), reads=True)
    in_order = Plan((RProgram(1, (tuple(Run(n, 0, 1) for n in range(4)),)),), (0,) * 4)
    verify(graph, in_order)
    for first, second in ((0, 1), (1, 2), (2, 3)):
        order = [0, 1, 2, 3]
        order[first], order[second] = second, first
        runs = tuple(Run(number, 0, 1) for number in order)
        names = [graph.operators[number].name for number in (second, first)]
        message = rf"{names[0]}\[0\] .* what {names[1]}\[0\] .* no barrier orders them"
        with pytest.raises(ScheduleError, match=message):
            verify(graph, Plan((RProgram(1, (runs,)),), (0,) * 4))


@pytest.mark.parametrize("kind", ["input", "constant", "intermediate"])
@pytest.mark.parametrize("first", [-1, 5])
def test_reads_outside_of_a_buffer(kind: BufferKind, first: int) -> None:
    """A read of four elements, one of which is outside of the buffer, is refused."""
    offsets, sizes = np.array([0, first], dtype=np.int64), np.array([[4], [4]], dtype=np.int64)
    read = RKernel("read", 2, (Access(0, Boxes(offsets, sizes, (1,))),), ())
    operators = [ROperator("reader", (read,), (View(0),))]
    if kind == "intermediate":
        operators[:0] = graph_of(kind, (0, 8)).operators
    graph = TaskGraph((Buffer("b", 8, 4, kind),), tuple(operators))
    runs = tuple(Run(n, 0, operator.kernels[0].num_rtasks) for n, operator in enumerate(operators))
    message = rf"reader\[1\] on vEU 0 order \d touches elements {first} to {first + 3} of 'b'"
    with pytest.raises(ScheduleError, match=f"{message}: expected elements from 0 to 7"):
        verify(graph, Plan((RProgram(1, (runs,)),), (0,) * len(operators)))


def test_buffers_behind_the_end_of_the_arena() -> None:
    graph = graph_of("intermediate", (0, 8))
    plan = Plan((RProgram(1, ((Run(0, 0, 1),),)),), (0,))
    verify(graph, plan, {0: 64}, arena_bytes=96)
    with pytest.raises(
        ScheduleError, match=r"'b' lies at bytes 68 to 99 of the arena: expected .* 95"
    ):
        verify(graph, plan, {0: 68}, arena_bytes=96)


def test_rtasks_that_touch_nothing() -> None:
    graph = graph_of("output", (0, 8), (8, 0), (8, 0))
    verify(graph, Plan((RProgram(1, ((Run(0, 0, 3),),)),), (0,)))


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10_000), num_veus=st.integers(2, 3), rounds=st.integers(1, 3))
def test_repeated_damage(seed: int, num_veus: int, rounds: int) -> None:
    """A plan with several random changes is accepted exactly if all its executions are right."""
    graph = random_graph(seed, length=4)
    plan = get_policy("wavefront").schedule(graph, cpu_device(num_veus))
    tasks = Tasks(graph, plan.kernels)
    rng = random.Random(seed)
    for _ in range(rounds):
        plan = rng.choice([mutant for _, mutant in mutants(plan, rng.randrange(1 << 30), 1)])
        harmful = judge(tasks, plan).harmful
        try:
            verify(graph, plan)
        except ScheduleError:
            assert harmful
        else:
            assert not harmful
