"""Tests that random modules of NAS-Bench-101 keep its limits.

Each of their vertices affects the output.
"""

from __future__ import annotations

from rammer_mlir.benchmarks.experiments.nasbench import EDGES, VERTICES, random_module
from rammer_mlir.scheduling.dependencies import Dependencies


def test_modules_are_valid() -> None:
    widest = 0
    for seed in range(200):
        graph = random_module(seed)
        assert 3 <= len(graph.buffers) <= VERTICES
        sources = [{view.buffer for view in o.operands[:-1]} for o in graph.operators]
        assert sum(map(len, sources)) <= EDGES
        assert set().union(*sources) == set(range(len(graph.buffers) - 1)), "all is read"
        assert all(sources), "all but the input reads something"
        widest = max(widest, len(graph.buffers))
        dependencies = Dependencies(graph)
        for number, found in enumerate(sources):
            expected = {buffer - 1 for buffer in found if buffer}
            assert set(dependencies.producers(number)) == expected
    assert widest == VERTICES
