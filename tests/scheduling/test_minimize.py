"""Tests that removing redundant waits keeps the happens-before order.

No redundant wait is left.
"""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from tests.scheduling.graphs import SMALL, random_graph
from tests.scheduling.reachability import (
    first_steps,
    happens_before,
    with_more_waits,
    without_one_wait,
)

GRAPHS = {
    **{name: make() for name, make in SMALL.items()},
    **{f"random{seed}": random_graph(seed, length=6) for seed in range(8)},
}


def rtasks(program: RProgram) -> list[list[tuple[int, int]]]:
    """Return the rTasks of each vEU in order, as pairs of an operator index and an rTask index."""
    return [
        [
            (item.operator, item.first + i)
            for item in items
            if isinstance(item, Run)
            for i in range(item.count)
        ]
        for items in program.veus
    ]


def assert_minimal(before: RProgram, after: RProgram) -> None:
    """Check that ``after`` has the same happens-before order as ``before``, and minimal waits."""
    order = happens_before(before)
    assert rtasks(after) == rtasks(before)
    assert np.array_equal(order, happens_before(after))
    for fewer in without_one_wait(after):
        assert not np.array_equal(order, happens_before(fewer))
    for items in after.veus:
        barriers = [isinstance(item, Barrier) for item in items]
        assert not any(a and b for a, b in pairwise(barriers))
        assert not barriers or not barriers[-1]


@pytest.mark.parametrize("name", GRAPHS)
def test_redundant_waits_go(name: str) -> None:
    rng = random.Random(5)
    for policy, num_veus in (("wavefront", 2), ("wavefront", 4), ("sequential", 3)):
        plan = get_policy(policy).schedule(GRAPHS[name], cpu_device(num_veus))
        for count in (0, 1, 4):
            raw = with_more_waits(plan, rng, count)
            least = minimize(raw)
            for before, after in zip(raw.programs, least.programs, strict=True):
                assert_minimal(before, after)
            assert minimize(least) == least
            assert least.requested_waits == max(raw.requested_waits, raw.num_waits)


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("name", GRAPHS)
def test_policies_record_no_wait_that_can_go(name: str, policy: str) -> None:
    for num_veus in (2, 3, 8):
        plan = get_policy(policy).schedule(GRAPHS[name], cpu_device(num_veus))
        assert minimize(plan).num_waits == plan.num_waits


def test_waits_on_a_chain_of_veus() -> None:
    """A wait is removed if the vEU also waits for another vEU that has waited for the same step.

    A wait for a later step also makes the wait for an earlier step redundant.
    """
    runs = [Run(0, n, 1) for n in range(5)]
    program = RProgram(
        3,
        (
            (runs[0], runs[1]),
            (Barrier(((0, 1),)), runs[2]),
            (Barrier(((0, 0),)), Barrier(((0, 1), (1, 0))), runs[3], Barrier(((1, 0),)), runs[4]),
        ),
    )
    (least,) = minimize(Plan((program,), (0,))).programs
    assert least.veus[1] == (Barrier(((0, 1),)), runs[2])
    assert least.veus[2] == (Barrier(((1, 0),)), Run(0, 3, 2))
    assert first_steps(least).tolist() == [0, 2, 3, 5]


def test_waits_that_block_each_other() -> None:
    program = RProgram(
        2,
        (
            (Barrier(((1, 0),)), Run(0, 0, 1)),
            (Run(0, 1, 1), Barrier(((0, 0),)), Run(0, 2, 1)),
        ),
    )
    assert minimize(Plan((program,), (0,))).num_waits == 2
    circle = RProgram(2, tuple((Barrier(((1 - v, 0),)), Run(0, v, 1)) for v in range(2)))
    with pytest.raises(ScheduleError, match="deadlock"):
        minimize(Plan((circle,), (0,)))
