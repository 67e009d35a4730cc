"""Drives NVIDIA GPUs through the bindings of CUDA's driver API (``cuda-bindings``)."""

from __future__ import annotations

import importlib
from types import ModuleType

from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.runtime.dlpack import CUDA
from rammer_mlir.runtime.gpu.driver import Peaks
from rammer_mlir.runtime.gpu.vendor_driver import Device, Functions, Vendor, VendorDriver

_LANES, _MOST_LANES = {"sm_70": 64, "sm_72": 64, "sm_75": 64, "sm_80": 64}, 128
"""Number of f32 lanes of a multiprocessor: by chip, and for all other chips.

The numbers are from the CUDA programming guide, arithmetic instructions.
"""

_OLD_DRIVER = "install ptxas when compiling, or a newer driver"

_NVIDIA = Vendor(
    name="NVIDIA",
    interface="CUDA",
    reference="CUDA's driver interface",
    package="cuda-bindings",
    extra="cuda",
    library="libcuda",
    success=("CUresult", "CUDA_SUCCESS"),
    out_of_memory="CUDA_ERROR_OUT_OF_MEMORY",
    advice={
        "CUDA_ERROR_INVALID_PTX": _OLD_DRIVER,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": _OLD_DRIVER,
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "compile for fewer vEUs (--veus)",
    },
    null=0,
    device_id=CUDA,
    function_attributes=("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_"),
    functions=Functions(
        initialize="cuInit",
        count_devices="cuDeviceGetCount",
        load_module="cuModuleLoadData",
        unload_module="cuModuleUnload",
        get_function="cuModuleGetFunction",
        function_attribute="cuFuncGetAttribute",
        occupancy="cuOccupancyMaxActiveBlocksPerMultiprocessor",
        allocate="cuMemAlloc",
        free_memory="cuMemGetInfo",
        free="cuMemFree",
        clear="cuMemsetD8Async",
        upload="cuMemcpyHtoDAsync",
        download="cuMemcpyDtoHAsync",
        launch="cuLaunchKernel",
        launch_cooperative="cuLaunchCooperativeKernel",
        create_stream="cuStreamCreate",
        destroy_stream="cuStreamDestroy",
        create_event="cuEventCreate",
        record_event="cuEventRecord",
        await_event="cuStreamWaitEvent",
        destroy_event="cuEventDestroy",
        elapsed="cuEventElapsedTime",
        synchronize="cuStreamSynchronize",
        begin_capture="cuStreamBeginCapture",
        end_capture="cuStreamEndCapture",
        instantiate="cuGraphInstantiate",
        replay="cuGraphLaunch",
        destroy_graph="cuGraphDestroy",
        destroy_executable="cuGraphExecDestroy",
    ),
)


class CudaDriver(VendorDriver):
    """An NVIDIA GPU, used in the primary context that all packages in the process share.

    ``upload`` from pageable memory returns once the driver has copied the array to a staging
    buffer, so the caller may overwrite the array as soon as ``upload`` returns.
    """

    vendor = _NVIDIA

    @staticmethod
    def _bindings() -> ModuleType:
        return importlib.import_module("cuda.bindings.driver")

    def _open(self) -> Device:
        self._handle = self._call("cuDeviceGet", self._number)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._handle)
        name = bytes(self._call("cuDeviceGetName", 256, self._handle))
        major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        return Device(
            name=name.split(bytes(1))[0].decode(),
            chip=f"sm_{major}{minor}",
            multiprocessors=self.attribute("MULTIPROCESSOR_COUNT"),
            is_cooperative=bool(self.attribute("COOPERATIVE_LAUNCH")),
        )

    def attribute(self, name: str) -> int:
        """Return the value of the device attribute ``CU_DEVICE_ATTRIBUTE_{name}``."""
        attribute = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, self._handle))

    @property
    def version(self) -> str:
        """The newest CUDA version that the driver supports, for example ``13.0``."""
        number = int(self._call("cuDriverGetVersion"))
        return f"{number // 1000}.{number % 1000 // 10}"

    def peaks(self) -> Peaks:
        """Return the peak rates of the device, computed from its clock rates.

        An f32 lane of a multiprocessor counts as two operations per clock cycle (a fused
        multiply-add), the memory bus as two transfers per clock cycle.
        """
        lanes = _LANES.get(self.chip, _MOST_LANES) * self._device.multiprocessors
        memory = self.attribute("MEMORY_CLOCK_RATE") * self.attribute("GLOBAL_MEMORY_BUS_WIDTH")
        return Peaks(2e3 * lanes * self.attribute("CLOCK_RATE"), 2e3 * memory / 8)

    def _enter(self) -> object:
        """Push the device's primary context on the calling thread's stack of contexts."""
        return self._call("cuCtxPushCurrent", self._context)

    def _leave(self, entered: object) -> None:
        """Pop the context that ``_enter`` pushed."""
        self._call("cuCtxPopCurrent")

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Load code and return its kernel ``entry``.

        A zero byte is appended to PTX, which has to end with one.
        """
        return super().load(code + b"\0" if kind == "ptx" else code, kind, entry)

    def stream_of(self, handle: int) -> object:
        """Return the bindings' stream object for ``handle``, the address of a native stream.

        CUDA accepts 1 for the legacy default stream, and 2 for the per-thread default stream.
        """
        return self._api.CUstream(handle)

    def _stream_flags(self) -> tuple[int, ...]:
        return (int(self._api.CUstream_flags.CU_STREAM_DEFAULT),)

    def _event_flags(self, *, timed: bool) -> tuple[int, ...]:
        flags = self._api.CUevent_flags
        return (int(flags.CU_EVENT_DEFAULT if timed else flags.CU_EVENT_DISABLE_TIMING),)

    def _capture_mode(self) -> object:
        return self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
