"""Scheduling overhead and rKernel selection on the simulator (RAMMER figures 16 and 17)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rammer_mlir.benchmarks.experiments import ipu, kernel_selection, overhead
from rammer_mlir.benchmarks.experiments.gpu_modules import gpu_module
from rammer_mlir.benchmarks.experiments.model_graphs import TABLE_1, model_graph
from rammer_mlir.benchmarks.models import MODELS
from rammer_mlir.scheduling.devices.catalog import find_device

V100 = find_device("v100").device()


@pytest.mark.parametrize("seed", range(3))
def test_overhead_is_launches(seed: int) -> None:
    graph = gpu_module(seed)
    base, rammer = overhead.compare(graph, V100)
    assert base.launches == len(graph.operators)
    assert 1 <= rammer.launches < base.launches
    for one in (base, rammer):
        assert one.overhead == pytest.approx(one.launches * V100.launch_seconds)
        assert 0 < one.share < 1
        assert 0 <= one.in_barriers < one.total - one.overhead
    free = replace(V100, launch_seconds=0.0)
    assert overhead.compare(graph, free)[0].total == pytest.approx(base.total - base.overhead)
    assert "2.27" in overhead.report({"module": (base, rammer)})


@pytest.mark.parametrize("seed", range(6))
def test_selection_never_loses_to_the_fastest_rkernels(seed: int) -> None:
    found = kernel_selection.compare(gpu_module(seed), V100)
    assert found.fast < found.base_fast <= found.base_select * (1 + 1e-9)
    assert (found.changed == 0) == (found.base_select == pytest.approx(found.base_fast))
    assert "1.44" in kernel_selection.report({"module": found})


def test_a_graph_with_one_rkernel_each() -> None:
    graph = gpu_module(1)
    chosen = [number % len(o.kernels) for number, o in enumerate(graph.operators)]
    single = kernel_selection.with_kernels(graph, chosen)
    assert [o.kernels for o in single.operators] == [
        (o.kernels[k],) for o, k in zip(graph.operators, chosen, strict=True)
    ]


def test_models_for_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(TABLE_1) <= set(MODELS)
    graph = model_graph("mlp", "nvvm:sm_70", scale="small")
    assert {o.kernels[0].num_rtasks > 0 for o in graph.operators} == {True}
    assert overhead.main(["no_such_model"]) == 1
    assert kernel_selection.main(["mlp", "--device", "no_such_device"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "found 'no_such_model'" in errors[0]
    assert "unknown device 'no_such_device'" in errors[1]


@pytest.mark.parametrize("name", ipu.BUILDERS)
def test_recurrent_models_on_an_ipu(name: str) -> None:
    found, base, rammer, ratio, *supersteps = ipu.compare(name, "small")
    assert found == name
    assert float(base) > 0 < float(rammer)
    assert float(ratio) == pytest.approx(float(base) / float(rammer), rel=0.05)
    assert all(int(number) > 0 for number in supersteps)


def test_models_that_the_ipu_experiment_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        ipu.main(["alexnet"])
    assert "found 'alexnet'" in capsys.readouterr().err
