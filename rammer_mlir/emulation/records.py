"""The interface between emulated GPU kernels and the emulator: memory records and kernel code.

Every record is an array of 64-bit words; an enumeration gives the index of each word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

MAX_BLOCKS, MAX_THREADS = 1024, 1024
"""Limits of a launch: a stamp has 11 bits each for the block and the lane."""


class _Place(IntEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class World(_Place):
    """Word indices of a launch's record."""

    SCHEDULER_STACK = auto()
    NUM_BLOCKS = auto()
    THREADS = auto()
    SUBGROUP = auto()
    LANES = auto()
    BLOCKS = auto()
    ARGUMENTS = auto()
    PROGRESS = auto()
    IDLE_LIMIT = auto()
    REGION = auto()
    REGION_BYTES = auto()
    GRANULES = auto()
    BUFFERS = auto()
    SHADOW = auto()
    GRANULE_SHIFT = auto()
    KNOWLEDGE = auto()
    ACQUIRED = auto()
    SYNC_KEYS = auto()
    SYNC_CLOCKS = auto()
    SYNC_CAPACITY = auto()
    FAULT = auto()
    FAULT_SITE = auto()
    FAULT_BLOCK = auto()
    FAULT_LANE = auto()
    FAULT_ADDRESS = auto()
    FAULT_BASE = auto()
    FAULT_OTHER = auto()
    FAULT_OTHER_SITE = auto()
    ZERO = auto()
    TRACE = auto()
    TRACE_END = auto()


class Lane(_Place):
    """Word indices of a lane's record."""

    STACK = auto()
    STACK_TOP = auto()
    STATUS = auto()
    SITE = auto()
    BLOCK = auto()
    BLOCK_RECORD = auto()
    LANE = auto()
    SHARED = auto()
    VALUE = auto()
    OFFSET = auto()
    WIDTH = auto()
    MODE = auto()
    VALID = auto()
    ARRIVED = auto()
    POLL_ADDRESS = auto()
    LOOKS = auto()
    RELEASES = auto()
    HAS_ACQUIRED = auto()
    FENCED = auto()
    LAST_RELAXED = auto()
    COPIES = auto()
    COPIES_BEGUN = auto()
    COPIES_ENDED = auto()
    COPY_GROUPS = auto()


class Block(_Place):
    """Word indices of a block's record."""

    PHASE = auto()
    ARRIVED = auto()
    DONE = auto()


class Buffer(_Place):
    """Words of a buffer: its first and end address, and if reading unwritten memory is a fault."""

    BEGIN = auto()
    END = auto()
    UNWRITTEN = auto()


class Cell(_Place):
    """Shadow words of a granule: stamps of its last write and of reads by two blocks, and sites."""

    WRITE = auto()
    READ = auto()
    OTHER_READ = auto()
    SITES = auto()


COPY_QUEUE = 256
"""Largest number of pending asynchronous copies of a lane."""


class PendingCopy(_Place):
    """Words of a pending copy: destination, source, bytes to write and to read, and its group.

    ``TO_BASE`` and ``BASE`` are addresses inside the destination's and the source's buffer.
    """

    TO = auto()
    TO_BASE = auto()
    SOURCE = auto()
    BASE = auto()
    SIZE = auto()
    READ = auto()
    SITE = auto()
    GROUP = auto()


class TraceRecord(_Place):
    """Words of a traced access: its address, and its number, block and lane."""

    ADDRESS = auto()
    WHO = auto()


TRACE_ACCESS_SHIFT, TRACE_BLOCK_SHIFT = 32, 16
"""Shifts of the access's number and of the block in the word ``WHO``.

The word is ``access << 32 | block << 16 | lane``.
"""


class Status(_Place):
    """State of a lane: ready to run, waiting at a barrier, shuffle or poll, or finished."""

    READY = auto()
    BARRIER = auto()
    SHUFFLE = auto()
    POLLING = auto()
    DONE = auto()


class Fault(_Place):
    """Reason why a launch was stopped."""

    NONE = auto()
    OUT_OF_BOUNDS = auto()
    UNWRITTEN = auto()
    RACE = auto()
    STUCK = auto()
    HANG = auto()
    INDEX = auto()
    STACK_OVERFLOW = auto()
    TOO_MANY_COUNTERS = auto()
    NO_SOURCE_LANE = auto()
    TOO_MANY_COPIES = auto()
    COPY_NOT_AWAITED = auto()
    MISALIGNED = auto()


class Shuffle(_Place):
    """Modes of ``gpu.shuffle``."""

    XOR = auto()
    UP = auto()
    DOWN = auto()
    IDX = auto()
    ROTATE = auto()


GRANULE_BYTES = 256
"""Number of bytes that divides the beginnings of buffers.

Gaps between buffers have at least this size and belong to no buffer.
"""

SITE_BITS = 21
BLOCK_SHIFT, LANE_SHIFT, PHASE_SHIFT = 43, 8, 19
LANE_MASK, RELEASES_MASK = 0x7FF, 0xFF
SEVERAL_LANES = LANE_MASK
"""Number of a lane in a stamp that stands for several lanes of the block.

A stamp is ``(block + 1) << 43 | phase << 19 | lane << 8 | releases``. The phase counts the block's
barriers, ``releases`` the lane's releases since the last barrier.
"""

STACK_GUARD = 0x5AFE57AC4B07704D
"""Canary word at the end of a lane's stack; a changed value means that the stack overflowed."""


@dataclass(frozen=True)
class Site:
    """A place in a kernel that faults can name: an operation and its source location."""

    operation: str
    location: str


@dataclass(frozen=True)
class SharedBuffer:
    """A workgroup buffer: sizes in bytes, and its offset in the block's shared memory."""

    num_bytes: int
    element_bytes: int
    offset: int


@dataclass(frozen=True)
class KernelArgument:
    """A kernel's argument: a buffer of ``num_bytes``, or if 0 a scalar of at most 8 bytes.

    ``element`` is the MLIR type of the elements or the scalar as text.
    """

    name: str
    num_bytes: int
    element: str
    element_bytes: int


@dataclass(frozen=True)
class TracedAccess:
    """A traced load, store or asynchronous copy: its function, and the bytes per lane."""

    function: str
    operation: str
    location: str
    num_bytes: int


@dataclass(frozen=True)
class EmulatedKernel:
    """A kernel as native code.

    Attributes:
        name: the kernel.
        launch: address of the function ``void (world)``, which runs a launch by its record.
        arguments: its arguments in order.
        shared: its workgroup buffers.
        sites: places that faults name; a site's number is its index.
        granule: bytes per shadow cell, a power of two.
        stack_bytes: bytes of stack that a lane needs.
        checked: whether accesses are checked.
        owner: keeps the code in memory.
        traced: the kernel's accesses in the order of their numbers, if launches record them.
    """

    name: str
    launch: int
    arguments: tuple[KernelArgument, ...]
    shared: tuple[SharedBuffer, ...]
    sites: tuple[Site, ...]
    granule: int
    stack_bytes: int
    checked: bool
    owner: object
    traced: tuple[TracedAccess, ...] = ()
