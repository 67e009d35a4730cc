"""Byte-addressed memory that knows which bytes exist, are written, and may be written."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from .arrays import Array, Integers
from .faults import PtxFault

READABLE, WRITABLE = 1, 2
"""Bits of a byte's state. Memory that nothing has written is writable alone."""

_GAP = 512
"""Bytes before each buffer that belong to none."""


@dataclass(frozen=True)
class Buffer:
    """A piece of a memory, and what faults call it."""

    name: str
    begin: int
    num_bytes: int


class Memory:
    """One state space. Buffers have gaps between them, so that an access beyond one is found.

    Bytes that are never touched cost nothing: the system gives zeroed pages at the first write.
    """

    def __init__(self, base: int, capacity: int) -> None:
        """Begin empty.

        Args:
            base: address of the first byte; high, so that cut addresses lead nowhere.
            capacity: bytes.
        """
        self.base, self.capacity = base, capacity
        self.bytes = np.zeros(capacity, np.uint8)
        self.state = np.zeros(capacity, np.uint8)
        self._buffers: list[Buffer] = []
        self._end = 0

    def place(self, name: str, num_bytes: int, state: int, alignment: int = 256) -> Buffer:
        """Return a new buffer."""
        begin = -(-(self._end + _GAP) // alignment) * alignment
        if begin + num_bytes + _GAP > self.capacity:
            raise PtxFault(f"expected at most {self.capacity} bytes, found more with '{name}'")
        self._end = begin + num_bytes
        self.state[begin : self._end] = state
        self._buffers.append(Buffer(name, self.base + begin, num_bytes))
        return self._buffers[-1]

    def find(self, address: int) -> Buffer:
        """Return the buffer that begins last before an address."""
        place = bisect_right(self._buffers, address, key=lambda buffer: buffer.begin)
        return self._buffers[max(0, place - 1)]

    def release(self, address: int) -> None:
        """Let a buffer's bytes exist no more; their addresses are not used again."""
        buffer = self.find(address)
        begin = buffer.begin - self.base
        self.state[begin : begin + buffer.num_bytes] = 0

    def rename(self, address: int, name: str) -> None:
        """Call a buffer otherwise."""
        place = self._buffers.index(self.find(address))
        self._buffers[place] = replace(self._buffers[place], name=name)

    def slice(self, address: int, num_bytes: int) -> Array:
        """Return bytes as they lie, unchecked."""
        return self.bytes[address - self.base :][:num_bytes]

    def set_state(self, address: int, num_bytes: int, state: int) -> None:
        """Let bytes be written or not, writable or not."""
        self.state[address - self.base :][:num_bytes] = state

    def describe(self, address: int) -> str:
        """Say where an address is."""
        if not self._buffers:
            return f"address {address:#x} of an empty memory"
        buffer = self.find(address)
        offset = address - buffer.begin
        return f"byte {offset} of '{buffer.name}', which has {buffer.num_bytes} bytes"


class Words:
    """A memory as words of one size, or as vectors of them: checked gathers and scatters."""

    def __init__(self, memory: Memory, num_bytes: int, count: int = 1) -> None:
        """View a memory.

        Args:
            memory: the memory.
            num_bytes: of an element: 1, 2, 4 or 8.
            count: elements of an access, which has to be aligned as a whole.
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
        self._written = self._readable | self._writable

    def rows(self, addresses: Integers) -> Integers:
        """Return the rows of addresses.

        Raises:
            Refused: if one is not aligned or not in the memory at all.
        """
        offsets = addresses - self.memory.base
        rows = offsets >> self._shift
        if (offsets & (self.size - 1)).any():
            raise Refused("misaligned", (offsets & (self.size - 1)) != 0)
        if (rows.view(np.uint64) >= self._rows).any():
            raise Refused("outside all buffers", rows.view(np.uint64) >= self._rows)
        return rows

    def load(self, addresses: Integers, used: Array | None = None) -> Array:
        """Return words at addresses, as [threads] or [threads, count].

        Args:
            addresses: of the threads.
            used: which elements of a vector anyone will look at; the others must exist, but nothing
                needs to have written them. All if None.
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
        """Return whether nothing may write there."""
        return not (self._state[self.rows(addresses)] & self._writable).any()

    def check_store(self, addresses: Integers) -> Integers:
        """Return the rows of addresses that may be written."""
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
        """Write words of [threads] or [threads, count]; of equal addresses the last one wins."""
        rows = self.check_store(addresses)
        self._words[rows] = values
        self._state[rows] = self._written

    def forget(self, addresses: Integers) -> None:
        """Let words that may be written count as never written."""
        self._state[self.check_store(addresses)] = self._writable


class Refused(Exception):
    """An access that a memory refuses, and for which of the threads."""

    def __init__(self, reason: str, threads: Array) -> None:
        """Keep both."""
        super().__init__(reason)
        self.reason, self.threads = reason, threads


def _lanes(bad: Array) -> Array:
    return bad.reshape(len(bad), -1).max(axis=1)
