"""Memory with a state for each byte: whether it exists, was written, and may be written."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from .arrays import Array, Integers
from .faults import PtxFault

READABLE, WRITABLE, INITIAL = 1, 2, 4
"""Bits of a byte's state. Memory that nothing has written is writable alone.

A byte of a module's variable is initial until a kernel stores to it.
"""

_GAP = 512
"""Bytes of the gap before each buffer."""


@dataclass(frozen=True)
class Buffer:
    """A buffer in a memory: its name in messages, its first address, and its size in bytes."""

    name: str
    begin: int
    num_bytes: int


class Memory:
    """The memory of a state space, such as global memory.

    Buffers have gaps between them, so that accesses beyond a buffer's end are detected. Bytes that
    are never accessed occupy no memory: the system allocates pages at the first write.
    """

    def __init__(self, base: int, capacity: int) -> None:
        """Create a memory without buffers.

        Args:
            base: address of the first byte; a large number, so that truncated addresses are
                invalid.
            capacity: size in bytes.
        """
        self.base, self.capacity = base, capacity
        self.bytes = np.zeros(capacity, np.uint8)
        self.state = np.zeros(capacity, np.uint8)
        self._buffers: list[Buffer] = []
        self._end = 0

    def place(self, name: str, num_bytes: int, state: int, alignment: int = 256) -> Buffer:
        """Allocate and return a buffer of ``num_bytes`` bytes, aligned to ``alignment`` bytes.

        ``state`` is the initial state of its bytes, as in ``set_state``; ``name`` is for messages.
        """
        begin = -(-(self._end + _GAP) // alignment) * alignment
        if begin + num_bytes + _GAP > self.capacity:
            raise PtxFault(f"expected at most {self.capacity} bytes, found more with '{name}'")
        self._end = begin + num_bytes
        self.state[begin : self._end] = state
        self._buffers.append(Buffer(name, self.base + begin, num_bytes))
        return self._buffers[-1]

    def find(self, address: int) -> Buffer:
        """Return the buffer that an address is in, or the last buffer before the address."""
        place = bisect_right(self._buffers, address, key=lambda buffer: buffer.begin)
        return self._buffers[max(0, place - 1)]

    def release(self, address: int) -> None:
        """Free the buffer at an address; its addresses are not used again."""
        buffer = self.find(address)
        begin = buffer.begin - self.base
        self.state[begin : begin + buffer.num_bytes] = 0

    def rename(self, address: int, name: str) -> None:
        """Change the name, in messages, of the buffer at an address."""
        place = self._buffers.index(self.find(address))
        self._buffers[place] = replace(self._buffers[place], name=name)

    def slice(self, address: int, num_bytes: int) -> Array:
        """Return a view of ``num_bytes`` bytes from ``address`` on, without checks."""
        return self.bytes[address - self.base :][:num_bytes]

    def set_state(self, address: int, num_bytes: int, state: int) -> None:
        """Set whether bytes count as written, and whether they may be written.

        ``state`` has the bits ``READABLE`` for written bytes, ``WRITABLE`` and ``INITIAL``.
        """
        self.state[address - self.base :][:num_bytes] = state

    def describe(self, address: int) -> str:
        """Return text for messages that names the buffer and the offset of an address."""
        if not self._buffers:
            return f"address {address:#x} of an empty memory"
        buffer = self.find(address)
        offset = address - buffer.begin
        return f"byte {offset} of '{buffer.name}', which has {buffer.num_bytes} bytes"


class Words:
    """Checked loads and stores of a memory's words of one size, or of vectors of such words.

    Each thread accesses one word or vector. A row is the index of a word, or of a vector, in the
    memory.
    """

    def __init__(self, memory: Memory, num_bytes: int, count: int = 1) -> None:
        """View a memory as words or vectors.

        Args:
            memory: the memory.
            num_bytes: size of a word: 1, 2, 4 or 8.
            count: number of words of a vector, which has to be aligned as a whole.
        """
        dtype = np.dtype(f"u{num_bytes}")
        size = num_bytes * count
        rows = memory.capacity // size
        shape = (rows,) if count == 1 else (rows, count)
        self.memory, self.size = memory, size
        self._words = memory.bytes.view(dtype).reshape(shape)
        self._state = memory.state.view(dtype).reshape(shape)
        self._rows = rows
        self._shift = size.bit_length() - 1
        self._readable = dtype.type(int.from_bytes(bytes([READABLE]) * num_bytes, "little"))
        self._writable = dtype.type(int.from_bytes(bytes([WRITABLE]) * num_bytes, "little"))
        self._initial = dtype.type(int.from_bytes(bytes([INITIAL]) * num_bytes, "little"))
        self._written = self._readable | self._writable

    def rows(self, addresses: Integers) -> Integers:
        """Return the rows of addresses.

        Raises:
            Refused: if an address is misaligned or outside of the memory.
        """
        offsets = addresses - self.memory.base
        rows = offsets >> self._shift
        if (offsets & (self.size - 1)).any():
            raise Refused("misaligned", (offsets & (self.size - 1)) != 0)
        if (rows.view(np.uint64) >= self._rows).any():
            raise Refused("outside all buffers", rows.view(np.uint64) >= self._rows)
        return rows

    def load(self, addresses: Integers, used: Array | None = None) -> Array:
        """Return the words at addresses, as an array [threads] or [threads, count].

        Args:
            addresses: address of each thread.
            used: for each word of a vector, whether the program uses it; unused words must exist,
                but may be unwritten. None if all are used.

        Raises:
            Refused: if a word is outside of all buffers, or is used but unwritten.
        """
        rows = self.rows(addresses)
        state = self._state[rows]
        if not ((state & self._readable) == self._readable).all():
            bad = (state & self._readable) != self._readable
            outside = bad & ((state & self._writable) != self._writable)
            if outside.any():
                raise Refused("outside all buffers", _lanes(outside))
            unwritten = bad if used is None else bad & used
            if unwritten.any():
                raise Refused("read, but never written", _lanes(unwritten))
        return self._words[rows]

    def is_constant(self, addresses: Integers) -> bool:
        """Return whether the words at addresses may be read as constants.

        This is so if the words are read-only, or still have the initial content of a module's
        variables; the latter become read-only.
        """
        rows = self.rows(addresses)
        state = self._state[rows]
        initial = (state & self._initial) == self._initial
        if ((state & self._writable).astype(np.bool_) & ~initial).any():
            return False
        if initial.any():
            self._state[rows] = self._readable
        return True

    def check_store(self, addresses: Integers) -> Integers:
        """Return the rows of addresses; raise Refused if a word there may not be written."""
        rows = self.rows(addresses)
        state = self._state[rows]
        if not ((state & self._writable) == self._writable).all():
            bad = (state & self._writable) != self._writable
            outside = (state & self._readable) != self._readable
            if (bad & outside).any():
                raise Refused("outside all buffers", _lanes(bad & outside))
            raise Refused("written, but read-only", _lanes(bad))
        return rows

    def store(self, addresses: Integers, values: Array) -> None:
        """Write words [threads] or [threads, count] to addresses.

        If several threads have the same address, the last thread's word remains.
        """
        rows = self.check_store(addresses)
        self._words[rows] = values
        self._state[rows] = self._written

    def forget(self, addresses: Integers) -> None:
        """Let the words at addresses count as never written.

        Raises Refused if they are read-only.
        """
        self._state[self.check_store(addresses)] = self._writable


class Refused(Exception):
    """The error of an access that a memory refuses, with the reason and a mask of the threads."""

    def __init__(self, reason: str, threads: Array) -> None:
        """Store the reason, and the mask of the threads whose access is refused."""
        super().__init__(reason)
        self.reason, self.threads = reason, threads


def _lanes(bad: Array) -> Array:
    return bad.reshape(len(bad), -1).max(axis=1)
