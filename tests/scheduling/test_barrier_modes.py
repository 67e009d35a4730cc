"""Tests that plans with barriers between waves, operators or tiles are correct.

All plans have the same placement. Barriers between tiles request no more waits than barriers
between operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rammer_mlir.benchmarks.papers.rammer.barriers import MODES, compare, is_irregular
from rammer_mlir.benchmarks.papers.rammer.gpu_modules import STACKS, TILE_ELEMENTS, gpu_module
from rammer_mlir.errors import OptionError
from rammer_mlir.scheduling.builder import Context
from rammer_mlir.scheduling.coarse_barriers import with_barriers
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies.wavefront import Wavefront, waves
from rammer_mlir.scheduling.program import Run
from rammer_mlir.scheduling.simulator import simulate
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import branches, random_graph, stencils

DEVICE = Device("d", 4, 1e9, 1e9, 1e9, 1e-8, 1e-7, 1e-6)
GRAPHS = [branches(), stencils(), *(random_graph(seed) for seed in range(8)), gpu_module(4)]


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_mode_is_correct_and_tiles_ask_for_least(graph: Any) -> None:
    plan = Wavefront().schedule(graph, DEVICE)
    found = {mode: with_barriers(graph, plan, DEVICE, mode) for mode in MODES}
    for other in found.values():
        verify(graph, other)
        assert other.kernels == plan.kernels
        assert len(other.programs) == 1
        assert other.num_waits <= other.requested_waits
    assert found["tile"].requested_waits <= found["operator"].requested_waits
    # More barriers may be needed between tiles, though they wait for less: compare without cost.
    free = replace(DEVICE, barrier_seconds=0.0)
    seconds = {mode: simulate(graph, other, free).seconds for mode, other in found.items()}
    assert seconds["tile"] <= seconds["operator"] * (1 + 1e-9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_waves_do_not_overlap(graph: Any) -> None:
    plan = Wavefront().schedule(graph, DEVICE)
    split = with_barriers(graph, plan, DEVICE, "wave")
    numbers = {o: n for n, wave in enumerate(waves(Context(graph, DEVICE))) for o in wave}
    spans: dict[int, list[tuple[float, float]]] = {}
    for event in simulate(graph, split, DEVICE).events:
        if isinstance(event.item, Run):
            spans.setdefault(numbers[event.item.operator], []).append((event.start, event.end))
    for wave in range(max(numbers.values())):
        ends = max(end for _, end in spans[wave])
        assert min(start for start, _ in spans[wave + 1]) >= ends - 1e-12


@pytest.mark.parametrize("graph", GRAPHS)
def test_operators_begin_after_all_that_they_read(graph: Any) -> None:
    plan = with_barriers(graph, Wavefront().schedule(graph, DEVICE), DEVICE, "operator")
    dependencies = Context(graph, DEVICE, list(plan.kernels)).dependencies
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for event in simulate(graph, plan, DEVICE).events:
        if isinstance(event.item, Run):
            operator = event.item.operator
            starts[operator] = min(starts.get(operator, event.start), event.start)
            ends[operator] = max(ends.get(operator, 0.0), event.end)
    for operator in starts:
        for edge in dependencies.edges(operator, plan.kernels):
            assert starts[operator] >= ends[edge.producer] - 1e-12


def test_an_unknown_mode() -> None:
    graph = branches()
    mode: Any = "none"
    with pytest.raises(OptionError, match="barriers: expected one of wave, operator, tile, found"):
        with_barriers(graph, Wavefront().schedule(graph, DEVICE), DEVICE, mode)


@pytest.mark.parametrize("seed", range(12))
def test_gpu_modules_are_covered_by_tiles(seed: int) -> None:
    graph = gpu_module(seed)
    rows, channels = STACKS[seed % 3]
    for operator in graph.operators:
        for kernel, size in zip(operator.kernels, TILE_ELEMENTS, strict=True):
            assert kernel.num_rtasks * size == rows * rows * channels
            (write,) = kernel.writes
            boxes = write.boxes
            touched = [
                int(offset) + i * boxes.strides[0] + j
                for offset, (height, width) in zip(boxes.offsets, boxes.sizes, strict=True)
                for i in range(height)
                for j in range(width)
            ]
            assert sorted(touched) == list(range(graph.buffers[-1].num_elements))
            for read in kernel.reads:
                ends = read.boxes.offsets + (read.boxes.sizes[:, 0] - 1) * read.boxes.strides[0]
                assert int((ends + read.boxes.sizes[:, 1]).max()) <= len(touched)


def test_modules_have_the_papers_direction() -> None:
    device = find_device("v100").device()
    found = compare(range(12), device)
    assert sum(found.base_to_rtask) / 12 > 1.05
    assert min(found.wave_to_tile) > 0.99
    assert any(found.irregular)
    assert not all(found.irregular)


def test_a_chain_is_regular() -> None:
    assert not is_irregular(stencils(), DEVICE)
