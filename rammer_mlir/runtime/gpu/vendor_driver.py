"""Drives a GPU through its vendor's Python bindings: the common part of CUDA and HIP.

HIP's API mirrors CUDA's function by function. The drivers therefore differ only in a table of names
and texts for each vendor, and in a few methods of the subclasses.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
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
from rammer_mlir.runtime.gpu.handles import Handle, Kernel, native_of


@dataclass(frozen=True)
class Functions:
    """Names of the functions in a vendor's Python bindings that perform the actions of a driver.

    Each field is named after an action. The functions take the same arguments for all vendors.
    """

    initialize: str
    count_devices: str
    load_module: str
    unload_module: str
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
    destroy_stream: str
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
    destroy_graph: str
    destroy_executable: str


@dataclass(frozen=True)
class Vendor:
    """A vendor's API: the names in its Python bindings, and the words in messages to users.

    Attributes:
        name: the vendor.
        interface: the API's name in its documentation.
        reference: name of the documentation that explains the API's status codes.
        package: the Python package of the bindings.
        extra: this project's extra that installs the package.
        library: the shared library that the bindings load.
        success: status code of a successful call, as (enumeration, member).
        out_of_memory: name of the status code of an allocation that exceeds the device memory.
        advice: advice to the user for a failed call, by the name of its status code.
        null: the value that the bindings take as a null pointer.
        device_id: DLPack's number of the device type.
        function_attributes: (enumeration of a kernel's attributes, prefix of its members' names).
        functions: names of the API's functions.
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


class _Scope(threading.local):
    """Whether the calling thread is within ``VendorDriver.current``."""

    is_entered = False


@dataclass(frozen=True)
class Device:
    """An opened device.

    Attributes:
        name: description of the device, without its index.
        chip: LLVM's name of the processor.
        multiprocessors: number of multiprocessors (compute units).
        is_cooperative: whether the device has cooperative launches (all blocks resident at once).
    """

    name: str
    chip: str
    multiprocessors: int
    is_cooperative: bool


class VendorDriver(ABC):
    """A GPU that is driven through its vendor's Python bindings.

    Every method may be called from any thread. It leaves the thread's current context (CUDA) or
    device (HIP) as it was, since other packages in the process rely on theirs.

    Subclasses define the names in the bindings, and the methods that differ by vendor.
    """

    vendor: ClassVar[Vendor]

    def __init__(self, device: int = 0) -> None:
        """Open a device by its index.

        Raises:
            TargetError: if the bindings are not installed, or there is no driver or device.
        """
        self._api = self._load_bindings()
        self._names = self.vendor.functions
        self._scope = _Scope()
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
        """Import and return the vendor's bindings."""

    @abstractmethod
    def _open(self) -> Device:
        """Prepare the device for calls, and return its description."""

    @abstractmethod
    def peaks(self) -> Peaks:
        """Return the peak rates of the device, computed from its clock rates.

        An f32 lane of a multiprocessor counts as two operations per clock cycle (a fused
        multiply-add), the memory bus as two transfers per clock cycle.
        """

    @abstractmethod
    def _enter(self) -> object:
        """Make the device current for the calling thread; return the argument of ``_leave``."""

    @abstractmethod
    def _leave(self, entered: object) -> None:
        """Restore the thread's previous context or device: ``entered``, from ``_enter``."""

    @abstractmethod
    def stream_of(self, handle: int) -> object:
        """Return the bindings' stream object for ``handle``, the address of a native stream."""

    @abstractmethod
    def _capture_mode(self) -> object:
        """Return the thread-local capture mode for ``begin_capture``.

        In this mode, calls of other threads cannot invalidate the capture.
        """

    def _stream_flags(self) -> tuple[int, ...]:
        """Return the vendor's flags for creating a stream."""
        return ()

    def _event_flags(self, *, timed: bool) -> tuple[int, ...]:
        """Return the vendor's flags for creating an event that records its time if ``timed``."""
        del timed
        return ()

    def _initialize(self) -> None:
        try:
            self._call(self._names.initialize, 0)
            count = int(self._call(self._names.count_devices))
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
        """Call a function as ``_call`` does, while the device is current."""
        if self._scope.is_entered:
            return self._call(function, *arguments)
        entered = self._enter()
        try:
            return self._call(function, *arguments)
        finally:
            self._leave(entered)

    @contextmanager
    def current(self) -> Generator[None]:
        """Keep the device current in the calling thread.

        Each call would otherwise make it current and restore the previous device, which takes
        longer than the call itself. Within this context, the thread must not run code of other
        packages, which may make another device current.
        """
        if self._scope.is_entered:
            yield
            return
        entered = self._enter()
        self._scope.is_entered = True
        try:
            yield
        finally:
            self._scope.is_entered = False
            self._leave(entered)

    def _call(self, function: str, *arguments: object) -> Any:
        """Call the function of the bindings that is named ``function``.

        Returns the function's result, or several results as a tuple, without the status code.

        Raises:
            TargetError: if the call fails.
        """
        status, *results = getattr(self._api, function)(*map(native_of, arguments))
        enumeration, member = self.vendor.success
        if status != getattr(getattr(self._api, enumeration), member):
            advice = self.vendor.advice.get(status.name, f"look it up in {self.vendor.reference}")
            raise TargetError(
                f"{self.vendor.interface}'s {function} failed with {status.name}: {advice}"
            )
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def name(self) -> str:
        """Description of the device for messages."""
        return f"{self._device.name} (device {self._number})"

    @property
    def chip(self) -> str:
        """LLVM's name of the processor, for example ``sm_90`` or ``gfx90a``."""
        return self._device.chip

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's device type and device number."""
        return (self.vendor.device_id, self._number)

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Load code and return its kernel ``entry``; ignore ``kind``.

        The code is unloaded when the kernel is no longer referenced.
        """
        del kind
        module = self._do(self._names.load_module, code)
        try:
            function = self._do(self._names.get_function, module, entry.encode())
        except TargetError:
            self._unload(module, ())
            raise
        return Kernel(function, self._unload, module)

    def _unload(self, module: object, streams: Iterable[Handle]) -> None:
        """Unload a module after the work of the streams on which its kernels were launched."""
        for stream in streams:
            self.synchronize(stream)
        self._do(self._names.unload_module, module)

    def _function_attribute(self, kernel: object, name: str) -> int:
        enumeration, prefix = self.vendor.function_attributes
        attribute = getattr(getattr(self._api, enumeration), f"{prefix}{name}")
        return int(self._do(self._names.function_attribute, attribute, kernel))

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return the registers and shared memory that a block of ``threads`` threads needs."""
        registers = self._function_attribute(kernel, "NUM_REGS")
        shared = self._function_attribute(kernel, "SHARED_SIZE_BYTES")
        return BlockNeeds(threads, registers, shared)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks of the kernel can be resident on the device at once.

        A block has ``threads`` threads. The result is 0 if the device has no cooperative launches.
        """
        if not self._device.is_cooperative:
            return 0
        each = self._do(self._names.occupancy, kernel, threads, 0)
        return int(each) * self._device.multiprocessors

    def allocate(self, num_bytes: int) -> int:
        """Return the address of ``num_bytes`` of new device memory.

        Raises:
            TargetError: if the device has too little free memory.
        """
        try:
            return int(self._do(self._names.allocate, num_bytes))
        except TargetError as error:
            if self.vendor.out_of_memory not in str(error):
                raise
            free, _ = self._do(self._names.free_memory)
            raise out_of_memory(self.name, num_bytes, int(free)) from error

    def free(self, address: int) -> None:
        """Free the device memory at an address."""
        self._do(self._names.free, address)

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Enqueue an operation on a stream that zeroes ``num_bytes`` bytes at a device address."""
        self._do(self._names.clear, address, 0, num_bytes, stream)

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Enqueue a copy of a dense array to a device address on a stream."""
        self._do(self._names.upload, address, array.ctypes.data, array.nbytes, stream)

    def download(self, array: Array, address: int, stream: object) -> None:
        """Enqueue a copy from a device address into a dense array on a stream."""
        if array.nbytes:
            self._do(self._names.download, array.ctypes.data, address, array.nbytes, stream)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Enqueue the launch of a kernel on a stream."""
        if isinstance(kernel, Kernel) and isinstance(stream, Handle):
            kernel.streams.add(stream)
        pointers = KernelPointers(arguments)
        shape = (grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, pointers.places.ctypes.data)
        if grid.is_cooperative:
            self._do(self._names.launch_cooperative, kernel, *shape)
        else:
            self._do(self._names.launch, kernel, *shape, self.vendor.null)

    def create_stream(self) -> object:
        """Return a new stream that synchronizes with the default stream.

        The stream is destroyed when it is no longer referenced.
        """
        stream = self._do(self._names.create_stream, *self._stream_flags())
        # The driver frees the stream's resources once its queued work is done.
        return Handle(stream, self._do, self._names.destroy_stream, stream)

    def stream_handle(self, stream: object) -> int:
        """Return the native handle of a stream."""
        return int(native_of(stream))  # type: ignore[call-overload]

    def order(self, before: object, after: object) -> None:
        """Make later work of stream ``after`` wait for the work queued on ``before``."""
        with self.current():
            event = self._do(self._names.create_event, *self._event_flags(timed=False))
            self._do(self._names.record_event, event, before)
            self._do(self._names.await_event, after, event, 0)
            # The driver defers this until the wait is done.
            self._do(self._names.destroy_event, event)

    def synchronize(self, stream: object) -> None:
        """Wait until all work of a stream is done."""
        self._do(self._names.synchronize, stream)

    def record_event(self, stream: object) -> object:
        """Return an event that completes after the work queued on the stream."""
        event = self._do(self._names.create_event, *self._event_flags(timed=True))
        self._do(self._names.record_event, event, stream)
        return event

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the device time in seconds between two completed events, and destroy both."""
        milliseconds = float(self._do(self._names.elapsed, begin, end))
        for event in (begin, end):
            self._do(self._names.destroy_event, event)
        return milliseconds * 1e-3

    def begin_capture(self, stream: object) -> None:
        """Start capturing the work of a stream instead of executing it."""
        self._do(self._names.begin_capture, stream, self._capture_mode())

    def end_capture(self, stream: object) -> object:
        """End the capture of a stream's work; return the captured work as an executable graph."""
        graph = self._do(self._names.end_capture, stream)
        try:
            return self._do(self._names.instantiate, graph, 0)
        finally:
            self._do(self._names.destroy_graph, graph)

    def replay(self, graph: object, stream: object) -> None:
        """Launch a graph of captured work on a stream."""
        self._do(self._names.replay, graph, stream)

    def forget(self, graph: object) -> None:
        """Free a graph of captured work, whose launches may still be in progress."""
        self._do(self._names.destroy_executable, graph)
