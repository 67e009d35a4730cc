"""Tests that tensors in device memory are exchanged with other packages without copies.

The protocols are DLPack and the CUDA array interface.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rammer_mlir.emulation.device.driver import EmulatedDriver
from rammer_mlir.emulation.device.executable import NO_CODE, EmulatedExecutable
from rammer_mlir.errors import InputError, TargetError
from rammer_mlir.runtime.gpu.arrays import DeviceArray
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.gpu.memory import MemoryPool
from rammer_mlir.support.aligned import aligned_bytes
from tests.runtime.gpu_model import agrees, compiled, feeds_of, with_driver


@pytest.fixture(scope="module")
def executable() -> EmulatedExecutable:
    return compiled()


def test_device_tensors_are_not_copied(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    feeds = feeds_of(7)
    again.run(feeds)
    uploaded = driver.uploaded_bytes
    (spec,) = again.signature.inputs
    tensor = DeviceArray(driver, spec, driver.create_stream())
    driver.upload(tensor.address, feeds[spec.name], tensor.stream)
    outputs = again.run_on_device({spec.name: tensor})
    assert driver.uploaded_bytes == uploaded + spec.num_bytes
    again.synchronize()
    assert agrees({name: array.numpy() for name, array in outputs.items()}, 7)
    # An output may be written to again.
    feeds = feeds_of(8)
    driver.upload(tensor.address, feeds[spec.name], tensor.stream)
    repeated = again.run_on_device({spec.name: tensor}, outputs)
    assert all(repeated[name] is outputs[name] for name in outputs)
    assert agrees({name: array.numpy() for name, array in outputs.items()}, 8)


class OnlyDlpack:
    """A tensor of another package that supports the protocol DLPack only."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OnlyInterface:
    """A stub for a tensor of another package that has ``__cuda_array_interface__`` only.

    It describes the NumPy array ``array``; ``changes`` replaces entries of the description.
    """

    def __init__(self, array: Any, **changes: Any) -> None:
        self.kept = kept = array
        fields: dict[str, Any] = {
            "shape": kept.shape, "typestr": kept.dtype.str, "data": (kept.ctypes.data, False),
            "strides": None, "version": 3, "stream": 1,
        }  # fmt: skip
        self.__cuda_array_interface__ = fields | changes


def test_foreign_tensors_come_in_by_both_protocols(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    (spec,) = again.signature.inputs
    feeds = feeds_of(9)
    again.run(feeds)
    uploaded = driver.uploaded_bytes
    aligned = aligned_bytes(spec.num_bytes).view(spec.dtype).reshape(spec.shape)
    aligned[...] = feeds[spec.name]
    for wrapper in (OnlyDlpack, OnlyInterface):
        outputs = again.run_on_device({spec.name: wrapper(aligned)})
        assert driver.uploaded_bytes == uploaded
        assert agrees({name: array.numpy() for name, array in outputs.items()}, 9)


@pytest.mark.parametrize("number", [1, 2, 70])
def test_runs_wait_for_the_stream_of_a_foreign_tensor(
    executable: EmulatedExecutable, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run waits for the stream that the CUDA array interface names, also for default streams."""
    again, driver = with_driver(executable)
    (spec,) = again.signature.inputs
    aligned = aligned_bytes(spec.num_bytes).view(spec.dtype).reshape(spec.shape)
    orders: list[tuple[object, object]] = []
    for _ in range(2):
        driver.create_stream()  # so that the program's own stream is neither 1 nor 2

    def order(before: object, after: object) -> None:
        orders.append((before, after))

    again.run(feeds_of(9))
    monkeypatch.setattr(driver, "order", order)
    again.run_on_device({spec.name: OnlyInterface(aligned, stream=None)})
    assert not orders
    again.run_on_device({spec.name: OnlyInterface(aligned, stream=number)}, stream=71)
    assert orders[0] == (number, 71)


def counted(driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later allocation of the driver appends its number of bytes."""
    sizes: list[int] = []
    allocate = driver.allocate

    def count(num_bytes: int) -> int:
        sizes.append(num_bytes)
        return allocate(num_bytes)

    monkeypatch.setattr(driver, "allocate", count)
    return sizes


def test_runs_reuse_the_memory_of_dropped_outputs(
    executable: EmulatedExecutable, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, driver = with_driver(executable)
    inputs = [again.to_device(feeds_of(seed)) for seed in (1, 2)]
    outputs = [again.run_on_device(inputs[0]) for _ in range(2)]
    kept, sizes = outputs.pop(), counted(driver, monkeypatch)
    outputs.clear()
    for _ in range(5):
        outputs = [again.run_on_device(inputs[1])]
        outputs.clear()
    assert not sizes
    assert agrees({name: array.numpy() for name, array in kept.items()}, 1)
    again.close()
    del inputs
    gc.collect()
    assert driver.used_bytes == sum(array.spec.num_bytes for array in kept.values())
    del kept
    gc.collect()
    assert driver.used_bytes == 0


def test_kept_memory_is_freed_for_another_size() -> None:
    pool = MemoryPool(EmulatedDriver("sm_90", {}, memory_bytes=100))
    pool.give_back(pool.take(60))
    pool.give_back(pool.take(80))
    with pytest.raises(TargetError, match="expected 120 bytes of device memory, found 100 free"):
        pool.take(120)


def test_few_dropped_outputs_are_kept(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    inputs = again.to_device(feeds_of(1))
    outputs = [again.run_on_device(inputs) for _ in range(10)]
    (spec,) = again.signature.outputs
    before = driver.used_bytes
    outputs.clear()
    gc.collect()
    assert driver.used_bytes == before - 6 * spec.num_bytes


def lend_by_dlpack(array: DeviceArray, other: GpuExecutable) -> None:
    """Export ``array`` to NumPy."""
    np.from_dlpack(array)  # type: ignore[arg-type]


def lend_by_interface(array: DeviceArray, other: GpuExecutable) -> None:
    """Tell the address of ``array`` as to a package that knows the CUDA array interface."""
    assert array.__cuda_array_interface__["data"][0] == array.address


def lend_as_input(array: DeviceArray, other: GpuExecutable) -> None:
    """Run another program that reads ``array``."""
    (spec,) = other.signature.inputs
    other.run_on_device({spec.name: array})


def lend_as_output(array: DeviceArray, other: GpuExecutable) -> None:
    """Run another program that writes ``array``."""
    (spec,) = other.signature.outputs
    other.run_on_device(other.to_device(feeds_of(2)), {spec.name: array})


@pytest.mark.parametrize("lend", [lend_by_dlpack, lend_by_interface, lend_as_input, lend_as_output])
def test_memory_that_others_use_is_not_reused(
    executable: EmulatedExecutable,
    lend: Callable[[DeviceArray, GpuExecutable], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory of an output that others may still access is freed, which waits for the device."""
    again, driver = with_driver(executable)
    other = GpuExecutable(again.image, NO_CODE, lambda: driver)
    inputs = again.to_device(feeds_of(1))
    other.run(feeds_of(1))
    outputs = again.run_on_device(inputs)
    lend(next(iter(outputs.values())), other)
    del outputs
    gc.collect()
    sizes = counted(driver, monkeypatch)
    again.run_on_device(inputs)
    assert sizes == [spec.num_bytes for spec in again.signature.outputs]


def test_outputs_leave_by_dlpack_and_live_on(executable: EmulatedExecutable) -> None:
    again, driver = with_driver(executable)
    outputs = again.run_on_device(feeds_of(10))
    (name,) = outputs
    before = driver.used_bytes
    taken = np.from_dlpack(outputs.pop(name))  # type: ignore[arg-type]
    del outputs
    gc.collect()
    assert driver.used_bytes == before  # NumPy's array keeps the memory
    assert agrees({name: taken}, 10)
    del taken
    gc.collect()
    assert driver.used_bytes < before


def test_device_tensors_that_do_not_fit(executable: EmulatedExecutable) -> None:
    (spec,) = executable.signature.inputs
    *rest, last = spec.shape
    cases: list[tuple[Any, str]] = [
        (np.ones(spec.shape, np.float64), "dtype float32, found float64"),
        (np.ones((*rest, last + 1), np.float32), "shape"),
        (np.ones((*rest, 2 * last), np.float32)[..., ::2], "dense True"),
        (np.ones(spec.num_bytes // 4 + 1, np.float32)[1:].reshape(spec.shape), "address in bytes"),
    ]
    for array, message in cases:
        with pytest.raises(InputError, match=f"input '{spec.name}' on .* expected {message}"):
            executable.run_on_device({spec.name: OnlyDlpack(array)})


def test_a_tensor_that_its_package_does_not_give(executable: EmulatedExecutable) -> None:
    (spec,) = executable.signature.inputs
    locked = np.zeros(spec.shape, spec.dtype)
    locked.flags.writeable = False
    with pytest.raises(InputError, match=f"input '{spec.name}': .*readonly"):
        executable.run_on_device({spec.name: OnlyDlpack(locked)})


def test_a_tensor_of_another_device(executable: EmulatedExecutable) -> None:
    class Elsewhere(OnlyDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 1)

    (spec,) = executable.signature.inputs
    with pytest.raises(InputError, match=r"found one on DLPack device \(2, 1\); move it"):
        executable.run_on_device({spec.name: Elsewhere(np.zeros(spec.shape, spec.dtype))})
