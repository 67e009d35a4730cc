"""Implements the interface of a GPU driver by emulation on the CPU."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.emulation.device.traces import Trace
from rammer_mlir.emulation.records import EmulatedKernel
from rammer_mlir.errors import TargetError
from rammer_mlir.programs.gpu_image import GpuCodeKind
from rammer_mlir.programs.residency import BlockNeeds, Multiprocessors, resident_blocks
from rammer_mlir.runtime.dlpack import CPU
from rammer_mlir.runtime.gpu.driver import Argument, Array, Launch, out_of_memory
from rammer_mlir.support.aligned import aligned_bytes

Work = Callable[[], None]


class EmulatedDriver:
    """An emulated GPU with the interface of a driver.

    Device memory is CPU memory. A program's GPU code serves only as the key of a kernel; the
    kernel's native code for the CPU runs instead. Work that is queued on a stream is executed
    before the call returns, so no stream ever waits for another. Work that is queued on a captured
    stream is only collected; ``replay`` executes it later.
    """

    def __init__(
        self,
        chip: str,
        kernels: Mapping[bytes, EmulatedKernel],
        *,
        subgroup: int = 32,
        memory_bytes: int | None = None,
        resources: Multiprocessors | None = None,
        registers: int = 0,
    ) -> None:
        """Create a driver without allocations.

        Args:
            chip: LLVM's name of the emulated GPU, such as ``sm_80``.
            kernels: the kernels as native code, by the GPU code that a program contains.
            subgroup: the count of lanes of a subgroup (warp).
            memory_bytes: the size of the device memory in bytes, unlimited if None.
            resources: the device's multiprocessors, which limit resident blocks; no limit if None.
            registers: the count of registers of each lane, which limits resident blocks.
        """
        self._chip, self.kernels, self._subgroup = chip, dict(kernels), subgroup
        self._left = memory_bytes
        self._resources, self._registers = resources, registers
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self._streams = 0
        self._captured: dict[object, list[Work]] = {}
        self.uploaded_bytes = 0
        self.launches = 0
        self.traces: list[Trace] = []

    @property
    def name(self) -> str:
        """The device's name in messages."""
        return f"emulated {self._chip}"

    @property
    def chip(self) -> str:
        """LLVM's name of the emulated GPU."""
        return self._chip

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """The type and index of the DLPack device on which arrays are: the CPU."""
        return (CPU, 0)

    def peaks(self) -> None:
        """Return None instead of peak rates: the emulator's speed does not predict a GPU's."""

    @property
    def used_bytes(self) -> int:
        """The count of bytes of memory that are currently allocated."""
        return sum(array.nbytes for array in self._memory.values())

    def current(self) -> nullcontext[None]:
        """Return a context without effect: every thread may use the emulator."""
        return nullcontext()

    def load(self, code: bytes, kind: GpuCodeKind, entry: str) -> object:
        """Return the native kernel that runs in place of the GPU code ``code``.

        Raises:
            TargetError: if the driver has no kernel for ``code``; the message names the code's
                ``kind`` and the function ``entry``.
        """
        if code not in self.kernels:
            raise TargetError(
                f"{self.name}: expected code that it was told of, found other {kind} of '{entry}'; "
                "compile the model with emulation"
            )
        return self.kernels[code]

    def _kernel(self, kernel: object) -> EmulatedKernel:
        assert isinstance(kernel, EmulatedKernel)
        return kernel

    def needs(self, kernel: object, threads: int) -> BlockNeeds:
        """Return the registers and shared memory of a kernel's block with ``threads`` lanes."""
        shared = sum(buffer.num_bytes for buffer in self._kernel(kernel).shared)
        return BlockNeeds(threads, self._registers, shared)

    def resident_blocks(self, kernel: object, threads: int) -> int:
        """Return how many blocks of ``threads`` lanes can be resident on the whole device.

        Without the ``resources`` of the device, the result is a count that no grid reaches.
        """
        if self._resources is None:
            # A number of blocks that no grid reaches.
            return 1 << 30
        return resident_blocks(self._resources, self.needs(kernel, threads))

    def allocate(self, num_bytes: int) -> int:
        """Allocate host memory and return its address.

        Each byte is initially 0xCD, to make reads of unwritten memory noticeable.
        """
        if self._left is not None and num_bytes > self._left - self.used_bytes:
            raise out_of_memory(self.name, num_bytes, self._left - self.used_bytes)
        array = aligned_bytes(num_bytes)
        array[:] = 0xCD
        self._memory[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, address: int) -> None:
        """Release the memory that was allocated at ``address``."""
        del self._memory[address]

    def clear(self, address: int, num_bytes: int, stream: object) -> None:
        """Queue on ``stream``: fill ``num_bytes`` bytes at device address ``address`` with 0."""
        self._do(stream, lambda: _at(address, num_bytes).fill(0))

    def upload(self, address: int, array: Array, stream: object) -> None:
        """Queue on ``stream``: copy ``array`` to the device address ``address``."""
        content = np.frombuffer(array.tobytes(), np.uint8)
        self.uploaded_bytes += content.size

        def copy() -> None:
            _at(address, content.size)[:] = content

        self._do(stream, copy)

    def download(self, array: Array, address: int, stream: object) -> None:
        """Queue on ``stream``: copy data from the device address ``address`` into ``array``.

        The count of bytes is ``array.nbytes``.
        """

        def copy() -> None:
            found = _at(address, array.nbytes)
            array[...] = np.frombuffer(found.tobytes(), array.dtype).reshape(array.shape)

        if array.nbytes:
            self._do(stream, copy)

    def launch(
        self, kernel: object, grid: Launch, arguments: Sequence[Argument], stream: object
    ) -> None:
        """Run a kernel to its end, or add the launch to the capture if the stream is captured."""
        code = self._kernel(kernel)
        buffers = [_at(argument.address, argument.num_bytes) for argument in arguments]
        for buffer, argument in zip(buffers, arguments, strict=True):
            # The emulator copies only writable buffers back.
            buffer.flags.writeable = argument.use != "read"
        unwritten = [n for n, argument in enumerate(arguments) if argument.use == "written"]
        names = [argument.name for argument in arguments]
        shape = Grid(grid.blocks, grid.threads, self._subgroup)

        def run() -> None:
            self.launches += 1
            trace = launch(code, buffers, shape, names=names, unwritten=unwritten)
            if trace is not None:
                self.traces.append(trace)

        self._do(stream, run)

    def _do(self, stream: object, work: Work) -> None:
        if stream in self._captured:
            self._captured[stream].append(work)
        else:
            work()

    def create_stream(self) -> object:
        """Create a stream and return its number."""
        self._streams += 1
        return self._streams

    def stream_of(self, handle: int) -> object:
        """Return the stream with the handle ``handle``; stream and handle are the same number."""
        return handle

    def stream_handle(self, stream: object) -> int:
        """Return the handle of a stream; stream and handle are the same number."""
        assert isinstance(stream, int)
        return stream

    def order(self, before: object, after: object) -> None:
        """Make the stream ``after`` wait for the stream ``before``, which needs no action here.

        Work of a stream that is not captured is complete when the call that queues it returns.

        Raises:
            TargetError: if exactly one of the two streams is captured.
        """
        if (before in self._captured) != (after in self._captured):
            raise TargetError(f"{self.name}: a captured stream cannot wait for one that is not")

    def synchronize(self, stream: object) -> None:
        """Do nothing, because work of a stream is complete when the call that queues it returns.

        Raises:
            TargetError: if the stream is captured.
        """
        if stream in self._captured:
            raise TargetError(f"{self.name}: expected a stream that works, found a captured one")

    def record_event(self, stream: object) -> object:
        """Return an event: the host's time in seconds, because streams execute work immediately."""
        del stream
        return time.perf_counter()

    def seconds_between(self, begin: object, end: object) -> float:
        """Return the seconds of host time between two events; they do not predict a GPU's time."""
        assert isinstance(begin, float) and isinstance(end, float)
        return end - begin

    def begin_capture(self, stream: object) -> None:
        """Start capturing a stream: collect the work queued on it, and do not execute the work."""
        self._captured[stream] = []

    def end_capture(self, stream: object) -> object:
        """Stop capturing a stream, and return the captured work as a graph for ``replay``."""
        return self._captured.pop(stream)

    def replay(self, graph: object, stream: object) -> None:
        """Queue the work of ``graph``, a result of ``end_capture``, on a stream."""
        assert isinstance(graph, list)
        for work in graph:
            self._do(stream, work)

    def forget(self, graph: object) -> None:
        """Do nothing: a graph is a list of Python objects."""


def _at(address: int, num_bytes: int) -> NDArray[np.uint8]:
    """Return ``num_bytes`` bytes of CPU memory at ``address`` as an array, without a copy."""
    if not num_bytes:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * num_bytes).from_address(address))
