"""Describes the faults of an emulated kernel in messages of one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.emulation.records import (
    BLOCK_SHIFT,
    COPY_QUEUE,
    LANE_MASK,
    LANE_SHIFT,
    SEVERAL_LANES,
    EmulatedKernel,
    Fault,
    Lane,
    Site,
    Status,
    World,
)

Words = NDArray[np.uint64]


class NamedBuffer(Protocol):
    """A buffer in the emulated device's memory, with the properties that fault messages need."""

    @property
    def name(self) -> str:
        """The buffer's name in messages."""
        ...

    @property
    def offset(self) -> int:
        """The byte offset of the buffer in the device's memory."""
        ...

    @property
    def num_bytes(self) -> int:
        """The size of the buffer in bytes."""
        ...

    @property
    def element_bytes(self) -> int:
        """The size of an element in bytes."""
        ...


def describe(
    kernel: EmulatedKernel,
    world: Words,
    lanes: Words,
    buffers: Sequence[NamedBuffer],
    memory: NDArray[np.uint8],
) -> str:
    """Return a one-line message about the fault that stopped a launch.

    Args:
        kernel: the launched kernel.
        world: the launch's record, indexed by ``World``.
        lanes: the records of the lanes of all blocks: a row for each lane, indexed by ``Lane``.
        buffers: the buffers in the device's memory.
        memory: the bytes of the device's memory.
    """
    report = _Report(kernel, world, lanes, buffers, memory)
    kind = Fault(int(world[World.FAULT]))
    return f"kernel '{kernel.name}': {report.texts()[kind]()}"


class _Report:
    def __init__(
        self,
        kernel: EmulatedKernel,
        world: Words,
        lanes: Words,
        buffers: Sequence[NamedBuffer],
        memory: NDArray[np.uint8],
    ) -> None:
        self._kernel, self._world, self._lanes = kernel, world, lanes
        self._buffers, self._memory = buffers, memory

    def texts(self) -> dict[Fault, Callable[[], str]]:
        return {
            Fault.OUT_OF_BOUNDS: self._out_of_bounds,
            Fault.INDEX: self._index,
            Fault.UNWRITTEN: self._unwritten,
            Fault.RACE: self._race,
            Fault.STUCK: self._stuck,
            Fault.HANG: self._hang,
            Fault.STACK_OVERFLOW: self._stack_overflow,
            Fault.TOO_MANY_COUNTERS: self._too_many_counters,
            Fault.NO_SOURCE_LANE: self._no_source,
            Fault.TOO_MANY_COPIES: self._too_many_copies,
            Fault.COPY_NOT_AWAITED: self._copy_not_awaited,
            Fault.MISALIGNED: self._misaligned,
            Fault.READ_ONLY: self._read_only,
        }

    def _word(self, place: World) -> int:
        return int(self._world[place])

    def _where(self) -> str:
        site = self._kernel.sites[self._word(World.FAULT_SITE)]
        return f"{self._who()}, {_spell(site)}"

    def _who(self) -> str:
        return f"block {self._word(World.FAULT_BLOCK)}, lane {self._word(World.FAULT_LANE)}"

    def _place(self, address: int, base: int) -> str:
        """Return, as text, the buffer that contains ``base``, and the element index of ``address``.

        An example is ``x at index 70 of 64``. The index counts elements from the beginning of the
        buffer, even if ``address`` is outside of the buffer. If ``base`` is in no buffer, the text
        says so.
        """
        start = self._word(World.REGION)
        for buffer in self._buffers:
            begin = start + buffer.offset
            if begin <= base < begin + max(buffer.num_bytes, 1):
                index, rest = divmod(address - begin, buffer.element_bytes)
                unit = "index" if buffer.element_bytes > 1 else "byte"
                byte = f" byte {rest}" if rest else ""
                count = buffer.num_bytes // buffer.element_bytes
                return f"{buffer.name} at {unit} {index}{byte} of {count}"
        return f"address 0x{address:x}, which is in no buffer"

    def _fault_place(self) -> str:
        return self._place(self._word(World.FAULT_ADDRESS), self._word(World.FAULT_BASE))

    def _out_of_bounds(self) -> str:
        return (
            f"out of bounds: {self._where()} accesses {self._fault_place()}; stay within the buffer"
        )

    def _index(self) -> str:
        index = int(np.int64(np.uint64(self._word(World.FAULT_ADDRESS))))
        size, dimension = self._word(World.FAULT_BASE), self._word(World.FAULT_OTHER)
        return (
            f"out of bounds: {self._where()} uses index {index} in dimension {dimension}: expected "
            f"0 to {size - 1}"
        )

    def _unwritten(self) -> str:
        return (
            f"unwritten memory: {self._where()} reads {self._fault_place()}, which nothing has "
            "written; write it first"
        )

    def _race(self) -> str:
        other = self._word(World.FAULT_OTHER)
        block, lane = (other >> BLOCK_SHIFT) - 1, (other >> LANE_SHIFT) & LANE_MASK
        who = "several lanes" if lane == SEVERAL_LANES else f"lane {lane}"
        site = self._kernel.sites[self._word(World.FAULT_OTHER_SITE)]
        same = block == self._word(World.FAULT_BLOCK)
        advice = (
            "put a block barrier between them"
            if same
            else "let one wait for the other's step counter"
        )
        return (
            f"data race: {self._where()} and block {block}, {who}, {_spell(site)} both access "
            f"{self._fault_place()}; {advice}"
        )

    def _of_block(self, block: int) -> Words:
        return self._lanes[self._lanes[:, Lane.BLOCK] == block]

    def _stuck(self) -> str:
        """Return the message for a barrier that not all lanes of a block reach.

        For each lane, the message names the operation at which the lane waits, or says that the
        lane exited.
        """
        block = self._word(World.FAULT_BLOCK)
        lanes = self._of_block(block)
        groups: dict[str, list[int]] = {}
        for lane in lanes:
            groups.setdefault(self._state(lane), []).append(int(lane[Lane.LANE]))
        parts = [f"{_lanes(numbers)} {text}" for text, numbers in groups.items()]
        return (
            f"barrier not met by all: block {block}, {'; '.join(parts)}; let every lane reach "
            "every block barrier and shuffle"
        )

    def _state(self, lane: Words) -> str:
        status = Status(int(lane[Lane.STATUS]))
        if status == Status.DONE:
            return "exited"
        site = self._kernel.sites[int(lane[Lane.SITE])]
        verb = {Status.BARRIER: "wait at", Status.SHUFFLE: "wait at", Status.POLLING: "poll at"}
        return f"{verb.get(status, 'are at')} {_spell(site)}"

    def _hang(self) -> str:
        polling = self._lanes[self._lanes[:, Lane.STATUS] == Status.POLLING]
        parts = [self._poll(lane) for lane in polling[:4]]
        more = f" and {len(polling) - 4} more lanes" if len(polling) > 4 else ""
        return (
            f"hang: no lane can go on; {'; '.join(parts)}{more}; look for a wait that nothing "
            "fulfils"
        )

    def _poll(self, lane: Words) -> str:
        address = int(lane[Lane.POLL_ADDRESS])
        offset = address - self._word(World.REGION)
        value = ""
        if 0 <= offset <= len(self._memory) - 4:
            bits = int(self._memory[offset : offset + 4].view(np.int32)[0])
            value = f", which is {bits}"
        site = self._kernel.sites[int(lane[Lane.SITE])]
        return (
            f"block {int(lane[Lane.BLOCK])}, lane {int(lane[Lane.LANE])} waits in {_spell(site)} "
            f"for {self._place(address, address)}{value}"
        )

    def _stack_overflow(self) -> str:
        return f"stack overflow: {self._who()} uses too much private memory"

    def _too_many_counters(self) -> str:
        return f"too many step counters for the checks: {self._where()}; run without checks"

    def _too_many_copies(self) -> str:
        return (
            f"too many asynchronous copies: {self._where()}: expected at most {COPY_QUEUE} under "
            "way; wait for some before"
        )

    def _copy_not_awaited(self) -> str:
        return f"asynchronous copy: {self._who()} ends before its copies; wait for them"

    def _misaligned(self) -> str:
        return (
            f"misaligned: {self._where()} accesses {self._fault_place()}: expected a multiple of "
            f"{self._word(World.FAULT_OTHER)} bytes"
        )

    def _read_only(self) -> str:
        return (
            f"read-only memory: {self._where()} writes {self._fault_place()}, which the kernel may "
            "only read; write to an output or a temporary"
        )

    def _no_source(self) -> str:
        source, lane = self._word(World.FAULT_ADDRESS), self._word(World.FAULT_BASE)
        site = self._kernel.sites[self._word(World.FAULT_SITE)]
        return (
            f"shuffle from a lane that does not exist: block {self._word(World.FAULT_BLOCK)}, lane "
            f"{lane}, {_spell(site)} reads lane {source} of its subgroup; use whole subgroups"
        )


def _spell(site: Site) -> str:
    return f"'{site.operation.split()[0]}' ({site.location})"


def _lanes(numbers: list[int]) -> str:
    """Return ascending lane indices as text with ranges, such as ``lanes 0-3, 7``."""
    ranges: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], -2]:
        if number == last + 1:
            last = number
            continue
        ranges.append(str(first) if first == last else f"{first}-{last}")
        first = last = number
    return f"{'lane' if len(numbers) == 1 else 'lanes'} {', '.join(ranges)}"
