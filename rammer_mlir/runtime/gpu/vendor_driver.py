"""A GPU through its vendor's Python bindings: everything that CUDA and HIP have in common.

HIP's interface follows CUDA's function by function. What differs is a table of names and texts for
each vendor, and a few methods that the subclasses define.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds
from rammer_mlir.runtime.gpu.driver import (
    Argument,
    Array,
    KernelPointers,
    Launch,
    Peaks,
    out_of_memory,
)


@dataclass(frozen=True)
class Functions:
    """Names of the bindings' functions that all vendors call with the same arguments."""

    initialize: str
    count_devices: str
    load_module: str
    get_function: str
    function_attribute: str
    occupancy: str
    allocate: str
    free_memory: str
    free: str
    clear: str
    upload: str
    download: str
    launch: str
    launch_cooperative: str
    create_stream: str
    create_event: str
    record_event: str
    await_event: str
    destroy_event: str
    elapsed: str
    synchronize: str
    begin_capture: str
    end_capture: str
    instantiate: str
    replay: str


@dataclass(frozen=True)
class Vendor:
    """A vendor's interface: the names in its bindings, and its words in messages.

    Attributes:
        name: the vendor.
        interface: the interface, as its own documentation calls it.
        reference: the documentation that explains a status.
        package: the Python package of the bindings.
        extra: this project's extra that installs the package.
        library: the shared library that the bindings load.
        success: status of a call that succeeded, as enumeration and member.
        out_of_memory: name of the status of an allocation that the device has no memory for.
        advice: what to do about a status, by its name.
        null: a null pointer, as the bindings take it.
        device_id: DLPack's number of the device type.
        function_attributes: enumeration of a kernel's attributes, and its members' prefix.
        functions: names of the functions.
    """

    name: str
    interface: str
    reference: str
    package: str
    extra: str
    library: str
    success: tuple[str, str]
    out_of_memory: str
    advice: Mapping[str, str]
    null: int | None
    device_id: int
    function_attributes: tuple[str, str]
    functions: Functions


@dataclass(frozen=True)
class Device:
    """A device that a driver has opened.

    Attributes:
        name: the device in words, without its number.
        chip: LLVM's name of the processor.
        multiprocessors: how many it has (compute units).
        is_cooperative: whether it launches kernels whose blocks are all resident at once.
    """

    name: str
    chip: str
    multiprocessors: int
    is_cooperative: bool


class VendorDriver(ABC):
    """One GPU of a vendor; subclasses say which names its bindings have, and where they differ."""

    vendor: ClassVar[Vendor]

    def __init__(self, device: int = 0) -> None:
        """Open a device by its number.

        Raises:
            TargetError: if the bindings are not installed, or there is no driver or device.
        """
        self._api = self._load_bindings()
        self._names = self.vendor.functions
        self._number = device
        self._initialize()
        self._device = self._open()

    def _load_bindings(self) -> ModuleType:
        try:
            return self._bindings()
        except ImportError as error:
            raise TargetError(
                f"running on an {self.vendor.name} GPU: expected the Python package "
                f"'{self.vendor.package}', found none; install it with "
                f"'pip install rammer-mlir[{self.vendor.extra}]'"
            ) from error

    @staticmethod
    @abstractmethod
    def _bindings() -> ModuleType:
        """Import the bindings."""

    @abstractmethod
    def _open(self) -> Device:
        """Activate the device, and describe it."""

    @abstractmethod
    def peaks(self) -> Peaks:
        """Return what the clocks allow: two operations a cycle and lane, two transfers a cycle."""

    @abstractmethod
    def activate(self) -> None:
        """Let the calling thread use the device."""

    @abstractmethod
    def stream_of(self, handle: int) -> object:
        """Return the stream with a handle."""

    @abstractmethod
    def _capture_mode(self) -> object:
        """Return the mode in which only the calling thread's unsafe calls end a capture."""

    def _stream_flags(self) -> tuple[int, ...]:
        """Return the arguments of a new stream."""
        return ()

    def _event_flags(self, *, timed: bool) -> tuple[int, ...]:
        """Return the arguments of a new event."""
        del timed
        return ()

    def _initialize(self) -> None:
        try:
            self._do(self._names.initialize, 0)
            count = int(self._do(self._names.count_devices))
        except RuntimeError as error:  # the bindings did not find the library
            raise self._no_driver(f"no {self.vendor.library}") from error
        except TargetError as error:
            raise self._no_driver(str(error)) from error
        if self._number >= count:
            raise TargetError(
                f"device {self._number}: expected a number below {count}, which is how many "
                f"{self.vendor.name} GPUs there are; choose another"
            )

    def _no_driver(self, found: str) -> TargetError:
        return TargetError(
            f"running on an {self.vendor.name} GPU: expected its driver and a device, found none "
            f"({found}); run on a machine that has one, or use --emulate"
        )

    def _do(self, function: str, *arguments: object) -> Any:
        """Call a function of the bindings; return its result, or several as a tuple.

        Raises:
            TargetError: if it fails.
        """
        status, *results = getattr(self._api, function)(*arguments)
        enumeration, member = self.vendor.success
        if status != getattr(getattr(self._api, enumeration), member):
            advice = self.vendor.advice.get(status.name, f"look it up in {self.vendor.reference}")
            raise TargetError(
                f"{self.vendor.interface}'s {function} failed with {status.name}: {advice}"
            )
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def name(self) -> str:
        """The device in words."""
        return f"{self._device.name} (device {self._number})"

    @property
    def chip(self) -> str:
        """LLVM's name of the processor."""
        return self._device.chip

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        return (self.vendor.device_id, self._number)

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return a kernel."""
        del kind
        module = self._do(self._names.load_module, code)
        return self._do(self._names.get_function, module, entry.encode())

    def _function_attribute(self, kernel: object, name: str) -> int:
        enumeration, prefix = self.vendor.function_attributes
        attribute = getattr(getattr(self._api, enumeration), f"{prefix}{name}")
        return int(self._do(self._names.function_attribute, attribute, kernel))

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return what a block of the kernel takes."""
        registers = self._function_attribute(kernel, "NUM_REGS")
        shared = self._function_attribute(kernel, "SHARED_SIZE_BYTES")
        return BlockNeeds(threads, registers, shared)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks can be resident on the whole device."""
        if not self._device.is_cooperative:
            return 0
        each = self._do(self._names.occupancy, kernel, threads, 0)
        return int(each) * self._device.multiprocessors

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory."""
        try:
            return int(self._do(self._names.allocate, num_bytes))
        except TargetError as error:
            if self.vendor.out_of_memory not in str(error):
                raise
            free, _ = self._do(self._names.free_memory)
            raise out_of_memory(self.name, num_bytes, int(free)) from error

    def free(self, address: int) -> None:
        """Give memory back."""
        self._do(self._names.free, address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Zero memory."""
        self._do(self._names.clear, address, 0, num_bytes, stream)

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to the device."""
        self._do(self._names.upload, address, array.ctypes.data, array.nbytes, stream)

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy from the device into a dense array."""
        if array.nbytes:
            self._do(self._names.download, array.ctypes.data, address, array.nbytes, stream)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Start a kernel."""
        pointers = KernelPointers(arguments)
        shape = (grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, pointers.places.ctypes.data)
        if grid.is_cooperative:
            self._do(self._names.launch_cooperative, kernel, *shape)
        else:
            self._do(self._names.launch, kernel, *shape, self.vendor.null)

    def create_stream(self) -> object:
        """Return a new stream, which takes part in the order of the default one."""
        return self._do(self._names.create_stream, *self._stream_flags())

    def stream_handle(self, stream: object) -> int:
        """Return a stream's handle."""
        return int(stream)  # type: ignore[call-overload]

    def order(self, before: object, after: object) -> None:
        """Let later work of a stream wait for what another stream has been given so far."""
        event = self._do(self._names.create_event, *self._event_flags(timed=False))
        self._do(self._names.record_event, event, before)
        self._do(self._names.await_event, after, event, 0)
        self._do(self._names.destroy_event, event)  # the driver keeps it until the wait is done

    def synchronize(self, stream: object) -> None:
        """Wait until a stream is done."""
        self._do(self._names.synchronize, stream)

    def record_event(self, stream: object) -> object:
        """Return an event that is reached when the stream has done what it was given so far."""
        event = self._do(self._names.create_event, *self._event_flags(timed=True))
        self._do(self._names.record_event, event, stream)
        return event

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the device's time between two events that are reached, and destroy both."""
        milliseconds = float(self._do(self._names.elapsed, begin, end))
        for event in (begin, end):
            self._do(self._names.destroy_event, event)
        return milliseconds * 1e-3

    def begin_capture(self, stream: object) -> None:
        """Record what a stream is given from now on instead of doing it."""
        self._do(self._names.begin_capture, stream, self._capture_mode())

    def end_capture(self, stream: object) -> object:
        """Return what was recorded as an executable graph."""
        graph = self._do(self._names.end_capture, stream)
        return self._do(self._names.instantiate, graph, 0)

    def replay(self, graph: object, stream: object) -> None:
        """Start a graph."""
        self._do(self._names.replay, graph, stream)
