"""Tests that plans with a launch for each operator are correct."""

from __future__ import annotations

import pytest

from rammer_mlir.scheduling.devices.catalog import cpu_device
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Run
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "list"])
def test_each_operator_is_a_program_that_is_correct(policy: str) -> None:
    device = cpu_device(3)
    for seed in range(10):
        graph = random_graph(seed)
        plan = get_policy(policy).schedule(graph, device)
        split = one_by_one(graph, plan, device)
        verify(graph, split)
        assert len(split.programs) == len(graph.operators)
        for number, program in enumerate(split.programs):
            items = [item for veu in program.veus for item in veu]
            assert not any(isinstance(item, Barrier) for item in items)
            assert {i.operator for i in items if isinstance(i, Run)} <= {number}
        assert split.kernels == plan.kernels
        launches = device.launch_seconds * len(split.programs)
        assert split.predicted_seconds > launches
