"""Tests that IOS merges operators in a stage where this is best.

The choice is compared with all schedules of small graphs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from rammer_mlir.scheduling.costs import runtime
from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.graph import RKernel
from rammer_mlir.scheduling.ios_blocks import cut_at_single_values, unit_sources
from rammer_mlir.scheduling.ios_dynamic_programming import Pruning, members
from rammer_mlir.scheduling.policies.ios_merging import MergeSearch
from rammer_mlir.scheduling.stage_times import ConcurrentTimes, OperatorTimes
from tests.scheduling.test_ios import all_schedules

DEVICE = replace(cpu_device(4), barrier_seconds=2e-6)


def _kernel(rng: random.Random) -> RKernel:
    return RKernel("k", rng.randint(1, 9), (), (), flops_per_rtask=rng.randint(1, 40) * 10_000)


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_is_the_best_of_all_schedules(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    sources = [[p for p in range(n) if rng.random() < 0.3] for n in range(count)]
    # Operators of a kind read the same, so that none depends on another.
    kinds = [str(found) if rng.random() < 0.8 else None for found in sources]
    kernels = [_kernel(rng) for _ in range(count)]
    as_one: dict[tuple[int, ...], list[RKernel] | None] = {}

    def merged(operators: Sequence[int]) -> list[RKernel] | None:
        key = tuple(operators)
        if key not in as_one:
            parts = [_kernel(rng) for _ in range(rng.randint(1, 2))]
            as_one[key] = parts if rng.random() < 0.8 else None
        return as_one[key]

    search = MergeSearch(kernels, sources, kinds, merged, DEVICE, pruning=Pruning(count, count))
    found = search.groups()

    def together(operators: Sequence[int]) -> float:
        same = {kinds[n] for n in operators}
        parts = merged(operators) if len(operators) > 1 and len(same) == 1 else None
        if parts is None or None in same:
            return inf
        return sum(DEVICE.barrier_seconds + runtime(part, DEVICE) for part in parts)

    assert all(together(group) < inf for group in found)
    for first, end in cut_at_single_values(sources):
        between = unit_sources(sources, [[n] for n in range(first, end)])
        readers = [
            sum(1 << reader for reader, found_ in enumerate(between) if n in found_)
            for n in range(end - first)
        ]
        times = ConcurrentTimes(
            [[n] for n in range(first, end)], OperatorTimes(sources, kernels, DEVICE)
        )
        best, chosen = inf, inf
        for schedule in all_schedules(readers):
            stages = [[first + n for n in members(stage)] for stage in schedule]
            alone = [times.stage(stage) for stage in schedule]
            best = min(best, sum(map(min, alone, map(together, stages))))
            costs = [together(s) if s in found else a for s, a in zip(stages, alone, strict=True)]
            chosen = min(chosen, sum(costs))
        assert chosen == pytest.approx(best)


def test_operators_are_merged_where_that_is_faster() -> None:
    kernels = [RKernel("k", 1, (), (), flops_per_rtask=10**6)] * 4
    cheap = [RKernel("m", 4, (), (), flops_per_rtask=1)]
    sources, kinds = [[], [0], [0], [1, 2]], [None, "x", "x", None]
    search = MergeSearch(kernels, sources, kinds, lambda _: cheap, DEVICE)
    assert search.groups() == [[1, 2]]
    assert replace(search, kinds=[None, "x", "y", None]).groups() == []
