"""Tests that the time of scheduling large graphs does not grow quadratically."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.updated_buffers import Interval, UpdatedBuffer
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import GraphMaker


def wide_and_deep(num_operators: int, num_rtasks: int, width: int = 8) -> TaskGraph:
    """Return ``width`` parallel chains of operators on vectors, which sometimes read each other.

    There are ``num_operators`` operators, each of ``num_rtasks`` rTasks.
    """
    rng = random.Random(0)
    maker = GraphMaker()
    size = num_rtasks * 4
    lanes = [maker.tensor(size, kind="input") for _ in range(width)]
    for number in range(num_operators):
        x, other = lanes[number % width], rng.choice(lanes)
        if number % 3:
            y = maker.stencil(x, 1, (4,))
        else:
            y = maker.elementwise(x, other, tile=(4,))
        lanes[number % width] = y
    for x in lanes:
        maker.output(x, (4,))
    return maker.graph()


def test_thousands_of_operators() -> None:
    """Scheduling 2,000 operators of 50 rTasks takes less than a minute.

    The limit is generous for the present code, but code of quadratic time would exceed it.
    """
    graph = wide_and_deep(2000, 50)
    start = time.process_time()
    plan = get_policy("wavefront").schedule(graph, cpu_device(8))
    least = minimize(plan)
    verify(graph, least, plan_memory(graph, least).offsets)
    assert time.process_time() - start < 60
    assert least.num_waits == plan.num_waits > 0


def updates(num_updates: int, kind: str) -> TaskGraph:
    """Return a graph of updates in place of one buffer.

    ``kind`` is "whole" for updates of the whole buffer, "rows" for updates of a row each, or
    "readers" for an update that many operators read.
    """
    maker = GraphMaker()
    rows = num_updates if kind == "rows" else 8
    x, state = maker.tensor(8, 8, kind="input"), maker.tensor(rows, 8, kind="inout")
    if kind == "readers":
        maker.update(state, x, tile=(2, 4))
    for number in range(num_updates):
        if kind == "whole":
            maker.update(state, x, tile=((2, 4), (4, 2), (8, 1))[number % 3])
        elif kind == "rows":
            row = (number, 1), (0, 8)
            maker.update(state.part(*row), x.part((0, 1), (0, 8)), tile=(1, 4))
        else:
            maker.elementwise(state, tile=(4, 8))
    maker.update(state.part((0, 8), (0, 8)), x, tile=(2, 4))
    return maker.graph()


@pytest.mark.parametrize("kind", ["whole", "rows", "readers"])
def test_thousands_of_updates(kind: str) -> None:
    """Scheduling 5,000 updates takes seconds: an update does not examine all earlier updates."""
    graph = updates(5000, kind)
    start = time.process_time()
    plan = minimize(get_policy("wavefront").schedule(graph, cpu_device(4)))
    verify(graph, plan)
    assert time.process_time() - start < 20


def test_latest_uses_against_all_uses() -> None:
    """The latest uses of parts of a buffer equal those that a search through all uses finds.

    Each use writes all elements that it touches, or only reads them.
    """
    rng = random.Random(3)
    for _ in range(50):
        size = rng.choice([1, 7, 5000])
        buffer, uses = UpdatedBuffer(size), list[tuple[int, int, Interval, bool]]()
        for operator in range(60):
            for argument in range(rng.choice([0, 1, 1, 2])):
                low = rng.randrange(size)
                hull = low, min(size - 1, low + rng.choice([0, 3, 100, size]))
                uses.append((operator, argument, hull, rng.random() < 0.4))
                buffer.add(*uses[-1][:3], writes=uses[-1][3])
        consumer, low = rng.randrange(61), rng.randrange(size)
        part = low, rng.randrange(low, size)
        for reads in (False, True):
            found = buffer.latest(consumer, part, partial(_written, uses), reads=reads)
            assert sorted(found) == sorted(_latest(uses, consumer, part, reads))


def _written(uses: list[tuple[int, int, Interval, bool]], operator: int) -> list[Interval]:
    return [hull for number, _, hull, writes in uses if number == operator and writes]


def _latest(
    uses: list[tuple[int, int, Interval, bool]], consumer: int, part: Interval, reads: bool
) -> list[tuple[int, int]]:
    """Return the uses that operator ``consumer`` must wait for, found element by element.

    ``uses`` has the operator, the argument and the interval of each use of a buffer, and whether it
    writes. For each element of the interval ``part``, the result has the use by the last earlier
    operator that writes the element, and all later uses, each as an operator and an argument. If
    ``reads`` is False, only writes are returned.
    """
    found: set[tuple[int, int]] = set()
    for element in range(part[0], part[1] + 1):
        here = [u for u in uses if u[0] < consumer and u[2][0] <= element <= u[2][1]]
        last = max((u[0] for u in here if u[3]), default=-1)
        found |= {u[:2] for u in here if u[0] >= last and (reads or u[3])}
    return list(found)
