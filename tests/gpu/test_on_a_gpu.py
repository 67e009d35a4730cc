"""Tests that programs on this machine's GPU give ONNX Runtime's outputs.

The tests are skipped if the machine has no GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.benchmarks.comparison import compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.gpu.__main__ import open_gpu
from rammer_mlir.benchmarks.models import LIGHT, MODELS, TABLE_1, build, random_feeds
from rammer_mlir.benchmarks.relay import Relay
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.runtime.gpu.executable import GpuExecutable


@pytest.fixture(scope="module")
def target() -> str:
    """Return the target of this machine's GPU, or skip the test."""
    try:
        kind, driver = open_gpu()
    except TargetError as error:
        pytest.skip(str(error))
    return f"{kind}:{driver.chip}"


def agree(name: str, target: str, scale: Any, **options: Any) -> GpuExecutable:
    model = build(name, scale=scale)
    executable = rammer_mlir.compile(model, target=target, **options)
    assert isinstance(executable, GpuExecutable)
    reference = OnnxRuntime(model, threads=2)
    for seed in (1, 2, 3):
        feeds = random_feeds(model, seed)
        comparison = compare(reference.run(feeds), executable.run(feeds))
        assert comparison.ok, str(comparison)
    return executable


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str, target: str) -> None:
    agree(name, target, "small")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TABLE_1, *LIGHT])
def test_whole_models(name: str, target: str) -> None:
    agree(name, target, "full")


@pytest.mark.parametrize("name", ["nas_cell", "lstm_bidirectional", "light_shufflenet"])
@pytest.mark.parametrize("num_veus", [1, 2, 8, None])
def test_veus_and_launches(name: str, num_veus: int | None, target: str) -> None:
    agree(name, target, "small", num_veus=num_veus)
    agree(name, target, "small", num_veus=num_veus, policy="sequential", per_operator=True)
    agree(name, target, "small", num_veus=num_veus, watchdog=1 << 30)


def test_a_thousand_runs_of_a_relay(target: str) -> None:
    """A relay over many vEUs is right in 1000 runs, by launches and replayed graphs alternately."""
    executable = Relay(min(find_gpu(target).num_veus, 100), 400).compile(target)
    inputs = executable.to_device({"x": np.array([0.5], np.float32)})
    captured = executable.capture(inputs)
    for number in range(1000):
        if number % 2:
            outputs = captured.replay()
        else:
            outputs = executable.run_on_device(inputs)
        assert outputs["y"].numpy()[0] == 400.5


def test_a_watchdog_ends_a_program_that_waits_for_ever(target: str) -> None:
    """A watchdog's error names a vEU that waits forever; the GPU runs other programs afterwards."""
    from dataclasses import replace

    from tests.runtime.test_gpu_executable import awaits_one_step_more

    model = build("attention", scale="small")
    made = rammer_mlir.compile(model, target=target, num_veus=4, watchdog=100_000)
    assert isinstance(made, GpuExecutable)
    changed, veu, other = awaits_one_step_more(made.image)
    driver = made.program.driver
    broken = GpuExecutable(replace(changed), made.code, lambda: driver)
    with pytest.raises(TargetError, match=rf"vEU {veu}, .* of vEU {other} "):
        broken.run(random_feeds(model, 1))
    assert compare(
        OnnxRuntime(model).run(random_feeds(model, 1)), made.run(random_feeds(model, 1))
    ).ok


def test_device_tensors_of_pytorch(target: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    model = build("attention", scale="small")
    executable = rammer_mlir.compile(model, target=target)
    assert isinstance(executable, GpuExecutable)
    feeds = random_feeds(model, 4)
    tensors = {name: torch.from_numpy(array).cuda() for name, array in feeds.items()}
    stream = torch.cuda.Stream()
    outputs = executable.run_on_device(tensors, stream=stream.cuda_stream)
    found = {name: torch.from_dlpack(array).cpu().numpy() for name, array in outputs.items()}
    assert compare(OnnxRuntime(model).run(feeds), found).ok
