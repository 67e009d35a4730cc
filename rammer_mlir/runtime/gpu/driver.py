"""What running a program needs of a GPU's driver; CUDA, HIP and the emulator implement it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds

Array = NDArray[np.generic]

Use = Literal["read", "written", "kept"]
"""Of a kernel's argument: it is only read; its content is undefined before the launch; or its
content goes on from launch to launch."""


@dataclass(frozen=True)
class Argument:
    """A buffer as a launch takes it: device address, size, what errors call it, and its use."""

    address: int
    num_bytes: int
    name: str
    use: Use


class KernelPointers:
    """A kernel's arguments as drivers take them: an array of the arguments' own addresses."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        """Lay out one pointer for each argument; the launch has read them when it returns."""
        self._values = np.array([argument.address for argument in arguments], np.uint64)
        steps = 8 * np.arange(len(arguments), dtype=np.uint64)
        self.places = np.uint64(self._values.ctypes.data) + steps


@dataclass(frozen=True)
class Launch:
    """A grid: blocks, threads of each, and whether all blocks have to be resident at once."""

    blocks: int
    threads: int
    is_cooperative: bool


@dataclass(frozen=True)
class Peaks:
    """What a device could do at most, by its clocks: scalar f32 operations and bytes a second."""

    operations: float
    bandwidth: float


class Driver(Protocol):
    """One device. Streams, events, graphs and kernels are handles that only the driver reads.

    Work on a stream is asynchronous. Every method raises ``TargetError`` when the driver refuses.
    """

    @property
    def name(self) -> str:
        """The device in words."""
        ...

    @property
    def chip(self) -> str:
        """LLVM's name of the processor."""
        ...

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        ...

    def peaks(self) -> Peaks | None:
        """Return what the device could do at most; None where that is unknown."""
        ...

    def activate(self) -> None:
        """Let the calling thread use the device."""
        ...

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return a kernel."""
        ...

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return what a block of the kernel takes."""
        ...

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks can be resident on the whole device; 0 without such launches."""
        ...

    def allocate(self, num_bytes: int) -> int:
        """Return the address of new memory, aligned for every access."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Zero memory."""
        ...

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Copy a dense array to the device; it may change as soon as this returns."""
        ...

    def download(self, array: Array, address: int, stream: object) -> None:
        """Copy from the device into a dense array; it is there once the stream is done."""
        ...

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Start a kernel."""
        ...

    def create_stream(self) -> object:
        """Return a new stream, which takes part in the order of the default one."""
        ...

    def stream_of(self, handle: int) -> object:
        """Return the stream with a handle of the driver's interface, as other packages give it."""
        ...

    def stream_handle(self, stream: object) -> int:
        """Return a stream's handle in the driver's interface."""
        ...

    def order(self, before: object, after: object) -> None:
        """Let later work of a stream wait for what another stream has been given so far."""
        ...

    def synchronize(self, stream: object) -> None:
        """Wait until a stream is done."""
        ...

    def record_event(self, stream: object) -> object:
        """Return an event that is reached when the stream has done what it was given so far."""
        ...

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the device's time between two events that are reached."""
        ...

    def begin_capture(self, stream: object) -> None:
        """Record what a stream is given from now on instead of doing it."""
        ...

    def end_capture(self, stream: object) -> object:
        """Return what was recorded as a graph."""
        ...

    def replay(self, graph: object, stream: object) -> None:
        """Start a graph."""
        ...


def out_of_memory(device: str, num_bytes: int, free: int | None = None) -> TargetError:
    """Return the error of an allocation that failed."""
    found = "less" if free is None else f"{free:,} free"
    return TargetError(
        f"{device}: expected {num_bytes:,} bytes of device memory, found {found}; end what else "
        "uses the device, or compile a smaller batch"
    )
