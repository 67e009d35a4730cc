"""Defines the records in memory by which emulated GPU kernels and the emulator communicate.

A record is an array of 64-bit words. An enumeration gives the index of each word. Addresses are
addresses of the emulating process. This module also describes compiled kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

MAX_BLOCKS, MAX_THREADS = 1024, 1024
"""Maximum numbers of blocks of a launch and of lanes of a block; each has 11 bits in a stamp."""


class _Place(IntEnum):
    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class World(_Place):
    """Indices of the 64-bit words of a launch's record (its state in the emulator's memory).

    Each lane runs on its own stack; the scheduler resumes lanes one after the other.
    ``codegen/checks`` defines clocks and releases.

    Attributes:
        SCHEDULER_STACK: the saved stack pointer of the scheduler.
        NUM_BLOCKS: count of blocks.
        THREADS: count of lanes of a block.
        SUBGROUP: count of lanes of a subgroup (a warp or wave).
        LANES, BLOCKS: the addresses of the lanes' records and of the blocks' records.
        ARGUMENTS: the address of the kernel's argument values.
        PROGRESS: a counter that grows when a ready lane runs or when a lane writes atomically.
        IDLE_LIMIT: after more passes over all blocks than this without progress, the launch counts
            as hung.
        REGION, REGION_BYTES: the address of the device memory, and its size in bytes.
        GRANULES: the address of a table that has, for each ``GRANULE_BYTES`` bytes of the device
            memory, the index of the buffer that contains them.
        BUFFERS, SHADOW, ATOMICS: the addresses of the buffers' records, of the shadow cells
            (``Cell``) and of the cells of atomic accesses (``AtomicCell``).
        GRANULE_SHIFT: the binary logarithm of the bytes per shadow cell.
        KNOWLEDGE: the address of a matrix of clocks. Row b has the clock of each block that all
            lanes of block b know.
        ACQUIRED: the address of a matrix of clocks. A lane's row has the clock of each block that
            the lane has acquired since its last barrier.
        SYNC_KEYS, SYNC_CLOCKS, SYNC_CAPACITY: a hash table from the address of an atomic counter to
            the clocks that were released with this counter: the addresses of the keys and of the
            clocks, and the count of keys.
        FAULT: the ``Fault`` that stopped the launch.
        FAULT_SITE, FAULT_BLOCK, FAULT_LANE: the indices of the faulting operation, block and lane.
        FAULT_ADDRESS, FAULT_BASE: the accessed address, and an address in the intended buffer.
        FAULT_OTHER, FAULT_OTHER_SITE: for a race, the stamp (see ``Cell``) and the operation's
            index of the other access.
        ZERO: a word that is always 0.
        TRACE, TRACE_END: the addresses of the next trace record and of the end of the trace.
    """

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
    ATOMICS = auto()
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
    """Indices of the 64-bit words of a lane's record (its state in the emulator's memory).

    Attributes:
        STACK, STACK_TOP: the saved stack pointer, and the stack's lowest address, at which its
            growth ends.
        STATUS: the lane's ``Status``.
        SITE: the index of the operation at which the lane waits.
        BLOCK, BLOCK_RECORD: the index of the lane's block, and the address of the block's record.
        LANE: the lane's index in the block.
        SHARED: the address of the block's shared memory.
        VALUE, OFFSET, WIDTH, MODE: the operands of a shuffle; afterwards, ``OFFSET`` has the
            result.
        VALID: 1 if a shuffle's source lane was in range, else 0.
        ARRIVED: in a subgroup's first lane, the count of the subgroup's lanes that wait at a
            shuffle.
        POLL_ADDRESS: the address of the lane's last atomic read; 0 if the lane has executed a
            barrier or an atomic write since then.
        LOOKS: the count of the lane's atomic reads since it last yielded before such a read.
        RELEASES: the count of releases since the last barrier.
        HAS_ACQUIRED: 1 if the lane has acquired a clock since the last barrier.
        FENCED: 1 if the lane has executed a release fence since the last barrier.
        LAST_RELAXED: the address of the last relaxed atomic read.
        COPIES: the address of the queue of asynchronous copies.
        COPIES_BEGUN, COPIES_ENDED: the counts of copies that have begun and ended.
        COPY_GROUPS: the count of groups of copies that the lane has closed.
    """

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
    """Indices of the 64-bit words of a block's record (its state in the emulator's memory).

    Attributes:
        PHASE: the count of barriers that the block has passed, plus 1.
        ARRIVED: the count of lanes that wait at the next barrier.
        DONE: the count of lanes that have ended.
    """

    PHASE = auto()
    ARRIVED = auto()
    DONE = auto()


class Buffer(_Place):
    """Indices of the 64-bit words of a buffer's record (its state in the emulator's memory).

    Attributes:
        BEGIN, END: the addresses of the buffer's first byte, and of the byte after the buffer.
        UNWRITTEN: 1 if a read of an element that was never written is a fault, else 0.
        READ_ONLY: 1 if a write is a fault, else 0.
    """

    BEGIN = auto()
    END = auto()
    UNWRITTEN = auto()
    READ_ONLY = auto()


class Cell(_Place):
    """Word indices of a shadow cell, which describes the last plain accesses to a few bytes.

    An access is plain if it is not atomic.

    A stamp is a 64-bit word that identifies an access by block, lane, phase (see ``Block``) and the
    count of the lane's releases since the last barrier.

    Attributes:
        WRITE: the stamp of the last write; 0 if there was no write.
        READ, OTHER_READ: the stamps of the last reads by two blocks; 0 if there was no read.
        SITES: the indices of the operations of the write and the two reads, ``SITE_BITS`` bits
            each, and the bit at ``ATOMICS_SHIFT``.
    """

    WRITE = auto()
    READ = auto()
    OTHER_READ = auto()
    SITES = auto()


class AtomicCell(_Place):
    """Word indices of the last atomic accesses to a few bytes of memory.

    The record is valid if the bit at ``ATOMICS_SHIFT`` is 1 in the shadow cell of the same bytes.
    Both cells have as many words, and the sites in the same word.

    Attributes:
        WRITE, OTHER_WRITE: the stamps of the last atomic writes and read-modify-writes by two
            blocks; 0 if there was none.
        READ: the stamp of the last atomic load; 0 if there was none.
        SITES: the indices of the operations of these accesses, ``SITE_BITS`` bits each.
    """

    WRITE = auto()
    OTHER_WRITE = auto()
    READ = auto()
    SITES = auto()


COPY_QUEUE = 256
"""Maximum number of pending asynchronous copies of a lane."""


class PendingCopy(_Place):
    """Word indices of the record of a pending asynchronous copy.

    Attributes:
        TO, SOURCE: the addresses of the destination and of the source.
        TO_BASE, BASE: an address inside the destination's buffer, and one inside the source's
            buffer; these addresses identify the buffers.
        SIZE: the count of bytes to write.
        READ: the count of bytes to read. If it is smaller than ``SIZE``, zeros are written after
            these bytes.
        SITE: the index of the copy operation.
        GROUP: the index of the group of copies.
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
    """Word indices of the record of a lane's memory access.

    ``ADDRESS`` is the accessed address. ``WHO`` packs three indices: of the accessing operation, of
    the block and of the lane.
    """

    ADDRESS = auto()
    WHO = auto()


TRACE_ACCESS_SHIFT, TRACE_BLOCK_SHIFT = 32, 16
"""Bit positions of the access index and of the block index in the word ``WHO`` of a traced access.

The word is ``access << 32 | block << 16 | lane``.
"""


class Status(_Place):
    """The state of a lane: ready, waiting at a barrier, waiting at a shuffle, polling, or ended."""

    READY = auto()
    BARRIER = auto()
    SHUFFLE = auto()
    POLLING = auto()
    DONE = auto()


class Fault(_Place):
    """The reason why a launch was stopped.

    Attributes:
        NONE: the launch was not stopped.
        OUT_OF_BOUNDS: an address is outside of its buffer.
        INDEX: an index is outside of its dimension.
        UNWRITTEN: memory is read that was never written.
        RACE: two accesses, at least one of them a write, are not ordered.
        STUCK: some lanes of a block or subgroup wait at a barrier or shuffle that not all lanes
            reach.
        HANG: lanes poll for too long, and no lane makes progress.
        STACK_OVERFLOW: a lane overran its stack.
        TOO_MANY_COUNTERS: there are more atomic counters than the checks have memory for.
        NO_SOURCE_LANE: a shuffle reads from a lane that does not exist.
        TOO_MANY_COPIES: a lane has more than ``COPY_QUEUE`` pending copies.
        COPY_NOT_AWAITED: a lane ends while it has pending copies.
        MISALIGNED: an address is no multiple of the access's alignment.
        READ_ONLY: a buffer is written that the kernel may only read.
    """

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
    READ_ONLY = auto()


class Shuffle(_Place):
    """Modes of ``gpu.shuffle``, which tell how a lane computes its source lane from the offset."""

    XOR = auto()
    UP = auto()
    DOWN = auto()
    IDX = auto()
    ROTATE = auto()


GRANULE_BYTES = 256
"""Alignment in bytes of buffers in the device memory.

Gaps between buffers have at least this size and belong to no buffer.
"""

SITE_BITS = 21
ATOMICS_SHIFT = 63
"""Position in ``Cell.SITES`` of a bit: 1 if an atomic access followed the last plain write."""

BLOCK_SHIFT, LANE_SHIFT, PHASE_SHIFT = 43, 8, 19
LANE_MASK, RELEASES_MASK = 0x7FF, 0xFF
SEVERAL_LANES = LANE_MASK
"""Lane index in a stamp that stands for several lanes of the block.

A stamp identifies an access: ``(block + 1) << 43 | phase << 19 | lane << 8 | releases``. The phase
is the count of the block's barriers before the access, plus 1; ``releases`` is the count of the
lane's releases since the last barrier.
"""

STACK_GUARD = 0x5AFE57AC4B07704D
"""Canary word at the lowest address of a lane's stack; if it changes, the stack overflowed."""


@dataclass(frozen=True)
class Site:
    """An operation of a kernel that fault messages can name: its name and its source location."""

    operation: str
    location: str


@dataclass(frozen=True)
class SharedBuffer:
    """A buffer of a kernel in workgroup (shared) memory.

    ``num_bytes`` is the size of the buffer and ``element_bytes`` the size of an element, in bytes.
    ``offset`` is the byte offset of the buffer in the block's shared memory.
    """

    num_bytes: int
    element_bytes: int
    offset: int


@dataclass(frozen=True)
class KernelArgument:
    """An argument of a kernel: a buffer, or a scalar of at most 8 bytes.

    Attributes:
        name: the argument's name in messages.
        num_bytes: the size of the buffer in bytes; 0 for a scalar.
        element: the MLIR type of the buffer's elements or of the scalar, as text.
        element_bytes: the size of an element or of the scalar in bytes.
    """

    name: str
    num_bytes: int
    element: str
    element_bytes: int


@dataclass(frozen=True)
class TracedAccess:
    """A load, store or asynchronous copy in a kernel whose executions are traced.

    Attributes:
        function: the name of the function that contains the access.
        operation: ``llvm.load``, ``llvm.store`` or ``copy``.
        location: the access's source location as text.
        num_bytes: count of bytes that a lane accesses.
    """

    function: str
    operation: str
    location: str
    num_bytes: int


@dataclass(frozen=True)
class EmulatedKernel:
    """A kernel as native code.

    Attributes:
        name: the kernel's name.
        launch: the address of a function ``void (void *world)``, which runs a launch; ``world`` is
            the address of the launch's record (``World``).
        arguments: the kernel's arguments in order.
        shared: the kernel's workgroup buffers.
        sites: the operations that faults can name, by site index.
        granule: bytes of memory that a shadow cell describes, a power of two.
        stack_bytes: bytes of stack that a lane needs.
        checked: whether accesses are checked for bounds, unwritten memory and races.
        owner: an object that keeps the code in memory.
        traced: the accesses that launches record, by access index; empty if launches record no
            accesses.
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
