"""Emulates asynchronous copies to shared memory (``cp.async``): bytes are copied when awaited.

A lane's copies stay in a queue until the lane waits for their group; only then are the bytes
copied. The race checks, if enabled, find a read without a preceding wait, because the destination
counts as unwritten until the bytes are copied. Source and destination are checked as accesses
twice, when the copy begins and when it ends, since the hardware may access them at any time
between.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, func, ir, memref
from rammer_mlir.emulation.codegen.checks import check_alignment
from rammer_mlir.emulation.codegen.i64_language import (
    Record,
    Truth,
    Variable,
    Word,
    copy_bytes,
    define,
    each,
    perform,
    when,
    while_,
    word,
)
from rammer_mlir.emulation.codegen.scheduler import current, fault, world
from rammer_mlir.emulation.codegen.sites import Sites
from rammer_mlir.emulation.records import COPY_QUEUE, Cell, Fault, Lane, PendingCopy, World
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.lowering.nvvm.nvgpu_views import async_copy, copied_bytes, pending_groups

COPY, GROUP, WAIT = (
    "nvgpu.device_async_copy",
    "nvgpu.device_async_create_group",
    "nvgpu.device_async_wait",
)
OPERATIONS = (COPY, GROUP, WAIT)


def replace_copies(operations: list[ir.Operation], sites: Sites) -> None:
    """Replace all operations on asynchronous copies in ``operations`` by calls of the runtime.

    ``sites`` assigns site indices to the copies, for fault messages.

    Raises:
        UnsupportedError: if the source of a copy is not device memory.
    """
    found = [operation for operation in operations if operation.name in OPERATIONS]
    for operation in reversed(found):  # users of tokens before their producers
        with ir.InsertionPoint(operation), operation.location:
            if operation.name == COPY:
                _check_source(operation)
                _call("emulator_copy", *_copy_arguments(operation), sites.add(operation))
            elif operation.name == GROUP:
                _call("emulator_end_group")
            else:
                _call("emulator_await_copies", pending_groups(operation))
        operation.erase()


def _check_source(copy: ir.Operation) -> None:
    space = async_copy(copy).src.type.memory_space
    if space is not None and "workgroup" in str(space):
        raise UnsupportedError(
            f"{copy.location}: expected an asynchronous copy from device memory, found one from "
            "shared memory; load and store instead"
        )


def _copy_arguments(operation: ir.Operation) -> list[ir.Value | int]:
    """Emit and return the arguments of a call of ``emulator_copy``, except the site index.

    The arguments are, in order:

    - the addresses of the destination element and of the destination buffer,
    - the addresses of the source element and of the source buffer,
    - the counts of bytes to write and to read.
    """
    copy = async_copy(operation)
    width = copied_bytes(copy)
    size = copy.dstElements.value * width
    taken = copy.srcElements
    read = size if taken is None else arith.muli(_as_word(taken), _constant(width))
    return [
        *address_of_element(copy.dst, list(copy.dstIndices), width),
        *address_of_element(copy.src, list(copy.srcIndices), width),
        size,
        read,
    ]


def address_of_element(
    buffer: ir.Value, indices: Sequence[ir.Value], width: int
) -> tuple[ir.Value, ir.Value]:
    """Emit and return two i64 addresses: of ``buffer[indices]``, and of the buffer's first element.

    ``width`` is the size of an element in bytes.
    """
    metadata = memref.ExtractStridedMetadataOp(buffer)
    element = metadata.offset
    for index, stride in zip(indices, list(metadata.strides), strict=True):
        element = arith.addi(element, arith.muli(index, stride))
    base = _as_word(memref.extract_aligned_pointer_as_index(buffer))
    first = arith.addi(base, arith.muli(_as_word(metadata.offset), _constant(width)))
    return arith.addi(base, arith.muli(_as_word(element), _constant(width))), first


def _as_word(index: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(64), index)


def _constant(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), number)


def _call(function: str, *arguments: ir.Value | int) -> None:
    values = [_constant(a) if isinstance(a, int) else a for a in arguments]
    func.CallOp([], function, values)


def _pending(lane: Record, number: Word) -> Record:
    place = (number % COPY_QUEUE) * (8 * len(PendingCopy))
    return Record(lane[Lane.COPIES] + place)


def _copy(
    to: Word, to_base: Word, source: Word, base: Word, size: Word, read: Word, site: Word
) -> None:
    lane = current()
    number = lane[Lane.COPIES_BEGUN]
    for address in (to, source):
        perform("emulator_aligned", address, size, site)
    with when((number - lane[Lane.COPIES_ENDED]) >= COPY_QUEUE):
        fault(Fault.TOO_MANY_COPIES, site)
    copy = _pending(lane, number)
    values = (to, to_base, source, base, size, read, site, lane[Lane.COPY_GROUPS])
    for place, value in zip(PendingCopy, values, strict=True):
        copy[place] = value
    perform("emulator_check_copy", copy.address, 1)
    lane[Lane.COPIES_BEGUN] = number + 1


def _end_group() -> None:
    lane = current()
    lane[Lane.COPY_GROUPS] = lane[Lane.COPY_GROUPS] + 1


def _await_copies(pending_groups: Word) -> None:
    """Emit code that performs the pending copies of the running lane.

    The lane's copies form groups. Copies of the last ``pending_groups`` groups that the lane has
    closed, and of a group that is not closed yet, stay pending.
    """
    lane = current()

    def is_due() -> Truth:
        first = lane[Lane.COPIES_ENDED]
        group = _pending(lane, first)[PendingCopy.GROUP]
        return (first < lane[Lane.COPIES_BEGUN]) & (
            (group + pending_groups) < lane[Lane.COPY_GROUPS]
        )

    with while_(is_due):
        copy = _pending(lane, lane[Lane.COPIES_ENDED])
        to, read = copy[PendingCopy.TO], copy[PendingCopy.READ]
        perform("emulator_check_copy", copy.address, 0)
        copy_bytes(to, copy[PendingCopy.SOURCE], read)
        # The hardware fills bytes beyond the source size with zeros.
        with each(read, copy[PendingCopy.SIZE]) as byte:
            copy_bytes(to + byte, world().at(World.ZERO), 1)
        lane[Lane.COPIES_ENDED] = lane[Lane.COPIES_ENDED] + 1


def _check_copy(address: Word, begins: Word) -> None:
    copy = Record(address)
    to, size, site = (copy[p] for p in (PendingCopy.TO, PendingCopy.SIZE, PendingCopy.SITE))
    read = copy[PendingCopy.READ]
    with when(read > size):
        fault(Fault.OUT_OF_BOUNDS, site, copy[PendingCopy.SOURCE] + size, copy[PendingCopy.BASE])
    with when(read.differs(0)):
        source, base = copy[PendingCopy.SOURCE], copy[PendingCopy.BASE]
        perform("emulator_access", base, source, read, site, 0, 1)
    perform("emulator_access", copy[PendingCopy.TO_BASE], to, size, site, 1, 1)
    with when(begins.equals(1)):
        _forget(to, size)


def _forget(address: Word, size: Word) -> None:
    """Emit code that marks ``size`` bytes of shared memory at ``address`` as unwritten."""
    launch = world()
    shift = launch[World.GRANULE_SHIFT]
    first = Variable((address - launch[World.REGION]) >> shift)
    last = (address + size - 1 - launch[World.REGION]) >> shift
    with while_(lambda: first.get() <= last):
        Record(launch[World.SHADOW] + first.get() * (8 * len(Cell)))[Cell.WRITE] = word(0)
        first.set(first.get() + 1)


def _check_nothing(*_: Word) -> None:
    """Emit nothing: the empty body of ``emulator_check_copy`` for kernels without checks."""


def emit_async_copies(*, checked: bool) -> None:
    """Emit the runtime's functions for asynchronous copies, with access checks if ``checked``."""
    define("emulator_check_copy", 2, _check_copy if checked else _check_nothing)
    define("emulator_aligned", 3, check_alignment)
    define("emulator_copy", 7, _copy)
    define("emulator_end_group", 0, _end_group)
    define("emulator_await_copies", 1, _await_copies)
