"""Tests that equal rKernels are measured once, and that policies use the measured times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machines import X86_64_AVX2, X86_64_AVX512
from onnx import helper

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.cli.compile import main
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.dialects.rtask.external import External
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.profiling.isolate import KernelSource, isolate
from rammer_mlir.lowering.profiling.measure import Loop, measure
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.lowering.profiling.profiles import ENVIRONMENT, ProfileStore, ProfileWarning
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.scheduling.graph import MeasuredSeconds
from tests.cli.tools import save_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    return save_model(tmp_path / "model.onnx", nodes, (32, 64), w=weights)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "profiles.sqlite"))
    return ProfileStore(tmp_path / "profiles.sqlite")


def at_buffers(model: Path) -> Compilation:
    compilation = Compilation.of_model(
        str(model), check_options("cpu", policy="wavefront", num_veus=2)
    )
    compilation.emit("buffers")
    return compilation


def sources(module: ir.Module) -> dict[str, KernelSource]:
    described = described_kernels(module)
    return {
        symbol_name(f): isolate(module, f, 4)
        for f in functions(module)
        if symbol_name(f) in described
    }


def seconds(module: ir.Module) -> dict[str, list[float]]:
    return {
        name: list(ir.DenseF64ArrayAttr(op.operation.attributes["seconds"]))
        for name, op in described_kernels(module).items()
    }


def test_rkernels_are_measured_once(model: Path) -> None:
    first, second = at_buffers(model), at_buffers(model)
    measured = profile_kernels(first.module)
    assert measured > 0
    assert profile_kernels(second.module) == 0
    assert seconds(first.module) == seconds(second.module)
    for hot, cold, far in seconds(first.module).values():
        assert 0 < hot <= cold <= far < 1


def test_an_executor_measures(model: Path) -> None:
    compilation = at_buffers(model)
    with ThreadPoolExecutor(2) as executor:
        assert compilation.profile(executor) > 0
    assert compilation.profile() == 0


def test_more_work_takes_longer(tmp_path: Path) -> None:
    found: list[float] = []
    for size in (32, 512):
        weights = np.ones((size, size), np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        path = save_model(tmp_path / f"{size}.onnx", nodes, (size, size), w=weights)
        (source, *_) = sources(at_buffers(path).module).values()
        found.append(measure(KernelSource(source.text, 1)).hot)
    assert found[0] < found[1]


def test_what_is_the_same_in_every_round_is_done_in_every_round() -> None:
    """A measurement repeats all work in every round: no work is hoisted out of the rounds' loop.

    Filling half a mebibyte takes more than 500 ns.
    """
    text = """func.func private @kernel(%id: index, %out: memref<131072xf32>) {
      %zero = arith.constant 0.0 : f32
      linalg.fill ins(%zero : f32) outs(%out : memref<131072xf32>)
      return
    }"""
    assert measure(KernelSource(text, 1)).hot > 5e-7


@pytest.mark.parametrize(
    ("num_rtasks", "num_bytes"),
    [(1, 100), (7, 1 << 20), (16, 5 << 20), (3, 40 << 20), (999, 9 << 20)],
)
def test_hot_rtasks_are_run_together_as_far_as_a_cache_holds_them(
    num_rtasks: int, num_bytes: int
) -> None:
    """Hot rTasks are timed in groups whose memory fits into a core's second-level cache.

    Cold and far times are those of all rTasks, on a single copy of the memory.
    """
    calls: list[tuple[int, int, int]] = []

    def run(rounds: int, copies: int, begin: int, end: int) -> None:
        if rounds:
            calls.append((copies, begin, end))
        sum(range(2000 * min(rounds, 50)))

    found = Loop(run, 3, num_rtasks, num_bytes).measure()
    assert 0 < found.hot <= found.cold <= found.far
    assert calls.pop(0) == (3, 0, num_rtasks), "all memory is touched first"
    groups = {(begin, end) for copies, begin, end in calls if copies == 3}
    assert 1 <= len(groups) <= 4
    for begin, end in groups:
        assert 0 <= begin < end <= num_rtasks
        assert end - begin == 1 or (end - begin) * num_bytes <= num_rtasks << 20
    others = {(begin, end) for copies, begin, end in calls if copies == 1}
    assert others == {(0, num_rtasks)}, "cold and far are those of all rTasks, on one copy"


def test_a_key_tells_apart_what_differs_in_time(model: Path) -> None:
    compilation = at_buffers(model)
    module = compilation.module
    before = sources(module)
    keys = {source.key(X86_64_AVX2) for source in before.values()}
    assert len(keys) == len({source.text for source in before.values()})
    for function in functions(module):
        name = symbol_name(function)
        if name in before:
            with module.context:
                function.operation.attributes["sym_name"] = ir.StringAttr.get(f"other_{name}")
            assert isolate(module, function, 4) == before[name]
    (source, *_) = before.values()
    assert source.key(X86_64_AVX2) != source.key(X86_64_AVX512)
    assert source.key(X86_64_AVX2) != KernelSource(source.text, 5).key(X86_64_AVX2)


def test_a_key_tells_apart_the_settings_of_foreign_code() -> None:
    """Options, linked objects and the kind of function count, the name of the module does not."""
    code = ForeignCode("m", "graph", b"content", ("f",), engine="openvino")
    settings = {"options": (("threads", "1"),), "objects": (b"object",), "content": b"other"}
    codes = [code, *(replace(code, **{name: value}) for name, value in settings.items())]
    functions = [External("m", "f"), External("m", "f", has_state=True)]
    sources = [KernelSource("", 1, f, (each,)) for each in codes for f in functions]
    assert len({source.key(X86_64_AVX2) for source in sources}) == len(sources)
    renamed = KernelSource("", 1, External("n", "f"), (replace(code, name="n"),))
    assert renamed.key(X86_64_AVX2) == sources[0].key(X86_64_AVX2)


def test_measured_times_reach_the_policy(model: Path, store: ProfileStore) -> None:
    """The policy uses stored times: with a second for each rTask, it predicts at least 3 s."""
    compilation = at_buffers(model)
    profile_kernels(compilation.module)
    slow = MeasuredSeconds(1.0, 1.0, 1.0)
    with ir.Context():
        keys = _keys(compilation)
    store.add(dict.fromkeys(keys, slow))
    again = Compilation.of_model(
        str(model), check_options("cpu", policy="wavefront", num_veus=2, costs="measured")
    )
    again.emit("program")
    plan = read_plan(again.module).plan
    assert 3 <= plan.predicted_seconds
    (timeline,) = again.predict()
    assert timeline.seconds == pytest.approx(plan.predicted_seconds)


def _keys(compilation: Compilation) -> list[str]:
    from rammer_mlir.lowering.llvm.machine import host_machine

    found: list[str] = []
    kernels = {symbol_name(f): f for f in functions(compilation.module)}
    for name, op in described_kernels(compilation.module).items():
        count = ir.IntegerAttr(op.operation.attributes["num_rtasks"]).value
        source = isolate(compilation.module, kernels[name], count)
        found.append(source.key(host_machine()))
    return found


def test_compare_knows_measured_times_too(model: Path) -> None:
    options = check_options("cpu", policy="sequential", num_veus=2, costs="measured")
    own, other = Compilation.of_model(str(model), options).predict(["sequential"])
    assert own.seconds == pytest.approx(other.seconds)


def test_numbers_stay_right(model: Path) -> None:
    x = np.random.default_rng(1).standard_normal((32, 64)).astype(np.float32)
    outputs = [
        np.asarray(rammer_mlir.compile(str(model), num_veus=2, costs=costs)(x), np.float32)
        for costs in (None, "measured", "measured:cpu")
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
    np.testing.assert_allclose(outputs[0], outputs[2], rtol=1e-5)


def test_an_unwritable_cache_warns_and_compiles(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "file" / "profiles.sqlite"))
    with pytest.warns(ProfileWarning, match="cannot be written"):
        rammer_mlir.compile(str(model), num_veus=1, costs="measured")


def test_where_nothing_can_be_measured(model: Path) -> None:
    with pytest.raises(OptionError, match="expected target cpu, on which rKernels can be measured"):
        rammer_mlir.compile(str(model), target="nvvm:sm_90", costs="measured")
    with pytest.raises(OptionError, match="expected a device like this processor"):
        rammer_mlir.compile(str(model), costs="measured:ipu")
    with pytest.raises(OptionError, match="unknown device 'abacus'"):
        rammer_mlir.compile(str(model), costs="measured:abacus")
    with ThreadPoolExecutor(1) as executor, pytest.raises(OptionError, match="expected measured"):
        rammer_mlir.compile(str(model), executor=executor)


def test_the_tool_measures(
    model: Path, tmp_path: Path, store: ProfileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model.rammer"
    assert main([str(model), "--veus", "2", "--costs", "measured", "-o", str(output)]) == 0
    assert "predicted time" in capsys.readouterr().out
    assert store.path.exists()
