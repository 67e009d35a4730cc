"""Emits the emulator's checks for bounds, reads of unwritten memory, and data races.

For each granule (as many bytes as the smallest element), shadow memory keeps the stamps of the last
write and of the last reads by two blocks, and the same for atomic accesses. If several lanes of the
same block read in the same phase, their reads are merged into a single stamp, which is marked as
merged; so are atomic writes. Atomic accesses do not race with each other, but with other accesses.
``synchronization`` tells which accesses are ordered.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rammer_mlir.emulation.codegen.i64_language import (
    Record,
    Truth,
    Variable,
    Word,
    define,
    each,
    perform,
    when,
    word,
)
from rammer_mlir.emulation.codegen.scheduler import current, fault, world
from rammer_mlir.emulation.codegen.synchronization import (
    clock,
    emit_synchronization,
    lane_of,
    unordered,
)
from rammer_mlir.emulation.records import (
    ATOMICS_SHIFT,
    BLOCK_SHIFT,
    GRANULE_BYTES,
    LANE_SHIFT,
    PHASE_SHIFT,
    SEVERAL_LANES,
    SITE_BITS,
    AtomicCell,
    Buffer,
    Cell,
    Fault,
    Lane,
    World,
)

_SITE_MASK = (1 << SITE_BITS) - 1


def _site(sites: Word, place: Cell | AtomicCell) -> Word:
    return (sites >> (SITE_BITS * int(place))) & _SITE_MASK


def _with_site(sites: Word, place: Cell | AtomicCell, site: Word) -> Word:
    shift = SITE_BITS * int(place)
    kept = sites & (-1 ^ (_SITE_MASK << shift))
    return kept | (site << shift)


def _race(cell: Record, place: Cell | AtomicCell, site: Word, address: Word, base: Word) -> None:
    with when(unordered(cell[place])):
        # The last word of both kinds of cells has the sites.
        other, sites = cell[place], cell[Cell.SITES]
        fault(Fault.RACE, site, address, base, other, _site(sites, place))


def _has_atomics(cell: Record) -> Truth:
    return (cell[Cell.SITES] >> ATOMICS_SHIFT).equals(1)


def _atomics_of(cell: Record) -> Record:
    """Emit the address of the cell of atomic accesses that belongs to a shadow cell; return it."""
    launch = world()
    return Record(cell.address - launch[World.SHADOW] + launch[World.ATOMICS])


def _write(cell_address: Word, site: Word, address: Word, base: Word, stamp: Word) -> None:
    cell = Record(cell_address)
    for place in (Cell.WRITE, Cell.READ, Cell.OTHER_READ):
        _race(cell, place, site, address, base)
    with when(_has_atomics(cell)):
        perform("emulator_race_with_atomics", cell_address, site, address, base, 1)
    # Later accesses that follow this write also follow the reads and atomics before it.
    cell[Cell.READ] = 0
    cell[Cell.OTHER_READ] = 0
    cell[Cell.WRITE] = stamp
    cell[Cell.SITES] = site


def _race_with_atomics(
    cell_address: Word, site: Word, address: Word, base: Word, writes: Word
) -> None:
    """Emit the check of a plain access, a write if ``writes`` is 1, against atomic accesses.

    It is a function of its own, so that the frequent checks of other cells stay short.
    """
    atomics = _atomics_of(Record(cell_address))
    for place in (AtomicCell.WRITE, AtomicCell.OTHER_WRITE):
        _race(atomics, place, site, address, base)
    with when(writes.equals(1)):
        _race(atomics, AtomicCell.READ, site, address, base)


def _read(cell_address: Word, site: Word, address: Word, base: Word, stamp: Word) -> None:
    cell = Record(cell_address)
    _race(cell, Cell.WRITE, site, address, base)
    with when(_has_atomics(cell)):
        perform("emulator_race_with_atomics", cell_address, site, address, base, 0)
    _note_by_block(cell, (Cell.READ, Cell.OTHER_READ), site, stamp)


def _update(
    cell_address: Word, site: Word, address: Word, base: Word, stamp: Word, writes: Word
) -> None:
    """Emit the check of an atomic access for races with plain accesses, which are not atomic.

    ``writes`` is 1 if the access writes. Later plain writes are checked against this access; later
    plain reads are checked against it only if it writes.
    """
    cell = Record(cell_address)
    atomics = _atomics_of(cell)
    _race(cell, Cell.WRITE, site, address, base)
    with when(_has_atomics(cell).choose(0, 1).equals(1)):
        for place in (AtomicCell.WRITE, AtomicCell.OTHER_WRITE, AtomicCell.READ):
            atomics[place] = 0
        cell[Cell.SITES] = cell[Cell.SITES] | (word(1) << ATOMICS_SHIFT)
    with when(writes.equals(1)):
        for place in (Cell.READ, Cell.OTHER_READ):
            _race(cell, place, site, address, base)
        _note_by_block(atomics, (AtomicCell.WRITE, AtomicCell.OTHER_WRITE), site, stamp)
    with when(writes.equals(0)):
        _note(atomics, AtomicCell.READ, site, stamp)


def _note_by_block(
    cell: Record, slots: tuple[Cell, Cell] | tuple[AtomicCell, AtomicCell], site: Word, stamp: Word
) -> None:
    """Emit the update of two words of a cell, which keep the last accesses by two blocks."""
    one, other = slots
    block = stamp >> BLOCK_SHIFT
    mine = (cell[one] >> BLOCK_SHIFT).equals(block)
    other_mine = (cell[other] >> BLOCK_SHIFT).equals(block)
    free = cell[one].equals(0)
    # A slot of this block, else a free slot, else a slot chosen by the block's number.
    even = (block & 1).equals(0)
    full = cell[other].differs(0)
    first = (mine | free | (even & full)).choose(1, 0)
    first = (other_mine & mine.choose(0, 1).equals(1)).choose(0, first)
    with when(first.equals(1)):
        _note(cell, one, site, stamp)
    with when(first.equals(0)):
        _note(cell, other, site, stamp)


def _note(cell: Record, place: Cell | AtomicCell, site: Word, stamp: Word) -> None:
    old = cell[place]
    alike = (old >> PHASE_SHIFT).equals(stamp >> PHASE_SHIFT)
    several = alike & lane_of(old).differs(lane_of(stamp))
    # Keep the largest number of releases: knowing it implies knowing the earlier ones.
    cell[place] = several.choose(stamp | (SEVERAL_LANES << LANE_SHIFT), stamp)
    cell[Cell.SITES] = _with_site(cell[Cell.SITES], place, site)


def check_alignment(address: Word, alignment: Word, site: Word) -> None:
    """Emit a check that ``address`` is a multiple of ``alignment`` bytes, as the hardware requires.

    ``alignment`` is a power of two. Otherwise, the launch stops with a fault at the operation with
    site index ``site``.
    """
    with when((address & (alignment - 1)).differs(0)):
        fault(Fault.MISALIGNED, site, address, address, alignment)


def _access(
    base: Word, address: Word, size: Word, site: Word, writes: Word, alignment: Word
) -> None:
    """Emit the check of an access of ``size`` bytes for alignment, bounds, unwritten memory, races.

    ``base`` is any address inside the intended buffer, and ``site`` the operation's site index.
    ``writes`` is 1 for a write, 0 for a read, and ``alignment`` a power of two, of which the
    address has to be a multiple. Memory outside the emulated device's memory (private memory,
    constants) is only checked for alignment.
    """
    check_alignment(address, alignment, site)
    within, origin, buffer = _located(base, address, size, site)
    with when(within.equals(1)):
        _check_cells(address, size, site, writes, origin, Record(buffer))


def _located(base: Word, address: Word, size: Word, site: Word) -> tuple[Word, Word, Word]:
    """Emit the check that an access of ``size`` bytes is within the buffer that contains ``base``.

    If ``base`` is outside the emulated device's memory, ``address`` identifies the buffer instead.
    Return three i64 values:

    - 1 if the access is to the emulated device's memory, else 0,
    - the address that identifies the buffer, ``base`` or ``address``,
    - the address of the buffer's record; 0 if the access is not to the emulated device's memory.
    """
    launch = world()
    inside = (address - launch[World.REGION]) < launch[World.REGION_BYTES]
    based = (base - launch[World.REGION]) < launch[World.REGION_BYTES]
    origin = based.choose(base, address)
    device = (inside | based).choose(1, 0)
    record = Variable(0)
    with when(inside | based):
        number = Record(launch[World.GRANULES])[
            (origin - launch[World.REGION]) >> (GRANULE_BYTES.bit_length() - 1)
        ]
        record.set(launch[World.BUFFERS] + number * (8 * len(Buffer)))
        buffer = Record(record.get())
        within = (address >= buffer[Buffer.BEGIN]) & ((address + size) <= buffer[Buffer.END])
        with when(within.choose(0, 1).equals(1)):
            fault(Fault.OUT_OF_BOUNDS, site, address, origin)
    return device, origin, record.get()


def _atomic(base: Word, address: Word, size: Word, site: Word, reads: Word, writes: Word) -> None:
    """Emit the check of an atomic access for bounds, unwritten memory and races.

    ``reads`` and ``writes`` are 1 if the access reads and if it writes; the other arguments are
    those of ``_access``.
    """
    within, origin, record = _located(base, address, size, site)
    buffer = Record(record)
    with when(within.equals(1)):
        _check_writable(address, site, writes, origin, buffer)
        with _each_cell(address, size) as (cell, here):
            with when(reads.equals(1)):
                _check_written(cell, site, here, origin, buffer)
            perform("emulator_update", cell, site, here, origin, _stamp(), writes)


def _stamp() -> Word:
    lane = current()
    return ((lane[Lane.BLOCK] + 1) << BLOCK_SHIFT) | clock(lane)


@contextmanager
def _each_cell(address: Word, size: Word) -> Generator[tuple[Word, Word]]:
    """Emit a loop over the shadow cells of ``size`` bytes at ``address``.

    Yield the address of the shadow cell, and that of the cell's bytes in the device memory.
    """
    launch = world()
    shift, region = launch[World.GRANULE_SHIFT], launch[World.REGION]
    shadow = launch[World.SHADOW]
    first = (address - region) >> shift
    last = (address + size - 1 - region) >> shift
    with each(first, last + 1) as number:
        yield shadow + number * (8 * len(Cell)), region + (number << shift)


def _check_writable(address: Word, site: Word, writes: Word, base: Word, buffer: Record) -> None:
    with when(writes.equals(1) & buffer[Buffer.READ_ONLY].equals(1)):
        fault(Fault.READ_ONLY, site, address, base)


def _check_written(cell_address: Word, site: Word, here: Word, base: Word, buffer: Record) -> None:
    """Emit the check that a read cell was written, or that its buffer was initialized.

    An atomic access writes the cell if it is the first access, since an atomic read has this check.
    """
    cell = Record(cell_address)
    never = cell[Cell.WRITE].equals(0) & buffer[Buffer.UNWRITTEN].equals(1)
    with when(never & (cell[Cell.SITES] >> ATOMICS_SHIFT).equals(0)):
        fault(Fault.UNWRITTEN, site, here, base)


def _check_cells(
    address: Word, size: Word, site: Word, writes: Word, base: Word, buffer: Record
) -> None:
    _check_writable(address, site, writes, base, buffer)
    stamp = _stamp()
    with _each_cell(address, size) as (cell, here):
        with when(writes.equals(1)):
            perform("emulator_write", cell, site, here, base, stamp)
        with when(writes.equals(0)):
            _check_written(cell, site, here, base, buffer)
            perform("emulator_read", cell, site, here, base, stamp)


def _index(index: Word, size: Word, site: Word, dimension: Word) -> None:
    """Emit the check that ``index`` is less than the size ``size`` of dimension ``dimension``.

    The comparison is unsigned, so a negative index is too large. ``dimension`` and the site index
    ``site`` are for the message.
    """
    with when(index >= size):
        fault(Fault.INDEX, site, index, size, dimension)


def emit_checks() -> None:
    """Emit the runtime's functions for all checks at the insertion point."""
    emit_synchronization()
    define("emulator_race_with_atomics", 5, _race_with_atomics)
    define("emulator_write", 5, _write)
    define("emulator_read", 5, _read)
    define("emulator_update", 6, _update)
    define("emulator_access", 6, _access)
    define("emulator_atomic", 6, _atomic)
    define("emulator_index", 4, _index)
