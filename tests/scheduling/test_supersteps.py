"""Tests that bulk-synchronous schedules are correct, with as few supersteps as possible.

They can be executed on fewer vEUs; a tile that does not fit its memory is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import build, random_feeds
from rammer_mlir.cli.compile import main
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.errors import OptionError, PassError, ScheduleError
from rammer_mlir.scheduling.devices.catalog import cpu_device, find_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.program import Barrier, Plan, RProgram, Run
from rammer_mlir.scheduling.supersteps import fold, supersteps
from rammer_mlir.scheduling.tasks import task_table
from rammer_mlir.scheduling.verifier import verify
from tests.scheduling.graphs import random_graph

IPU = find_device("ipu")


def places(plan: Plan) -> dict[tuple[int, int], tuple[int, int]]:
    """Return where each rTask runs: the indices of its rProgram and its vEU.

    An rTask is given by the index of its operator and its index in the operator.
    """
    return {
        (item.operator, rtask): (number, veu)
        for number, program in enumerate(plan.programs)
        for veu, items in enumerate(program.veus)
        for item in items
        if isinstance(item, Run)
        for rtask in range(item.first, item.first + item.count)
    }


@pytest.mark.parametrize("policy", ["wavefront", "sequential", "ios", "list"])
def test_supersteps_are_correct_and_as_few_as_can_be(policy: str) -> None:
    device = IPU.device(5)
    for seed in range(12):
        graph = random_graph(seed)
        plan = get_policy(policy).schedule(graph, device)
        split = supersteps(graph, plan, device)
        verify(graph, split)
        items = [i for program in split.programs for veu in program.veus for i in veu]
        assert not any(isinstance(item, Barrier) for item in items)
        before, after = places(plan), places(split)
        assert {task: veu for task, (_, veu) in before.items()} == {
            task: veu for task, (_, veu) in after.items()
        }
        table = task_table(graph, device, plan.kernels)
        assert len(split.programs) == fewest_supersteps(plan, table.base, table.sources)
        launches = device.launch_seconds + device.barrier_seconds * (len(split.programs) - 1)
        assert split.predicted_seconds > launches


def fewest_supersteps(
    plan: Plan, base: tuple[int, ...], sources: tuple[tuple[int, ...], ...]
) -> int:
    """Return the least number of supersteps that the placement and the orders of a plan allow.

    It is one more than the largest number of changes of vEU along a path of dependencies and of the
    orders on vEUs. ``sources`` has the sources of each rTask, which are numbered from ``base`` for
    each operator.
    """
    veu_of: dict[int, int] = {}
    previous: dict[int, int] = {}
    last: dict[int, int] = {}
    for program in plan.programs:
        for veu, items in enumerate(program.veus):
            for item in items:
                if isinstance(item, Run):
                    for rtask in range(item.first, item.first + item.count):
                        task = base[item.operator] + rtask
                        veu_of[task] = veu
                        if veu in last:
                            previous[task] = last[veu]
                        last[veu] = task

    @cache
    def depth(task: int) -> int:
        ways = [depth(source) + (veu_of[source] != veu_of[task]) for source in sources[task]]
        ways += [depth(previous[task])] if task in previous else []
        return max(ways, default=1)

    return max(map(depth, veu_of), default=0)


def test_each_global_barrier_is_needed() -> None:
    """A schedule in which two consecutive supersteps are joined is refused."""
    device, found = IPU.device(4), 0
    for seed in range(10):
        graph = random_graph(seed)
        plan = supersteps(graph, get_policy("wavefront").schedule(graph, device), device)
        for number in range(len(plan.programs) - 1):
            first, second = plan.programs[number : number + 2]
            joined = tuple(a + b for a, b in zip(first.veus, second.veus, strict=True))
            programs = (
                *plan.programs[:number], RProgram(4, joined), *plan.programs[number + 2 :]
            )  # fmt: skip
            with pytest.raises(ScheduleError, match="no barrier orders them"):
                verify(graph, replace(plan, programs=programs))
            found += 1
    assert found > 10


def test_folding_keeps_a_schedule_correct() -> None:
    device = IPU.device(40)
    for seed in range(10):
        graph = random_graph(seed)
        plan = supersteps(graph, get_policy("wavefront").schedule(graph, device), device)
        for num_veus in (1, 2, 3, 40, 100):
            folded = fold(plan, num_veus)
            verify(graph, folded)
            assert all(p.num_veus == min(num_veus, 40) for p in folded.programs)
            assert places(folded).keys() == places(plan).keys()


def test_programs_with_barriers_are_not_folded() -> None:
    for seed in range(20):
        graph = random_graph(seed)
        plan = get_policy("wavefront").schedule(graph, cpu_device(3))
        if plan.num_waits:
            with pytest.raises(ScheduleError, match="rProgram 0: expected no barriers between"):
                fold(plan, 2)
            return
    raise AssertionError("no graph with a barrier")


def products(rows: int, inner: int) -> onnx.ModelProto:
    """Return a model of two matrix products, a softmax, and an addition."""
    generator = np.random.default_rng(3)
    weights = [
        onnx.numpy_helper.from_array(
            generator.standard_normal((inner, inner)).astype(np.float32) / inner**0.5, name
        )
        for name in ("w0", "w1")
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        onnx.helper.make_node("MatMul", ["a", "w1"], ["b"], "second"),
        onnx.helper.make_node("Softmax", ["b"], ["c"], "normalize"),
        onnx.helper.make_node("Add", ["a", "c"], ["y"], "sum"),
    ]
    info, shape = onnx.helper.make_tensor_value_info, [rows, inner]
    graph = onnx.helper.make_graph(
        nodes, "products", [info("x", onnx.TensorProto.FLOAT, shape)],
        [info("y", onnx.TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )


@pytest.mark.parametrize("policy", ["wavefront", "sequential"])
def test_a_thousand_tiles_compute_what_onnx_runtime_does(policy: str) -> None:
    """A schedule for the IPU's 1,216 vEUs is executed correctly by few threads of a CPU."""
    model = products(512, 768)
    executable = rammer_mlir.compile(model, costs="ipu", policy=policy)
    feeds = random_feeds(model, 1)
    assert compare(OnnxRuntime(model).run(feeds), executable.run(feeds)).ok
    options = check_options("cpu", policy=policy, num_veus=None, costs="ipu")
    assert options.num_veus == 1216
    compilation = Compilation.of_model(model, options)
    kernels = compilation.emit("tasks").decode()
    sizes = [int(size) for size in re.findall(r"bytes\((\d+)\)", kernels)]
    assert 0 < max(sizes) <= 256 << 10
    assert max(int(n) for n in re.findall(r"rtasks\((\d+)\)", kernels)) > 300


@pytest.mark.parametrize("name", ["nas_cell", "lstm_bidirectional", "light_squeezenet", "seq2seq"])
def test_models_on_an_ipu(name: str) -> None:
    model = build(name, scale="small")
    executable = rammer_mlir.compile(model, costs="ipu")
    for seed in (1, 2):
        feeds = random_feeds(model, seed)
        assert compare(OnnxRuntime(model).run(feeds), executable.run(feeds)).ok


def test_a_tile_that_does_not_fit_is_refused() -> None:
    """Compiling a product whose only rTask exceeds a tile's memory is refused.

    The rTask multiplies 100,000 elements by a weight of 12.8 MB, for 32 results.
    """
    generator = np.random.default_rng(4)
    weight = generator.standard_normal((100_000, 32)).astype(np.float32)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "long")], "long",
        [info("x", onnx.TensorProto.FLOAT, [1, 100_000])],
        [info("y", onnx.TensorProto.FLOAT, [1, 32])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
    )
    with pytest.raises(PassError, match=r"long.*rTasks that touch at most 262144 bytes.*found 1"):
        rammer_mlir.compile(model, costs="ipu")


def test_supersteps_are_executed_on_a_cpu_only() -> None:
    with pytest.raises(OptionError, match=r"costs 'ipu': expected target cpu, .* found 'nvvm'"):
        rammer_mlir.compile(products(4, 8), target="nvvm", costs="ipu", emulate=True)
    with pytest.raises(OptionError, match="expected at most 1216 on 'ipu', found 1217"):
        rammer_mlir.compile(products(4, 8), num_veus=1217, costs="ipu")


def test_a_timeline_of_an_ipu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(products(64, 128), "products.onnx")
    assert main(["products.onnx", "--costs", "ipu", "--timeline", "ipu.json"]) == 0
    assert "1216 vEUs" in (tmp_path / "ipu.json").read_text()
