"""Tests that the verifier refuses a changed plan exactly if some execution of it is wrong.

The changes are random.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Plan
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import SMALL, random_graph, random_updates
from tests.scheduling.interleavings import Tasks, Verdict, in_use_together, judge
from tests.scheduling.mutations import HARMLESS, MUTATIONS, mutants


def refusal(graph: TaskGraph, plan: Plan, arena: dict[int, int] | None = None) -> str:
    """Return the verifier's error message; empty if it accepts the plan."""
    try:
        verify(graph, plan, arena)
    except ScheduleError as error:
        return str(error)
    return ""


def compare(tasks: Tasks, plan: Plan, what: str) -> Verdict:
    """Check that the verifier agrees with all executions of a plan, and return their faults.

    The verifier's message must name one of the unordered pairs of rTasks, if there are any.
    ``what`` names the plan in the message of a failed check.
    """
    verdict, message = judge(tasks, plan), refusal(tasks.graph, plan)
    assert bool(message) == verdict.harmful, (what, verdict, message, plan)
    assert "\n" not in message
    if verdict.disordered:
        pairs = [(tasks.name(w), tasks.name(r)) for w, r in verdict.disordered]
        assert any(f"{w} " in message and f"{r} " in message for w, r in pairs), (message, pairs)
    if verdict.deadlock:
        assert "deadlock" in message or "expected another vEU" in message or "order" in message
    return verdict


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
@pytest.mark.parametrize("name", SMALL)
def test_mutants_of_programs(name: str, policy: str) -> None:
    graph = SMALL[name]()
    found: Counter[tuple[str, bool]] = Counter()
    for num_veus in (2, 3):
        plan = get_policy(policy).schedule(graph, cpu_device(num_veus))
        tasks = Tasks(graph, plan.kernels)
        assert not compare(tasks, plan, "unchanged").harmful
        for mutation, mutant in mutants(plan, seed=num_veus, rounds=8):
            found[mutation, compare(tasks, mutant, mutation).harmful] += 1
    assert not any(found[mutation, True] for mutation in HARMLESS)
    assert sum(found.values()) > 100


def test_every_mutation_is_seen_to_harm_and_not_to_harm() -> None:
    """Every mutation makes some plans wrong and leaves others right, with known exceptions.

    Mutations in ``HARMLESS`` break no plan; those that drop, shift or repeat rTasks break every
    plan.
    """
    found: Counter[tuple[str, bool]] = Counter()
    for seed in range(10):
        graph = random_graph(seed, length=5)
        # The sequential plan waits for more than the data needs.
        plan = get_policy(("wavefront", "sequential")[seed % 2]).schedule(graph, cpu_device(3))
        tasks = Tasks(graph, plan.kernels)
        for mutation, mutant in mutants(plan, seed, rounds=6):
            found[mutation, compare(tasks, mutant, mutation).harmful] += 1
    always = {"drop_run", "shrink_run", "shift_run", "duplicate_run"}
    for mutation in MUTATIONS:
        assert bool(found[mutation, True]) == (mutation not in HARMLESS), mutation
        assert bool(found[mutation, False]) == (mutation not in always), mutation


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "list", "ios"])
def test_mutants_of_programs_that_update_in_place(policy: str) -> None:
    found: Counter[bool] = Counter()
    for seed in range(12):
        graph = random_updates(seed, length=5)
        plan = get_policy(policy).schedule(graph, cpu_device(3))
        tasks = Tasks(graph, plan.kernels)
        assert not compare(tasks, plan, "unchanged").harmful
        for mutation, mutant in mutants(plan, seed, rounds=3):
            found[compare(tasks, mutant, mutation).harmful] += 1
    assert min(found.values()) > 50


@pytest.mark.parametrize("name", SMALL)
def test_mutants_of_the_arena(name: str) -> None:
    """Moved buffers are refused exactly if two buffers that share bytes can be in use together."""
    graph = SMALL[name]()
    rng = random.Random(7)
    outcomes: Counter[bool] = Counter()
    for policy, num_veus in (("wavefront", 2), ("wavefront", 3), ("sequential", 2)):
        plan = get_policy(policy).schedule(graph, cpu_device(num_veus))
        tasks = Tasks(graph, plan.kernels)
        verdict = judge(tasks, plan)
        offsets = plan_memory(graph, plan).offsets
        for _ in range(60):
            arena = dict(offsets)
            for number in rng.sample(sorted(arena), rng.randint(1, 2)):
                arena[number] = rng.choice(
                    (rng.randrange(0, 256, 4), rng.choice([*arena.values()]))
                )
            bad = in_use_together(tasks, verdict, arena)
            message = refusal(graph, plan, arena)
            assert bool(message) == bool(bad), (bad, message, arena)
            if message:
                pairs = [[f"'{graph.buffers[n].name}'" for n in pair] for pair in bad]
                assert any(a in message and b in message for a, b in pairs), message
            outcomes[bool(bad)] += 1
    assert outcomes[True] and outcomes[False]
