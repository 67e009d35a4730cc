"""Drives AMD GPUs through the bindings of HIP (``hip-python``)."""

from __future__ import annotations

import importlib
from types import ModuleType

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.runtime.dlpack import ROCM
from rammer_mlir.runtime.gpu.driver import Array, Peaks
from rammer_mlir.runtime.gpu.vendor_driver import Device, Functions, Vendor, VendorDriver

_LANES = 64
"""Number of f32 lanes per compute unit (AMD's CDNA instruction set documents)."""

_OTHER_CHIP = "compile the model for this chip"

_AMD = Vendor(
    name="AMD",
    interface="HIP",
    reference="HIP's runtime interface",
    package="hip-python",
    extra="rocm",
    library="libamdhip64",
    success=("hipError_t", "hipSuccess"),
    out_of_memory="hipErrorOutOfMemory",
    advice={
        "hipErrorNoBinaryForGpu": _OTHER_CHIP,
        "hipErrorInvalidImage": _OTHER_CHIP,
        "hipErrorCooperativeLaunchTooLarge": "compile for fewer vEUs (--veus)",
    },
    null=None,
    device_id=ROCM,
    function_attributes=("hipFunction_attribute", "HIP_FUNC_ATTRIBUTE_"),
    functions=Functions(
        initialize="hipInit",
        count_devices="hipGetDeviceCount",
        load_module="hipModuleLoadData",
        unload_module="hipModuleUnload",
        get_function="hipModuleGetFunction",
        function_attribute="hipFuncGetAttribute",
        occupancy="hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
        allocate="hipMalloc",
        free_memory="hipMemGetInfo",
        free="hipFree",
        clear="hipMemsetAsync",
        upload="hipMemcpyHtoDAsync",
        download="hipMemcpyDtoHAsync",
        launch="hipModuleLaunchKernel",
        launch_cooperative="hipModuleLaunchCooperativeKernel",
        create_stream="hipStreamCreate",
        destroy_stream="hipStreamDestroy",
        create_event="hipEventCreate",
        record_event="hipEventRecord",
        await_event="hipStreamWaitEvent",
        destroy_event="hipEventDestroy",
        elapsed="hipEventElapsedTime",
        synchronize="hipStreamSynchronize",
        begin_capture="hipStreamBeginCapture",
        end_capture="hipStreamEndCapture",
        instantiate="hipGraphInstantiateWithFlags",
        replay="hipGraphLaunch",
        destroy_graph="hipGraphDestroy",
        destroy_executable="hipGraphExecDestroy",
    ),
)


class HipDriver(VendorDriver):
    """An AMD GPU, driven through HIP."""

    vendor = _AMD

    @staticmethod
    def _bindings() -> ModuleType:
        return importlib.import_module("hip").hip

    def _open(self) -> Device:
        properties = self._call("hipGetDeviceProperties", self._number)
        units = int(properties.multiProcessorCount)
        clocks = properties.clockRate, properties.memoryClockRate * properties.memoryBusWidth
        # Two operations per cycle and lane, two transfers per cycle; rates are in kHz.
        self._peaks = Peaks(2e3 * _LANES * units * clocks[0], 2e3 * clocks[1] / 8)
        return Device(
            name=str(properties.name),
            chip=str(properties.gcnArchName).partition(":")[0],
            multiprocessors=units,
            is_cooperative=bool(properties.cooperativeLaunch),
        )

    def peaks(self) -> Peaks:
        """Return the peak rates of the device, computed from its clock rates."""
        return self._peaks

    def _enter(self) -> object:
        """Make the device current for the calling thread; return the number of the previous one."""
        previous = int(self._call("hipGetDevice"))
        if previous != self._number:
            self._call("hipSetDevice", self._number)
        return previous

    def _leave(self, entered: object) -> None:
        """Make the previous device, number ``entered``, current again."""
        if entered != self._number:
            self._call("hipSetDevice", entered)

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return the kernel ``entry`` of a code object.

        Raises:
            TargetError: if ``kind`` is not ``hsaco``, or the driver refuses the code.
        """
        if kind != "hsaco":
            raise TargetError(
                f"{self.name}: expected a code object (hsaco), found {kind}; compile the model "
                f"with --target rocdl:{self.chip}"
            )
        return super().load(code, kind, entry)

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to a device address, and wait until the copy is done.

        HIP may read pageable memory after its copy function has returned, so the caller could
        otherwise overwrite ``array`` too early.
        """
        super().upload(address, array, stream)
        self.synchronize(stream)

    def stream_of(self, handle: int) -> object:
        """Return the bindings' stream object for ``handle``, the address of a native stream.

        ``handle`` may be 1 for the default stream, and 2 for the per-thread default stream.
        """
        # HIP before 6.2 has no handle 1, and its default stream has the handle 0.
        return self._api.ihipStream_t.fromObj(0 if handle == 1 else handle)

    def _capture_mode(self) -> object:
        return self._api.hipStreamCaptureMode.hipStreamCaptureModeThreadLocal
