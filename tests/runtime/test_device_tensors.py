"""Tests that tensors in device memory are exchanged with other packages without copies.

The protocols are DLPack and the CUDA array interface.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.errors import InputError
from rammer_mlir.runtime.gpu.arrays import DeviceArray
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
