"""NVIDIA GPUs, through the bindings of CUDA's driver interface (``cuda-bindings``)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds
from rammer_mlir.runtime.dlpack import CUDA
from rammer_mlir.runtime.gpu.driver import (
    Argument,
    Array,
    KernelPointers,
    Launch,
    Peaks,
    out_of_memory,
)

_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"

_LANES, _MOST_LANES = {"sm_70": 64, "sm_72": 64, "sm_75": 64, "sm_80": 64}, 128
"""f32 lanes of a multiprocessor (CUDA programming guide, arithmetic instructions)."""


def _bindings() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise TargetError(
            "running on an NVIDIA GPU: expected the Python package 'cuda-bindings', found none; "
            "install it with 'pip install rammer-mlir[cuda]'"
        ) from error


class CudaDriver:
    """One NVIDIA GPU, in its primary context, which other packages share."""

    def __init__(self, device: int = 0) -> None:
        """Open a device by its number.

        Raises:
            TargetError: if the bindings are not installed, or there is no driver or device.
        """
        self._cuda = _bindings()
        self._number = device
        self._initialize()
        self._device = self._do("cuDeviceGet", device)
        self._context = self._do("cuDevicePrimaryCtxRetain", self._device)
        self.activate()
        name = bytes(self._do("cuDeviceGetName", 256, self._device))
        self._name = f"{name.split(bytes(1))[0].decode()} (device {device})"
        major, minor = (
            self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR")
        )
        self._chip = f"sm_{major}{minor}"

    def _initialize(self) -> None:
        try:
            self._do("cuInit", 0)
            count = self._do("cuDeviceGetCount")
        except RuntimeError as error:  # the bindings did not find the library
            raise _no_driver("no libcuda") from error
        except TargetError as error:
            raise _no_driver(str(error)) from error
        if self._number >= count:
            raise TargetError(
                f"device {self._number}: expected a number below {count}, which is how many NVIDIA "
                "GPUs there are; choose another"
            )

    def _do(self, function: str, *arguments: Any) -> Any:
        """Call a function of the driver; return its result, or several as a tuple.

        Raises:
            TargetError: if it fails.
        """
        status, *results = getattr(self._cuda, function)(*arguments)
        if status != self._cuda.CUresult.CUDA_SUCCESS:
            raise TargetError(
                f"CUDA's {function} failed with {status.name}: {_advice(status.name)}"
            )
        return results[0] if len(results) == 1 else tuple(results)

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._do("cuDeviceGetAttribute", attribute, self._device))

    @property
    def name(self) -> str:
        """The device in words."""
        return self._name

    @property
    def chip(self) -> str:
        """LLVM's name of the processor."""
        return self._chip

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return (CUDA, self._number)

    def peaks(self) -> Peaks:
        """Return what the clocks allow: two operations a cycle and lane, two transfers a cycle."""
        lanes = _LANES.get(self._chip, _MOST_LANES) * self._attribute("MULTIPROCESSOR_COUNT")
        memory = self._attribute("MEMORY_CLOCK_RATE") * self._attribute("GLOBAL_MEMORY_BUS_WIDTH")
        return Peaks(2e3 * lanes * self._attribute("CLOCK_RATE"), 2e3 * memory / 8)

    def activate(self) -> None:
        """Let the calling thread use the device."""
        self._do("cuCtxSetCurrent", self._context)

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return a kernel; the driver compiles PTX."""
        text = code + b"\0" if kind == "ptx" else code
        module = self._do("cuModuleLoadData", text)
        return self._do("cuModuleGetFunction", module, entry.encode())

    def _function_attribute(self, kernel: object, name: str) -> int:
        attribute = getattr(self._cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._do("cuFuncGetAttribute", attribute, kernel))

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return what a block of the kernel takes."""
        registers = self._function_attribute(kernel, "NUM_REGS")
        shared = self._function_attribute(kernel, "SHARED_SIZE_BYTES")
        return BlockNeeds(threads, registers, shared)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks can be resident on the whole device."""
        if not self._attribute("COOPERATIVE_LAUNCH"):
            return 0
        each = self._do("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, 0)
        return int(each) * self._attribute("MULTIPROCESSOR_COUNT")

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory."""
        try:
            return int(self._do("cuMemAlloc", num_bytes))
        except TargetError as error:
            if _OUT_OF_MEMORY not in str(error):
                raise
            free, _ = self._do("cuMemGetInfo")
            raise out_of_memory(self.name, num_bytes, int(free)) from error

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do("cuMemFree", address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Zero memory."""
        self._do("cuMemsetD8Async", address, 0, num_bytes, stream)

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to the device; pageable memory is staged before this returns."""
        self._do("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy from the device into a dense array."""
        if array.nbytes:
            self._do("cuMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, stream)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Start a kernel."""
        pointers = KernelPointers(arguments)
        shape = (grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, pointers.places.ctypes.data)
        if grid.is_cooperative:
            self._do("cuLaunchCooperativeKernel", kernel, *shape)
        else:
            self._do("cuLaunchKernel", kernel, *shape, 0)

    def create_stream(self) -> object:
        """Return a new stream, which takes part in the order of the default one."""
        return self._do("cuStreamCreate", int(self._cuda.CUstream_flags.CU_STREAM_DEFAULT))

    def stream_of(self, handle: int) -> object:
        """Return the stream with a handle."""
        return self._cuda.CUstream(handle)

    def stream_handle(self, stream: object) -> int:
        """Return a stream's handle."""
        return int(stream)  # type: ignore[call-overload]

    def order(self, before: object, after: object) -> None:
        """Let later work of a stream wait for what another stream has been given so far."""
        flags = int(self._cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        event = self._do("cuEventCreate", flags)
        self._do("cuEventRecord", event, before)
        self._do("cuStreamWaitEvent", after, event, 0)
        self._do("cuEventDestroy", event)  # the driver keeps it until the wait is done

    def synchronize(self, stream: object) -> None:
        """Wait until a stream is done."""
        self._do("cuStreamSynchronize", stream)

    def begin_capture(self, stream: object) -> None:
        """Record what a stream is given from now on instead of doing it."""
        mode = self._cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._do("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: object) -> object:
        """Return what was recorded as an executable graph."""
        graph = self._do("cuStreamEndCapture", stream)
        return self._do("cuGraphInstantiate", graph, 0)

    def replay(self, graph: object, stream: object) -> None:
        """Start a graph."""
        self._do("cuGraphLaunch", graph, stream)

    def record_event(self, stream: object) -> object:
        """Return an event of the time at which the stream gets here."""
        event = self._do("cuEventCreate", int(self._cuda.CUevent_flags.CU_EVENT_DEFAULT))
        self._do("cuEventRecord", event, stream)
        return event

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the time between two events of streams that are done."""
        return float(self._do("cuEventElapsedTime", begin, end)) / 1e3


def _no_driver(found: str) -> TargetError:
    return TargetError(
        f"running on an NVIDIA GPU: expected its driver and a device, found none ({found}); run on "
        "a machine that has one, or use --emulate"
    )


def _advice(status: str) -> str:
    if status in ("CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"):
        return "install ptxas when compiling, or a newer driver"
    if status == "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE":
        return "compile for fewer vEUs (--veus)"
    return "look it up in CUDA's driver interface"
