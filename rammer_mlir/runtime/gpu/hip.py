"""AMD GPUs, through the bindings of HIP (``hip-python``)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds
from rammer_mlir.runtime.dlpack import ROCM
from rammer_mlir.runtime.gpu.driver import (
    Argument,
    Array,
    KernelPointers,
    Launch,
    Peaks,
    out_of_memory,
)

_OUT_OF_MEMORY = "hipErrorOutOfMemory"

_LANES = 64
"""f32 lanes of a compute unit (AMD's CDNA instruction set documents)."""


def _bindings() -> Any:
    try:
        return importlib.import_module("hip").hip
    except ImportError as error:
        raise TargetError(
            "running on an AMD GPU: expected the Python package 'hip-python', found none; install "
            "it with 'pip install rammer-mlir[rocm]'"
        ) from error


class HipDriver:
    """One AMD GPU."""

    def __init__(self, device: int = 0) -> None:
        """Open a device by its number.

        Raises:
            TargetError: if the bindings are not installed, or there is no driver or device.
        """
        self._hip = _bindings()
        self._number = device
        self._initialize()
        self.activate()
        properties = self._do("hipGetDeviceProperties", device)
        self._chip = str(properties.gcnArchName).partition(":")[0]
        self._name = f"{properties.name} (device {device})"
        self._units = int(properties.multiProcessorCount)
        self._is_cooperative = bool(properties.cooperativeLaunch)
        clocks = properties.clockRate, properties.memoryClockRate * properties.memoryBusWidth
        # Two operations a cycle and lane, two transfers a cycle; rates are in kHz.
        self._peaks = Peaks(2e3 * _LANES * self._units * clocks[0], 2e3 * clocks[1] / 8)

    def _initialize(self) -> None:
        try:
            self._do("hipInit", 0)
            count = int(self._do("hipGetDeviceCount"))
        except RuntimeError as error:  # the bindings did not find the library
            raise _no_driver("no libamdhip64") from error
        except TargetError as error:
            raise _no_driver(str(error)) from error
        if self._number >= count:
            raise TargetError(
                f"device {self._number}: expected a number below {count}, which is how many AMD "
                "GPUs there are; choose another"
            )

    def _do(self, function: str, *arguments: Any) -> Any:
        """Call a function of the runtime; return its result, or several as a tuple.

        Raises:
            TargetError: if it fails.
        """
        status, *results = getattr(self._hip, function)(*arguments)
        if status != self._hip.hipError_t.hipSuccess:
            raise TargetError(f"HIP's {function} failed with {status.name}: {_advice(status.name)}")
        return results[0] if len(results) == 1 else tuple(results)

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
        return (ROCM, self._number)

    def peaks(self) -> Peaks:
        """Return what the clocks allow."""
        return self._peaks

    def activate(self) -> None:
        """Let the calling thread use the device."""
        self._do("hipSetDevice", self._number)

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return a kernel."""
        if kind != "hsaco":
            raise TargetError(
                f"{self.name}: expected a code object (hsaco), found {kind}; compile the model "
                f"with --target rocdl:{self.chip}"
            )
        module = self._do("hipModuleLoadData", code)
        return self._do("hipModuleGetFunction", module, entry.encode())

    def _function_attribute(self, kernel: object, name: str) -> int:
        attribute = getattr(self._hip.hipFunction_attribute, f"HIP_FUNC_ATTRIBUTE_{name}")
        return int(self._do("hipFuncGetAttribute", attribute, kernel))

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return what a block of the kernel takes."""
        registers = self._function_attribute(kernel, "NUM_REGS")
        shared = self._function_attribute(kernel, "SHARED_SIZE_BYTES")
        return BlockNeeds(threads, registers, shared)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks can be resident on the whole device."""
        if not self._is_cooperative:
            return 0
        each = self._do("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", kernel, threads, 0)
        return int(each) * self._units

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory."""
        try:
            return int(self._do("hipMalloc", num_bytes))
        except TargetError as error:
            if _OUT_OF_MEMORY not in str(error):
                raise
            free, _ = self._do("hipMemGetInfo")
            raise out_of_memory(self.name, num_bytes, int(free)) from error

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do("hipFree", address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Zero memory."""
        self._do("hipMemsetAsync", address, 0, num_bytes, stream)

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to the device; pageable memory may be read later, so this waits."""
        self._do("hipMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, stream)
        self.synchronize(stream)

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy from the device into a dense array."""
        if array.nbytes:
            self._do("hipMemcpyDtoHAsync", array.ctypes.data, address, array.nbytes, stream)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Start a kernel."""
        pointers = KernelPointers(arguments)
        shape = (grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, pointers.places.ctypes.data)
        if grid.is_cooperative:
            self._do("hipModuleLaunchCooperativeKernel", kernel, *shape)
        else:
            self._do("hipModuleLaunchKernel", kernel, *shape, None)

    def create_stream(self) -> object:
        """Return a new stream, which takes part in the order of the default one."""
        return self._do("hipStreamCreate")

    def stream_of(self, handle: int) -> object:
        """Return the stream with a handle."""
        return self._hip.ihipStream_t.fromObj(handle)

    def stream_handle(self, stream: object) -> int:
        """Return a stream's handle."""
        return int(stream)  # type: ignore[call-overload]

    def order(self, before: object, after: object) -> None:
        """Let later work of a stream wait for what another stream has been given so far."""
        event = self._do("hipEventCreate")
        self._do("hipEventRecord", event, before)
        self._do("hipStreamWaitEvent", after, event, 0)
        self._do("hipEventDestroy", event)  # the runtime keeps it until the wait is done

    def synchronize(self, stream: object) -> None:
        """Wait until a stream is done."""
        self._do("hipStreamSynchronize", stream)

    def begin_capture(self, stream: object) -> None:
        """Record what a stream is given from now on instead of doing it."""
        mode = self._hip.hipStreamCaptureMode.hipStreamCaptureModeThreadLocal
        self._do("hipStreamBeginCapture", stream, mode)

    def end_capture(self, stream: object) -> object:
        """Return what was recorded as an executable graph."""
        graph = self._do("hipStreamEndCapture", stream)
        return self._do("hipGraphInstantiateWithFlags", graph, 0)

    def replay(self, graph: object, stream: object) -> None:
        """Start a graph."""
        self._do("hipGraphLaunch", graph, stream)

    def record_event(self, stream: object) -> object:
        """Return an event of the time at which the stream gets here."""
        event = self._do("hipEventCreate")
        self._do("hipEventRecord", event, stream)
        return event

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the time between two events of streams that are done."""
        return float(self._do("hipEventElapsedTime", begin, end)) / 1e3


def _no_driver(found: str) -> TargetError:
    return TargetError(
        f"running on an AMD GPU: expected its driver and a device, found none ({found}); run on a "
        "machine that has one, or use --emulate"
    )


def _advice(status: str) -> str:
    if status in ("hipErrorNoBinaryForGpu", "hipErrorInvalidImage"):
        return "compile the model for this chip"
    if status == "hipErrorCooperativeLaunchTooLarge":
        return "compile for fewer vEUs (--veus)"
    return "look it up in HIP's runtime interface"
