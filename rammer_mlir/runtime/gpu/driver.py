"""Defines the interface of GPU drivers; CUDA, HIP and the emulator implement it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds

Array = NDArray[np.generic]

Use = Literal["read", "written", "kept"]
"""Use of a kernel argument: only read; undefined before the launch; or kept between launches."""


@dataclass(frozen=True)
class Argument:
    """A buffer argument of a launch.

    Attributes:
        address: the device address.
        num_bytes: the size of the buffer.
        name: the name in messages.
        use: ``read`` if the kernel only reads the buffer, ``written`` if the buffer's content is
            undefined before the launch, ``kept`` if the launch needs the content that earlier
            launches or the host wrote, and may change it.
    """

    address: int
    num_bytes: int
    name: str
    use: Use


class KernelPointers:
    """The array that the launch functions of CUDA and HIP take: a pointer to each argument's value.

    The value of an argument is the device address of a buffer.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        """Store the arguments' values and the array of pointers to them.

        The object must stay alive until the launch function returns, which reads the values.
        """
        self._values = np.array([argument.address for argument in arguments], np.uint64)
        steps = 8 * np.arange(len(arguments), dtype=np.uint64)
        self.places = np.uint64(self._values.ctypes.data) + steps


@dataclass(frozen=True)
class Launch:
    """A grid of ``blocks`` blocks with ``threads`` threads each.

    All blocks must be resident at once if ``is_cooperative``.
    """

    blocks: int
    threads: int
    is_cooperative: bool


@dataclass(frozen=True)
class Peaks:
    """Peak rates of a device, computed from its clock rates.

    Attributes:
        operations: scalar f32 operations per second.
        bandwidth: bytes per second that the device's memory transfers.
    """

    operations: float
    bandwidth: float


class Driver(Protocol):
    """The interface of an opened GPU.

    Streams, events, graphs and kernels are opaque handles of the driver. Work on a stream is
    asynchronous. Every method raises ``TargetError`` if the driver reports an error, and leaves the
    current device and context of the calling thread unchanged.
    """

    @property
    def name(self) -> str:
        """Description of the device for messages."""
        ...

    @property
    def chip(self) -> str:
        """LLVM's name of the processor, for example ``sm_90`` or ``gfx90a``."""
        ...

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's device type and device number."""
        ...

    def peaks(self) -> Peaks | None:
        """Return the peak rates of the device; None if unknown."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """Keep the device current in the calling thread, which makes successive calls faster.

        The thread must not run code of other packages meanwhile.
        """
        ...

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Load code of a kind (``cubin``, ``ptx``, ``hsaco``) and return its kernel ``entry``.

        The code is unloaded when the kernel is no longer referenced.
        """
        ...

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return the registers and shared memory that a block of ``threads`` threads needs."""
        ...

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks of the kernel can be resident on the device at once.

        A block has ``threads`` threads. The result is 0 if the device has no cooperative launches.
        """
        ...

    def allocate(self, num_bytes: int) -> int:
        """Return the address of ``num_bytes`` of new device memory, aligned for every access."""
        ...

    def free(self, address: int) -> None:
        """Free the device memory at ``address``, which ``allocate`` returned."""
        ...

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Enqueue an operation on a stream that zeroes ``num_bytes`` bytes at a device address."""
        ...

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to a device address.

        The caller may overwrite ``array`` as soon as the method returns.
        """
        ...

    def download(self, array: Array, address: int, stream: object) -> None:
        """Enqueue a copy from a device address into a dense array.

        The array has the data after ``synchronize(stream)``.
        """
        ...

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Enqueue the launch of a kernel on a stream."""
        ...

    def create_stream(self) -> object:
        """Return a new stream that synchronizes with the default stream.

        The stream is destroyed when it is no longer referenced.
        """
        ...

    def stream_of(self, handle: int) -> object:
        """Return the driver's stream object for ``handle``, a native stream of another package.

        ``handle`` may be 1 for the legacy default stream, and 2 for the per-thread default stream.
        """
        ...

    def stream_handle(self, stream: object) -> int:
        """Return the native handle of a stream."""
        ...

    def order(self, before: object, after: object) -> None:
        """Make later work of stream ``after`` wait for the work queued on ``before``."""
        ...

    def synchronize(self, stream: object) -> None:
        """Wait until all work of a stream is done."""
        ...

    def record_event(self, stream: object) -> object:
        """Return an event that completes after the work queued on the stream."""
        ...

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the seconds of device time between two completed events.

        The driver may destroy both events, so that they must not be used again.
        """
        ...

    def begin_capture(self, stream: object) -> None:
        """Start capturing the work of a stream instead of executing it."""
        ...

    def end_capture(self, stream: object) -> object:
        """End the capture of a stream's work, and return the captured work as a graph."""
        ...

    def replay(self, graph: object, stream: object) -> None:
        """Launch a graph of captured work on a stream."""
        ...

    def forget(self, graph: object) -> None:
        """Free a graph of captured work, whose launches may still be in progress."""
        ...


def out_of_memory(device: str, num_bytes: int, free: int | None = None) -> TargetError:
    """Return the exception for a failed allocation of ``num_bytes`` bytes on ``device``.

    ``free`` is the number of free bytes of device memory, None if unknown.
    """
    found = "less" if free is None else f"{free:,} free"
    return TargetError(
        f"{device}: expected {num_bytes:,} bytes of device memory, found {found}; end what else "
        "uses the device, or compile a smaller batch"
    )
