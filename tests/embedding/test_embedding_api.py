"""The Python API compiles launches in the caller's own MLIR context to executables."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.bindings import ir
from rammer_mlir.embedding import compile_launches
from rammer_mlir.errors import EmulationError, RammerError
from rammer_mlir.runtime.gpu.executable import GpuExecutable

KIND = "memref<4x32xf32>"


def host(marks: str = "", kernel_end: str = "") -> str:
    """Return a host function of two launches: ``y = 2 x``, then ``z += y`` with reversed rows.

    ``marks`` are attributes of the argument y, and ``kernel_end`` ends the second kernel.
    """
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host(%x: {KIND} {{rtask.name = "x"}}, %y: {KIND} {marks}, %z: {KIND}) {{
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c32 = arith.constant 32 : index
  gpu.launch_func @k::@double blocks in (%c4, %c1, %c1) threads in (%c32, %c1, %c1)
      args(%x : {KIND}, %y : {KIND})
  gpu.launch_func @k::@add blocks in (%c1, %c4, %c1) threads in (%c32, %c1, %c1)
      args(%y : {KIND}, %z : {KIND})
  return
}}
gpu.module @k {{
gpu.func @double(%x: {KIND}, %y: {KIND}) kernel {{
  %i = gpu.block_id x
  %j = gpu.thread_id x
  %v = memref.load %x[%i, %j] : {KIND}
  %w = arith.addf %v, %v : f32
  memref.store %w, %y[%i, %j] : {KIND}
  gpu.return
}}
gpu.func @add(%y: {KIND}, %z: {KIND}) kernel {{
  %c3 = arith.constant 3 : index
  %i = gpu.block_id y
  %j = gpu.thread_id x
  %m = arith.subi %c3, %i : index
  %v = memref.load %y[%m, %j] : {KIND}
  %o = memref.load %z[%i, %j] : {KIND}
  %w = arith.addf %v, %o : f32
  memref.store %w, %z[%i, %j] : {KIND}
  {kernel_end}
  gpu.return
}}
}}
}}"""


def compiled(text: str, **options: Any) -> GpuExecutable:
    """Compile in a new context, into which the dialect was not loaded before."""
    with ir.Context(), ir.Location.unknown():
        return compile_launches(ir.Module.parse(text), **options)


def arrays() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    rng = np.random.default_rng(3)
    return {n: rng.standard_normal((4, 32)).astype(np.float32) for n in ("x", "arg1", "arg2")}


@pytest.mark.parametrize("watchdog", [0, 1000])
def test_arrays_of_the_host(watchdog: int) -> None:
    executable = compiled(host(), num_veus=3, emulate=True, check=True, watchdog=watchdog)
    assert [spec.name for spec in executable.signature.inputs] == ["x", "arg1", "arg2"]
    given = arrays()
    found = executable.run(given)
    assert list(found) == ["arg1", "arg2"]
    assert np.array_equal(found["arg1"], 2 * given["x"])
    assert np.array_equal(found["arg2"], given["arg2"] + 2 * given["x"][::-1])
    assert np.array_equal(given["arg2"], arrays()["arg2"])


def test_arrays_on_the_device_are_changed_in_place() -> None:
    executable = compiled(host(), num_veus=3, emulate=True, check=True)
    given = arrays()
    placed = executable.to_device(given)
    for _ in range(3):
        executable.run_on_device(placed)
    executable.synchronize()
    expected = given["arg2"]
    for _ in range(3):
        expected = expected + 2 * given["x"][::-1]
    assert np.array_equal(placed["arg2"].numpy(), expected)
    assert np.array_equal(placed["x"].numpy(), given["x"])


def test_outputs_are_those_that_are_marked() -> None:
    text = host('{rtask.output, rtask.name = "y"}')
    executable = compiled(text, num_veus=2, emulate=True, check=True)
    assert [spec.name for spec in executable.signature.outputs] == ["y"]
    given = {name: value for name, value in arrays().items() if name != "arg1"}
    found = executable.run(given)
    assert list(found) == ["y", "arg2"]
    assert np.array_equal(found["y"], 2 * given["x"])


@pytest.mark.parametrize("target", ["nvvm:sm_90", "nvvm:sm_80"])
def test_code_and_artifact(target: str, tmp_path: Path) -> None:
    executable = compiled(host(), target=target, num_veus=4)
    assert executable.image.block_threads == 32
    assert executable.code
    executable.save(tmp_path / "launches.rammer")
    again = rammer_mlir.load(tmp_path / "launches.rammer")
    assert isinstance(again, GpuExecutable)
    assert again.image.inouts == ("input1", "input2")
    assert again.signature == executable.signature


def test_out_of_bounds_is_found() -> None:
    beyond = f"%n = arith.addi %i, %c3 : index\nmemref.store %w, %z[%n, %j] : {KIND}"
    executable = compiled(host(kernel_end=beyond), num_veus=1, emulate=True, check=True)
    with pytest.raises(EmulationError, match="index"):
        executable.run(arrays())


def two_hosts() -> str:
    """Return the module of ``host()`` with a second function, with its own GPU module."""
    return f"""{host().rstrip().removesuffix("}")}
func.func @other(%x: {KIND}) {{
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  gpu.launch_func @more::@first blocks in (%c4, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%x : {KIND})
  return
}}
gpu.module @more {{
gpu.func @first(%x: {KIND}) kernel {{
  %c0 = arith.constant 0 : index
  %i = gpu.block_id x
  %one = arith.constant 1.0 : f32
  memref.store %one, %x[%i, %c0] : {KIND}
  gpu.return
}}
}}
}}
"""


def test_one_of_several_functions() -> None:
    given = arrays()
    both = compiled(two_hosts(), num_veus=2, emulate=True, check=True, function="host")
    assert np.array_equal(both.run(given)["arg1"], 2 * given["x"])
    other = compiled(two_hosts(), num_veus=2, emulate=True, check=True, function="other")
    found = other.run({"arg0": given["x"]})["arg0"]
    assert np.array_equal(found[:, 1:], given["x"][:, 1:])
    assert (found[:, 0] == 1).all()


def test_which_function_must_be_known() -> None:
    with pytest.raises(RammerError, match=r"found 2 \(@host, @other\): .*function=NAME"):
        compiled(two_hosts(), emulate=True)
    with pytest.raises(RammerError, match=r"found 'more' \(there are @host, @other\)"):
        compiled(two_hosts(), emulate=True, function="more")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "cpu"}, "expected a GPU, and emulation for checks"),
        ({"check": True}, "expected a GPU, and emulation for checks"),
        ({"policy": "none"}, "unknown policy 'none'"),
        ({"target": "nvvm:sm_1"}, "sm_1"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RammerError, match=message):
        compiled(host(), **options)


def test_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The example runs, and its own check of the results passes."""
    root = Path(__file__).parent.parent.parent
    runpy.run_path(str(root / "examples" / "launches_to_megakernel.py"))
    assert "launches now: 1, of 4 blocks" in capsys.readouterr().out
