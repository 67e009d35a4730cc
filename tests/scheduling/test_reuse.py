"""Tests that reuse distances equal a simple count.

Costs depend on them: data that stays in a cache is not loaded again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rammer_mlir.scheduling.costs import rtask_seconds
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import (
    COLD_BYTES,
    FAR_BYTES,
    Access,
    Boxes,
    Buffer,
    MeasuredSeconds,
    Reuse,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)
from rammer_mlir.scheduling.reuse import with_reuse
from tests.scheduling.graphs import random_graph

DEVICE = Device("d", 1, 1e9, 1e9, 1e9, 0.0, 0.0, 0.0, cache_bytes=1 << 20)


def _whole(argument: int, size: int) -> Access:
    return Access(argument, Boxes(np.zeros(1, np.int64), np.full((1, 1), size), (1,)))


def _cells(weights: int, count: int, layers: int = 1) -> TaskGraph:
    """Return a graph of layers of ``count`` cells; the cells of a layer share a weight matrix.

    ``weights`` is the number of elements of the matrix. A cell also reads the state that the cell
    before it wrote.
    """
    buffers = [Buffer("x", 100, 4, "input")]
    operators: list[ROperator] = []
    for layer in range(layers):
        kernel = RKernel(
            f"cell_{layer}", 1, (_whole(0, 100), _whole(1, weights)), (_whole(2, 100),)
        )
        buffers.append(Buffer(f"w{layer}", weights, 4, "constant"))
        matrix, state = len(buffers) - 1, 0 if not layer else len(buffers) - 2
        for step in range(count):
            buffers.append(Buffer(f"s{layer}.{step}", 100, 4, "intermediate"))
            operands = (View(state), View(matrix), View(len(buffers) - 1))
            operators.append(ROperator(f"{layer}.{step}", (kernel,), operands))
            state = len(buffers) - 1
    return TaskGraph(tuple(buffers), tuple(operators))


def _plain_distances(graph: TaskGraph) -> list[dict[int, int]]:
    """Return the reuse distance in bytes of each buffer that an operator uses, in a second run.

    The distance is the size of all buffers that were used since the buffer's last use, and at least
    the size of the operator's buffers.
    """
    uses = [
        {op.operands[a.argument].buffer: 0 for a in (*op.kernels[0].reads, *op.kernels[0].writes)}
        for op in graph.operators
    ]
    sizes = [buffer.num_bytes for buffer in graph.buffers]
    line = [buffer for use in (*uses, *uses) for buffer in use]
    found: list[dict[int, int]] = []
    start = len(line) // 2
    for use in uses:
        own = sum(sizes[buffer] for buffer in use)
        distances: dict[int, int] = {}
        for buffer in use:
            last = max(i for i in range(start) if line[i] == buffer)
            distances[buffer] = max(own, sum(sizes[b] for b in set(line[last:start])))
        found.append(distances)
        start += len(use)
    return found


@pytest.mark.parametrize(("weights", "count", "layers"), [(1000, 5, 1), (5000, 3, 4), (7, 1, 2)])
def test_distances_are_a_plain_count(weights: int, count: int, layers: int) -> None:
    graph = _cells(weights, count, layers)
    plain = _plain_distances(graph)
    for kernel in dict.fromkeys(op.kernels[0] for op in graph.operators):
        numbers = [n for n, op in enumerate(graph.operators) if op.kernels[0] is kernel]
        amounts = [
            (distance, graph.buffers[buffer].num_bytes)
            for n in numbers
            for buffer, distance in plain[n].items()
        ]
        new = with_reuse(graph).operators[numbers[0]].kernels[0]
        total = len(numbers)
        for bound in (10, 1000, 10_000, 50_000, 10**6):
            # Steps of the scale are up to a fifth above what they stand for.
            most = sum(amount for d, amount in amounts if d <= bound) / total
            least = sum(amount for d, amount in amounts if d * 1.2 <= bound) / total
            kept = sum(use.num_bytes for use in new.reuse if use.distance <= bound)
            assert least - 1e-9 <= kept <= most + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_nothing_else_changes(seed: int) -> None:
    graph = random_graph(seed)
    new = with_reuse(graph)
    assert new.buffers is graph.buffers
    renamed: dict[RKernel, RKernel] = {}
    for before, after in zip(graph.operators, new.operators, strict=True):
        for old, kernel in zip(before.kernels, after.kernels, strict=True):
            assert renamed.setdefault(old, kernel) is kernel  # equal rKernels stay one object
            assert replace(kernel, reuse=()).__dict__ == old.__dict__
            assert all(use.num_bytes > 0 for use in kernel.reuse)


def test_weights_that_stay_in_cache_cost_no_traffic() -> None:
    small, large = (with_reuse(_cells(n, 50)) for n in (10_000, 1_000_000))
    none, all_of_it = (
        replace(g.operators[0].kernels[0], bytes_per_rtask=10**9) for g in (small, large)
    )
    assert rtask_seconds(none, DEVICE) == 0.0
    assert 4e-3 < rtask_seconds(all_of_it, DEVICE) < 4.002e-3  # once, however often an rTask reads
    everywhere = replace(DEVICE, cache_bytes=0)
    assert rtask_seconds(none, everywhere) == pytest.approx(1.0)


MEASURED = MeasuredSeconds(hot=1e-6, cold=3e-6, far=5e-6)


def _kernel(distance: int, **changes: Any) -> RKernel:
    kernel = RKernel("k", 1, (), (), 10**9, 10, measured=MEASURED, reuse=(Reuse(distance, 1000.0),))
    return replace(kernel, **changes)


def test_a_measured_time_is_taken_by_distance() -> None:
    middle = (COLD_BYTES + FAR_BYTES) // 2
    distances = {1 << 19: 1e-6, 1 << 22: 3e-6, COLD_BYTES: 3e-6, middle: 4e-6, FAR_BYTES: 5e-6,
                 1 << 40: 5e-6}  # fmt: skip
    for distance, expected in distances.items():
        assert rtask_seconds(_kernel(distance), DEVICE) == pytest.approx(expected, rel=1e-6)
    half = replace(_kernel(0), reuse=(Reuse(100, 25.0), Reuse(1 << 40, 75.0)))
    assert rtask_seconds(half, DEVICE) == pytest.approx(4e-6)
    unknown = replace(_kernel(0), reuse=())
    assert rtask_seconds(unknown, DEVICE) == pytest.approx(3e-6)


def test_measured_and_modelled_rkernels_mix() -> None:
    device = replace(DEVICE, rtask_seconds=1e-7)
    assert rtask_seconds(_kernel(1), device) == pytest.approx(1.1e-6)
    assert rtask_seconds(_kernel(1, measured=None), device) == pytest.approx(1.0000001)


def test_veus_share_the_memory_also_for_measured_rkernels() -> None:
    two = replace(DEVICE, num_veus=2)
    busy = _kernel(1 << 40, num_rtasks=2, bytes_per_rtask=10**9)
    busy = replace(busy, reuse=(Reuse(1 << 40, 2e4),))
    assert rtask_seconds(busy, two) == pytest.approx(2e-5)
    assert rtask_seconds(busy, DEVICE) == pytest.approx(5e-6)
    assert rtask_seconds(replace(busy, reuse=(Reuse(1, 2e4),)), two) == pytest.approx(1e-6)
