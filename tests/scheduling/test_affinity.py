"""Tests that schedules reuse the constants in the vEUs' caches.

The predicted times include the loads of constants that are not in a cache.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir.scheduling.affinity import plans_by_affinity
from rammer_mlir.scheduling.caches import NOTHING, SharedConstants
from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import COLD_BYTES, MeasuredSeconds, TaskGraph
from rammer_mlir.scheduling.memory import plan_memory
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.program import Plan, Run
from rammer_mlir.scheduling.run_costs import SharedConstantCosts
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import GraphMaker, Tensor, random_graph

HIDDEN = 32
MATRIX = HIDDEN * HIDDEN * 4
"""Bytes of a weight matrix; a layer has a matrix for its input and a matrix for its state."""


def device(num_veus: int, matrices: float) -> Device:
    """Return a device whose vEUs have caches of the size of ``matrices`` weight matrices.

    Loading a matrix takes 10 times as long as the arithmetic with it.
    """
    seconds = HIDDEN * 1000 / 1e12
    bandwidth = MATRIX / (10 * seconds)
    return Device(
        "d", num_veus, 1e12, bandwidth, bandwidth * num_veus, 0.0, seconds / 50, 0.0,
        cache_bytes=int(matrices * MATRIX),
    )  # fmt: skip


def recurrent(layers: int, steps: int, tile: int = HIDDEN) -> TaskGraph:
    """Return a graph of recurrent layers, layer after layer, each with ``steps`` cells.

    A cell computes ``state = f(input @ W + state @ R)``, with ``W`` and ``R`` shared by a layer.
    ``tile`` is the number of columns of a matmul's tile.
    """
    maker = GraphMaker()
    inputs = [maker.tensor(1, HIDDEN, kind="input") for _ in range(steps)]
    for _ in range(layers):
        weights, recurrence = (maker.tensor(HIDDEN, HIDDEN, kind="constant") for _ in range(2))
        state = maker.tensor(1, HIDDEN, kind="input")
        outputs: list[Tensor] = []
        for x in inputs:
            parts = [maker.matmul(x, weights, [(1, tile)])]
            parts.append(maker.matmul(state, recurrence, [(1, tile)]))
            state = maker.elementwise(*parts, tile=(1, HIDDEN))
            outputs.append(state)
        inputs = outputs
    maker.output(inputs[-1], (1, HIDDEN))
    return maker.graph()


def misses(graph: TaskGraph, plan: Plan, matrices: int) -> int:
    """Return how often a vEU begins a matmul's run whose weight matrix is not in the vEU's cache.

    A run has consecutive rTasks of one operator in a vEU's list of ``plan``. A cache is assumed to
    hold the last ``matrices`` matrices that the vEU has read.
    """
    total = 0
    for veu in plan.programs[0].veus:
        last: list[int] = []
        for item in veu:
            if (
                not isinstance(item, Run)
                or not graph.operators[item.operator].name[0:6] == "matmul"
            ):
                continue
            matrix = graph.operators[item.operator].operands[1].buffer
            total += matrix not in last
            last = [*(m for m in last if m != matrix), matrix][-matrices:]
    return total


def test_one_veu_reads_every_matrix_once() -> None:
    """On one vEU, `wavefront` loads each of the 6 matrices once.

    In the graph's order, each of the 48 products has to load its matrix.
    """
    graph, one = recurrent(layers=3, steps=8), device(1, 2)
    plan = Wavefront().schedule(graph, one)
    assert misses(graph, plan, 1) == 6
    assert misses(graph, get_policy("sequential").schedule(graph, one), 1) == 48
    verify(graph, plan, plan_memory(graph, plan).offsets)


@pytest.mark.parametrize("num_veus", [2, 3])
@pytest.mark.parametrize("parts", [1, 2])
def test_layers_overlap_without_losing_their_weights(num_veus: int, parts: int) -> None:
    """Layers run on several vEUs at once, and their weights stay in the vEUs' caches.

    So `wavefront` takes less than 70 % of the time of `sequential`. A cache has room for 2.4 parts
    of a matrix; a cell reads parts of two matrices.
    """
    graph = recurrent(layers=4, steps=20, tile=HIDDEN // parts)
    several = device(num_veus, 2.4 / parts)
    shared = SharedConstants(graph, several)
    plan = Wavefront().schedule(graph, several)
    baseline = get_policy("sequential").schedule(graph, several)
    predicted = simulate(graph, plan, several, SharedConstantCosts(plan, several, shared))
    assert plan.predicted_seconds == predicted.seconds
    costs = SharedConstantCosts(baseline, several, shared)
    assert predicted.seconds < 0.7 * simulate(graph, baseline, several, costs).seconds
    verify(graph, plan, plan_memory(graph, plan).offsets)


def test_waves_are_kept_where_the_weights_fit_or_nothing_is_cached() -> None:
    graph = recurrent(layers=2, steps=4)
    for matrices in (0, 4):
        two = device(2, matrices)
        assert not SharedConstants(graph, two).matter
        plain = Wavefront().schedule(graph, replace(two, cache_bytes=0))
        assert Wavefront().schedule(graph, two) == plain


def loads(graph: TaskGraph, plan: Plan, capacity: float) -> float:
    """Return how many weight matrices a single vEU loads when it executes a plan once.

    The cache holds ``capacity`` matrices. A matrix that was used long ago is loaded in part, since
    the cache still has the rest; the result is a sum of these fractions.
    """
    used: list[int] = []
    total = 0.0
    for item in (item for program in plan.programs for item in program.veus[0]):
        if isinstance(item, Run) and graph.operators[item.operator].name.startswith("matmul"):
            matrix = graph.operators[item.operator].operands[1].buffer
            since = used[::-1].index(matrix) if matrix in used else len(used)
            distance = len({matrix, *used[len(used) - since :]}) if matrix in used else inf
            total += min(max(2 * distance / capacity - 1, 0.0), 1.0)
            used.append(matrix)
    return total


@pytest.mark.parametrize("capacity", [1.5, 2.0, 3.0, 5.5])
def test_a_replayed_run_loads_as_much_as_counted_by_hand(capacity: float) -> None:
    """The predicted time on one vEU is that of the arithmetic plus that of the loads."""
    graph, one = recurrent(layers=3, steps=5), device(1, capacity)
    shared, choices = SharedConstants(graph, one), tuple([0] * 46)
    cold, hot = MATRIX / one.bytes_per_second, HIDDEN * 1000 / one.flops_per_second
    rest = sum(
        rtask_seconds(operator.kernels[0], one)
        for operator in graph.operators
        if not operator.name.startswith("matmul")
    )
    by_waves = get_policy("wavefront").schedule(graph, replace(one, cache_bytes=0))
    for plan in (by_waves, *plans_by_affinity(graph, one, choices, shared)):
        expected = rest + 30 * hot + loads(graph, plan, capacity) * (cold - hot)
        costs = SharedConstantCosts(plan, one, shared)
        assert simulate(graph, plan, one, costs).seconds == pytest.approx(expected)


def test_the_rkernel_whose_parts_stay_in_cache_is_kept() -> None:
    """Of two rKernels, the one whose part of the weights fits the cache is chosen.

    A cache of two matrices keeps a whole matrix; a cache of half a matrix keeps only parts.
    """
    maker = GraphMaker()
    weights = maker.tensor(HIDDEN, HIDDEN, kind="constant")
    for _ in range(2):
        x = maker.tensor(1, HIDDEN, kind="input")
        maker.output(maker.matmul(x, weights, [(1, HIDDEN), (1, HIDDEN // 4)]), (1, HIDDEN))
    graph = maker.graph()
    chosen = [SharedConstants(graph, device(1, size)).best_kept(0) for size in (2, 0.5)]
    assert chosen == [0, 1]


def test_parts_of_a_matrix_are_kept_for_themselves() -> None:
    graph = recurrent(layers=1, steps=2, tile=HIDDEN // 4)
    shared = SharedConstants(graph, device(1, 1))
    costs = [shared.costs(number, 0) for number in range(len(graph.operators))]
    sets = [[cost.working_set for cost in found] for found in costs]
    assert sets[0] == sets[3] == [0, 1, 2, 3], "both steps read the same parts"
    assert sets[1] == sets[4] == [4, 5, 6, 7]
    assert sets[2] == [NOTHING]
    assert shared.sizes == [MATRIX // 4] * 8


def test_measured_rtasks_cost_what_was_measured_of_them() -> None:
    graph, one = recurrent(layers=1, steps=2), device(1, 1)
    measured = MeasuredSeconds(1e-6, 5e-6, 9e-6)
    kernel = replace(graph.operators[0].kernels[0], measured=measured, bytes_per_rtask=MATRIX)
    operators = tuple(
        replace(o, kernels=(kernel,)) if o.name.startswith("matmul") else o for o in graph.operators
    )
    cost = SharedConstants(replace(graph, operators=operators), one).costs(0, 0)[0]
    assert (cost.hot, cost.cold) == (1e-6, pytest.approx(5e-6))
    assert one.cache_bytes < COLD_BYTES


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), num_veus=st.integers(1, 4), cache=st.integers(1, 200))
def test_placements_of_random_graphs_are_correct(seed: int, num_veus: int, cache: int) -> None:
    graph = random_graph(seed, length=10)
    constants = tuple(
        replace(buffer, kind="constant") if buffer.kind == "input" else buffer
        for buffer in graph.buffers
    )
    graph = replace(graph, buffers=constants)
    target = replace(device(num_veus, 1), cache_bytes=cache)
    shared = SharedConstants(graph, target)
    for plan in plans_by_affinity(graph, target, tuple([0] * len(graph.operators)), shared):
        verify(graph, plan, plan_memory(graph, plan).offsets)
        simulate(graph, plan, target, SharedConstantCosts(plan, target, shared))
