"""Executes emulated GPU kernels: lays out device memory, launches kernels, and reports faults."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.emulation.device.faults import describe
from rammer_mlir.emulation.device.traces import Trace
from rammer_mlir.emulation.records import (
    COPY_QUEUE,
    GRANULE_BYTES,
    MAX_BLOCKS,
    MAX_THREADS,
    STACK_GUARD,
    AtomicCell,
    Block,
    Buffer,
    Cell,
    EmulatedKernel,
    Fault,
    Lane,
    PendingCopy,
    TraceRecord,
    World,
)
from rammer_mlir.errors import EmulationError, InputError, OptionError

Array = NDArray[np.generic]
Words = NDArray[np.uint64]

_IDLE_ROUNDS = 10_000
"""Number of consecutive rounds in which all lanes poll in vain, after which a launch is hung."""

_TRACED = 1 << 25
"""Maximum number of accesses that a launch records."""

_launching = threading.Lock()
"""Serializes launches: a kernel's code has its launch in global variables."""


@dataclass(frozen=True)
class Grid:
    """A one-dimensional launch: counts of blocks, of lanes per block, and of lanes per subgroup."""

    blocks: int
    threads: int
    subgroup: int = 32

    def check(self) -> None:
        """Check that the emulator can run the launch.

        Raises:
            OptionError: if a size is out of range.
        """
        if not 1 <= self.blocks <= MAX_BLOCKS:
            raise OptionError(f"number of blocks: expected 1 to {MAX_BLOCKS}, found {self.blocks}")
        if not 1 <= self.threads <= MAX_THREADS:
            raise OptionError(
                f"threads of a block: expected 1 to {MAX_THREADS}, found {self.threads}"
            )
        if self.subgroup not in (32, 64):
            raise OptionError(f"subgroup size: expected 32 or 64, found {self.subgroup}")


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer in the device's memory.

    Attributes:
        name: the buffer's name in fault messages.
        offset: the offset in bytes of the buffer's first byte in the device's memory.
        num_bytes: the buffer's size in bytes.
        element_bytes: the size of an element in bytes, for indices in messages.
        unwritten: whether the contents are initially undefined; to read undefined contents is a
            fault.
        read_only: whether a write is a fault.
    """

    name: str
    offset: int
    num_bytes: int
    element_bytes: int
    unwritten: bool
    read_only: bool = False


@dataclass
class DeviceMemory:
    """The layout of device memory for a launch: buffers, with gaps between them to find overruns.

    Attributes:
        buffers: the buffers placed so far.
        num_bytes: the size of the memory in bytes, with the gap after the last buffer.
    """

    buffers: list[PlacedBuffer] = field(default_factory=list[PlacedBuffer])
    num_bytes: int = GRANULE_BYTES

    def place(
        self,
        name: str,
        num_bytes: int,
        element_bytes: int,
        *,
        unwritten: bool,
        read_only: bool = False,
    ) -> int:
        """Add the buffer ``name`` of ``num_bytes`` bytes, and return the buffer's offset in bytes.

        ``element_bytes`` is the size of an element in bytes, for messages. ``unwritten`` tells
        whether the contents are initially undefined; to read undefined contents is a fault.
        ``read_only`` tells whether a write is a fault.
        """
        offset = self.num_bytes
        placed = PlacedBuffer(name, offset, num_bytes, element_bytes, unwritten, read_only)
        self.buffers.append(placed)
        self.num_bytes += (num_bytes // GRANULE_BYTES + 2) * GRANULE_BYTES
        return offset


def _zeros(count: int) -> Words:
    """Return ``count`` 64-bit zeros whose pages take no memory until they are accessed."""
    size = max(count, 1) * 8
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=np.uint64)


def launch(
    kernel: EmulatedKernel,
    arguments: Sequence[Array | int | float],
    grid: Grid,
    *,
    names: Sequence[str] | None = None,
    unwritten: Sequence[int] = (),
    idle_rounds: int = _IDLE_ROUNDS,
) -> Trace | None:
    """Run a kernel to its end; return its trace, or None if it was compiled without tracing.

    Args:
        kernel: the compiled kernel.
        arguments: a value for each of the kernel's arguments: a number, or an array, which the
            kernel writes in place. If the array is read-only, a write is a fault in a checked
            kernel, and has no effect on the array in another one.
        grid: the counts of blocks, of lanes of a block and of lanes of a subgroup.
        names: names of the arguments in fault messages; None for ``argument 0`` and so on.
        unwritten: the indices of arguments with contents that are undefined before the launch; in a
            checked kernel, to read them before writing is a fault.
        idle_rounds: largest count of consecutive rounds without progress of any lane; after more
            rounds, the launch counts as hung. In a round, the scheduler visits all blocks once.

    Raises:
        EmulationError: if the kernel faults; names kernel, block, lane, buffer and index.
        InputError: if the arguments do not fit the kernel.
        OptionError: if the grid is too large.
    """
    grid.check()
    _check_arguments(kernel, arguments)
    prepared = _Launch(kernel, arguments, grid, names, set(unwritten), idle_rounds)
    prepared.run()
    return prepared.trace() if kernel.traced else None


def _is_read_only(argument: Array | int | float) -> bool:
    return isinstance(argument, np.ndarray) and not argument.flags.writeable


def _check_arguments(kernel: EmulatedKernel, arguments: Sequence[Array | int | float]) -> None:
    if len(arguments) != len(kernel.arguments):
        raise InputError(
            f"kernel '{kernel.name}': expected {len(kernel.arguments)} arguments, found "
            f"{len(arguments)}"
        )
    for expected, value in zip(kernel.arguments, arguments, strict=True):
        found = value.nbytes if isinstance(value, np.ndarray) else 0
        if found != expected.num_bytes:
            raise InputError(
                f"kernel '{kernel.name}', {expected.name}: expected {expected.num_bytes} bytes, "
                f"found {found}"
            )


class _Launch:
    """A single launch of an emulated kernel, with the memory that its native code accesses.

    The memory is the emulated device memory, and the records of the launch, the lanes and the
    blocks.
    """

    def __init__(
        self,
        kernel: EmulatedKernel,
        arguments: Sequence[Array | int | float],
        grid: Grid,
        names: Sequence[str] | None,
        unwritten: set[int],
        idle_rounds: int,
    ) -> None:
        self._kernel, self._arguments, self._grid = kernel, arguments, grid
        self._lanes_total = grid.blocks * grid.threads
        self._memory = DeviceMemory()
        labels = list(names) if names is not None else [a.name for a in kernel.arguments]
        self._offsets = [
            self._memory.place(
                label, a.num_bytes, a.element_bytes,
                unwritten=n in unwritten, read_only=_is_read_only(arguments[n]),
            )
            if a.num_bytes else -1
            for n, (label, a) in enumerate(zip(labels, kernel.arguments, strict=True))
        ]  # fmt: skip
        self._shared = [self._place_shared(block) for block in range(grid.blocks)]
        self._region = _zeros(self._memory.num_bytes // 8 + 1)
        self._world = _zeros(len(World))
        self._fill_world(idle_rounds)

    def _place_shared(self, block: int) -> int:
        """Place the shared memory of block ``block``; return its byte offset in the device memory.

        Each workgroup buffer has the offset within the shared memory that the kernel's code uses.
        """
        base = self._memory.num_bytes
        for number, buffer in enumerate(self._kernel.shared):
            size = buffer.num_bytes
            name = "shared memory" if len(self._kernel.shared) == 1 else f"shared memory {number}"
            offset = self._memory.place(
                f"{name} of block {block}", size, buffer.element_bytes, unwritten=True
            )
            assert offset == base + buffer.offset
        return base

    def _set(self, place: World, value: int) -> None:
        self._world[place] = value

    def _fill_world(self, idle_rounds: int) -> None:
        grid, base = self._grid, self._region.ctypes.data
        self._scalars = _zeros(len(self._arguments))
        for number, (value, offset) in enumerate(zip(self._arguments, self._offsets, strict=True)):
            if isinstance(value, np.ndarray):
                self._scalars[number] = base + offset
            else:
                self._scalars[number : number + 1] = self._scalar(number, value)
        self._lanes = self._lane_records(base)
        self._blocks = _zeros(grid.blocks * len(Block))
        self._blocks.reshape(-1, len(Block))[:, Block.PHASE] = 1
        addresses = {
            World.LANES: self._lanes, World.BLOCKS: self._blocks, World.ARGUMENTS: self._scalars,
        }  # fmt: skip
        addresses |= self._check_tables(base) if self._kernel.checked else {}
        for place, array in addresses.items():
            self._set(place, array.ctypes.data)
        # keeps the tables alive whose addresses are in the launch's record
        self._tables = addresses
        self._set(World.NUM_BLOCKS, grid.blocks)
        self._set(World.THREADS, grid.threads)
        self._set(World.SUBGROUP, grid.subgroup)
        self._set(World.IDLE_LIMIT, idle_rounds)
        self._set(World.REGION, base)
        self._set(World.REGION_BYTES, self._memory.num_bytes)
        self._traced = _zeros(_TRACED * len(TraceRecord) if self._kernel.traced else 0)
        self._set(World.TRACE, self._traced.ctypes.data)
        self._set(World.TRACE_END, self._traced.ctypes.data + self._traced.nbytes)

    def trace(self) -> Trace:
        """Return the trace of the launch, after ``run``."""
        size = int(self._world[World.TRACE]) - self._traced.ctypes.data
        records = self._traced[: size // 8].reshape(-1, len(TraceRecord))
        shared = self._region.ctypes.data + min([self._memory.num_bytes, *self._shared])
        full = size == self._traced.nbytes
        return Trace(self._kernel.traced, records, shared, full)

    def _scalar(self, number: int, value: int | float) -> NDArray[np.uint64]:
        kind = self._kernel.arguments[number].element
        dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(kind, np.int64)
        bits = np.zeros(8, np.uint8)
        raw = np.array([value], dtype).view(np.uint8)
        bits[: raw.size] = raw
        return bits.view(np.uint64)

    def _lane_records(self, base: int) -> Words:
        """Return the records of all lanes in one array, ``len(Lane)`` words for each lane.

        The lanes' stacks and queues of asynchronous copies are also allocated. ``base`` is the
        address of the device memory.
        """
        grid = self._grid
        count = self._lanes_total
        size = self._kernel.stack_bytes  # pages are committed on first use only
        self._stacks = _zeros(count * size // 8)
        self._stacks.reshape(count, -1)[:, 0] = STACK_GUARD
        lanes = _zeros(count * len(Lane))
        table = lanes.reshape(count, len(Lane))
        numbers = np.arange(count, dtype=np.uint64)
        ends = np.uint64(self._stacks.ctypes.data) + numbers * np.uint64(size)
        table[:, Lane.STACK_TOP] = ends
        table[:, Lane.STACK] = ends + np.uint64(size)
        table[:, Lane.BLOCK] = numbers // np.uint64(grid.threads)
        table[:, Lane.LANE] = numbers % np.uint64(grid.threads)
        shared = np.array(self._shared, dtype=np.uint64) + np.uint64(base)
        table[:, Lane.SHARED] = np.repeat(shared, grid.threads)
        queue = COPY_QUEUE * len(PendingCopy)
        self._copies = _zeros(count * queue)
        table[:, Lane.COPIES] = np.uint64(self._copies.ctypes.data) + numbers * np.uint64(8 * queue)
        return lanes

    def _check_tables(self, base: int) -> dict[World, Words]:
        """Return the tables for the checks of accesses, such as shadow memory, all newly allocated.

        A key is the word of the launch's record that gets the address of the table. Two words of
        the record that describe the tables, ``SYNC_CAPACITY`` and ``GRANULE_SHIFT``, are set here.
        ``base`` is the address of the device memory.
        """
        blocks = self._grid.blocks
        granules = _zeros(self._memory.num_bytes // GRANULE_BYTES + 1)
        buffers = _zeros((len(self._memory.buffers) + 1) * len(Buffer))
        for number, buffer in enumerate(self._memory.buffers, start=1):
            first = buffer.offset // GRANULE_BYTES
            granules[first : first + buffer.num_bytes // GRANULE_BYTES + 1] = number
            record = buffers[number * len(Buffer) :]
            record[Buffer.BEGIN] = base + buffer.offset
            record[Buffer.END] = base + buffer.offset + buffer.num_bytes
            record[Buffer.UNWRITTEN] = buffer.unwritten
            record[Buffer.READ_ONLY] = buffer.read_only
        capacity = 1024 + 8 * blocks
        self._set(World.SYNC_CAPACITY, capacity)
        self._set(World.GRANULE_SHIFT, self._kernel.granule.bit_length() - 1)
        cells = self._memory.num_bytes // self._kernel.granule + 1
        return {
            World.GRANULES: granules,
            World.BUFFERS: buffers,
            World.SHADOW: _zeros(cells * len(Cell)),
            World.ATOMICS: _zeros(cells * len(AtomicCell)),
            World.KNOWLEDGE: _zeros(blocks * blocks),
            World.ACQUIRED: _zeros(self._lanes_total * blocks),
            World.SYNC_KEYS: _zeros(capacity),
            World.SYNC_CLOCKS: _zeros(capacity * blocks),
        }

    def run(self) -> None:
        table = self._lanes.reshape(-1, len(Lane))
        block_bytes = 8 * len(Block)
        table[:, Lane.BLOCK_RECORD] = table[:, Lane.BLOCK] * np.uint64(block_bytes) + np.uint64(
            self._blocks.ctypes.data
        )
        region = self._region.view(np.uint8)
        places = list(zip(self._arguments, self._offsets, strict=True))
        for value, offset in places:
            if isinstance(value, np.ndarray):
                region[offset : offset + value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._kernel.launch)
        with _launching:
            entry(self._world.ctypes.data)
        for value, offset in places:
            if isinstance(value, np.ndarray) and not _is_read_only(value):
                found = region[offset : offset + value.nbytes].view(value.dtype)
                value[...] = found.reshape(value.shape)
        if self._world[World.FAULT] != Fault.NONE:
            raise EmulationError(
                describe(self._kernel, self._world, table, self._memory.buffers, region)
            )
