"""Uses input tensors that are in device memory without a copy, and holds outputs on the device."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import InputError
from rammer_mlir.programs.signature import TensorSpec
from rammer_mlir.runtime.dlpack import CPU, CUDA, Borrowed, borrow, is_dense, lend
from rammer_mlir.runtime.gpu.driver import Driver
from rammer_mlir.runtime.gpu.memory import DeviceMemory, MemoryPool

_HOST_KINDS = (CPU, 3, 11)
"""DLPack's types of host memory: pageable, and page-locked for CUDA or ROCm."""


class DeviceArray:
    """A dense row-major tensor in device memory.

    Other packages use it without a copy: by ``__dlpack__``, and on NVIDIA GPUs by
    ``__cuda_array_interface__``. ``numpy`` copies it to the host.
    """

    def __init__(
        self, driver: Driver, spec: TensorSpec, stream: object, pool: MemoryPool | None = None
    ) -> None:
        """Allocate an uninitialized tensor; operations on ``stream`` are going to write it.

        The memory is taken from ``pool``, and given back when the tensor is no longer referenced;
        None stands for new memory.
        """
        self.spec, self.stream = spec, stream
        self._driver, self._pool = driver, pool
        if pool is None:
            self.memory = DeviceMemory(driver, spec.num_bytes)
        else:
            self.memory = pool.take(spec.num_bytes)
            release = weakref.finalize(self, pool.give_back, self.memory)
            release.atexit = False  # the driver frees all memory at exit

    def use_in(self, pool: MemoryPool) -> None:
        """Record that a run of the program whose outputs are in ``pool`` accesses the tensor."""
        self.memory.is_lent |= pool is not self._pool

    @property
    def address(self) -> int:
        """Device address of the first element.

        Later runs may overwrite the memory when this object is no longer referenced.
        """
        return self.memory.address

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Element type of the tensor."""
        return self.spec.dtype

    def numpy(self) -> NDArray[np.generic]:
        """Return a copy on the host, after waiting for the work that writes the tensor."""
        array: NDArray[np.generic] = np.empty(self.spec.shape, self.spec.dtype)
        self._driver.download(array, self.address, self.stream)
        self._driver.synchronize(self.stream)
        return array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Numba's CUDA array interface, version 3."""
        self.memory.is_lent = True
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            # 0 is not allowed by the interface; 1 is the legacy default stream.
            "stream": self._driver.stream_handle(self.stream) or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and device number."""
        return self._driver.dlpack_device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule, after waiting for the work that writes the tensor.

        Raises:
            BufferError: if a copy or another device is requested.
        """
        del stream, max_version
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("expected a tensor that stays where it is; copy it after taking it")
        self.memory.is_lent = True
        self._driver.synchronize(self.stream)
        return lend(self.address, self.spec, self.__dlpack_device__(), self)


def find_on_device(driver: Driver, value: Any, spec: TensorSpec, stream: object) -> Borrowed | None:
    """Return ``value`` as a borrowed tensor if it is in device memory, None if in host memory.

    Operations that are enqueued on ``stream`` afterwards wait for the operations that write the
    tensor.

    Raises:
        InputError: if ``value`` is on another device, not dense, or not of the shape and dtype of
            ``spec``.
    """
    if isinstance(value, DeviceArray):
        if value.stream != stream:
            driver.order(value.stream, stream)
        found = Borrowed(value.address, value.shape, value.dtype, True, value)
    elif isinstance(value, np.ndarray):
        return None
    elif hasattr(value, "__dlpack_device__"):
        kind, number = (int(part) for part in value.__dlpack_device__())
        if kind in _HOST_KINDS and driver.dlpack_device[0] != CPU:
            return None
        if (kind, number) != driver.dlpack_device:
            raise InputError(
                f"input '{spec.name}': expected a tensor on {driver.name} (DLPack device "
                f"{driver.dlpack_device}), found one on DLPack device {(kind, number)}; move it"
            )
        found = _from_dlpack(driver, value, spec, stream)
    elif hasattr(value, "__cuda_array_interface__"):
        found = _from_interface(driver, value, stream)
    else:
        return None
    _check(found, spec)
    return found


def _from_dlpack(driver: Driver, value: Any, spec: TensorSpec, stream: object) -> Borrowed:
    handle = None if driver.dlpack_device[0] == CPU else driver.stream_handle(stream)
    if handle == 0 and driver.dlpack_device[0] == CUDA:
        handle = 1  # DLPack's number of CUDA's default stream, whose handle is 0
    try:
        return borrow(value.__dlpack__(stream=handle))
    except BufferError as error:
        raise InputError(
            f"input '{spec.name}': expected a tensor that DLPack can hand over, found one that "
            f"{type(value).__name__} keeps ({error}); copy it"
        ) from error


def _from_interface(driver: Driver, value: Any, stream: object) -> Borrowed:
    fields = value.__cuda_array_interface__
    dtype = np.dtype(fields["typestr"])
    shape, strides = tuple(fields["shape"]), fields.get("strides")
    dense = strides is None or is_dense(shape, tuple(strides), dtype.itemsize)
    # Default streams too: they wait for no stream that was created as non-blocking, and the
    # per-thread one for no other stream than the legacy one.
    if fields.get("stream") is not None:
        driver.order(driver.stream_of(int(fields["stream"])), stream)
    return Borrowed(int(fields["data"][0]), shape, dtype, dense, value)


def _check(found: Borrowed, spec: TensorSpec) -> None:
    rules: list[tuple[str, object, object, str]] = [
        ("dtype", spec.dtype, found.dtype, "convert it"),
        ("shape", spec.shape, found.shape, "the model was compiled for this shape alone"),
        ("dense", True, found.is_dense, "copy it into row-major order"),
        # Vectorized accesses of 16 bytes need this alignment.
        ("address in bytes modulo 16", 0, found.address % 16, "copy it"),
    ]
    for what, expected, actual, advice in rules:
        if expected != actual:
            raise InputError(
                f"input '{spec.name}' on the device: expected {what} {expected}, found {actual}; "
                f"{advice}"
            )
