"""Emits the order of accesses that barriers, releases, acquires and fences of lanes establish.

Races are found by happens-before (as in FastTrack, Flanagan and Freund, PLDI 2009), specialized to
the synchronization of GPU lanes. A release is an atomic write to a counter in memory with release
order; an acquire is an atomic read of a counter with acquire order. Every access has a stamp:
block, lane, phase (the count of barriers that the block has passed, plus 1) and the count of the
lane's releases since the last barrier. A clock is a stamp without the block. A lane that knows a
block's clock knows all accesses of that block up to the clock. An access A happens before a later
access B in each of these cases:

- The same lane executes A and B.
- The same block executes A and B, and A in an earlier phase.
- The lane that executes B knows A.

A release stores the clocks that the releasing lane knows, and the lane's own clock, under the
counter's address. An acquire of that counter transfers these clocks to the acquiring lane, and the
next barrier transfers them to the lane's whole block. Releases and acquires count only at device or
system scope; fences turn adjacent relaxed atomics into releases and acquires.
"""

from __future__ import annotations

from rammer_mlir.emulation.codegen.i64_language import (
    Record,
    Truth,
    Variable,
    Word,
    call,
    define,
    each,
    perform,
    when,
    while_,
)
from rammer_mlir.emulation.codegen.scheduler import current, fault, lane_at, world
from rammer_mlir.emulation.records import (
    BLOCK_SHIFT,
    LANE_MASK,
    LANE_SHIFT,
    PHASE_SHIFT,
    RELEASES_MASK,
    SEVERAL_LANES,
    Block,
    Fault,
    Lane,
    World,
)

_CLOCK_MASK = (1 << BLOCK_SHIFT) - 1


def lane_of(stamp: Word) -> Word:
    """Emit and return the lane index of an access's stamp; ``SEVERAL_LANES`` if merged."""
    return (stamp >> LANE_SHIFT) & LANE_MASK


def _phase_of(stamp: Word) -> Word:
    return (stamp & _CLOCK_MASK) >> PHASE_SHIFT


def clock(lane: Record) -> Word:
    """Emit and return a lane's current clock, an i64 that orders the lane's accesses.

    The clock packs the block's phase (the count of barriers that the block has passed, plus 1), the
    lane's index in the block, and the count of the lane's releases since the last barrier.
    """
    phase = Record(lane[Lane.BLOCK_RECORD])[Block.PHASE]
    releases = lane[Lane.RELEASES]
    # Saturate: the field of a stamp has 8 bits, and its largest value means all releases.
    limited = (releases > RELEASES_MASK - 1).choose(RELEASES_MASK - 1, releases)
    return (phase << PHASE_SHIFT) | (lane[Lane.LANE] << LANE_SHIFT) | limited


def _join(a: Word, b: Word) -> Word:
    """Emit and return the join of two clocks of the same block, which covers both clocks.

    If the clocks are of different lanes in the same phase (between the same two barriers), the
    result covers all lanes of the block in that phase. This may hide a race, but never reports a
    false race.
    """
    later = (a > b).choose(a, b)
    same_phase = _phase_of(a).equals(_phase_of(b))
    other_lane = lane_of(a).differs(lane_of(b))
    known = a.differs(0) & b.differs(0)
    everyone = later | ((SEVERAL_LANES << LANE_SHIFT) | RELEASES_MASK)
    return (same_phase & other_lane & known).choose(everyone, later)


def _known_row(place: World, row: Word) -> Record:
    launch = world()
    return Record(launch[place] + row * launch[World.NUM_BLOCKS] * 8)


def _acquired_row(lane: Record) -> Record:
    return _known_row(World.ACQUIRED, lane[Lane.BLOCK] * world()[World.THREADS] + lane[Lane.LANE])


def _known(lane: Record, block: Word) -> Word:
    """Emit and return the latest clock of the block with index ``block`` that a lane knows.

    A lane knows the clocks that it has acquired itself since its last barrier, and the clocks that
    any lane of its block acquired before that barrier. The result is 0 if the lane knows no clock
    of ``block``.
    """
    known = Variable(_known_row(World.KNOWLEDGE, lane[Lane.BLOCK])[block])
    with when(lane[Lane.HAS_ACQUIRED].equals(1)):
        known.set(_join(known.get(), _acquired_row(lane)[block]))
    return known.get()


def _known_to_current(block: Word) -> Word:
    return _known(current(), block)


def _before(stamp: Word) -> Word:
    """Emit the value 1 if an earlier access happens before the running lane's access, else 0.

    ``stamp`` is the stamp of the earlier access: its block, its lane, the block's phase (the count
    of barriers that the block had passed, plus 1), and the count of the lane's releases (atomic
    writes with release order) since the last barrier.
    """
    lane = current()
    block = (stamp >> BLOCK_SHIFT) - 1
    result = Variable(1)
    with when(block.equals(lane[Lane.BLOCK])):
        phase = Record(lane[Lane.BLOCK_RECORD])[Block.PHASE]
        ordered = lane_of(stamp).equals(lane[Lane.LANE]) | (_phase_of(stamp) < phase)
        result.set(ordered.choose(1, 0))
    with when(block.differs(lane[Lane.BLOCK])):
        known = _known(lane, block)
        mine, seen = _phase_of(stamp), _phase_of(known)
        releaser = lane_of(known)
        by_lane = releaser.equals(lane_of(stamp)) & (
            (stamp & RELEASES_MASK) <= (known & RELEASES_MASK)
        )
        covered = by_lane | releaser.equals(SEVERAL_LANES)
        ordered = (mine < seen) | (mine.equals(seen) & covered & known.differs(0))
        result.set(ordered.choose(1, 0))
    return result.get()


def unordered(stamp: Word) -> Truth:
    """Emit and return a condition: an earlier access does not happen before the current access.

    The current access is that of the running lane. The order happens-before results from barriers,
    releases and acquires; two accesses without this order may be a race. ``stamp`` is the stamp of
    the earlier access, as for ``_before``. For a stamp of 0, which stands for no access, the
    condition is false.
    """
    result = Variable(0)
    with when(stamp.differs(0)):
        result.set(call("emulator_before", stamp) ^ 1)
    return result.get().equals(1)


def _find_counter(address: Word, site: Word, insert: Word) -> Word:
    """Emit a look-up of the atomic counter at ``address`` in the hash table of released clocks.

    Return the counter's index in the table plus 1. If the counter is not in the table, it is added
    if ``insert`` is 1; if ``insert`` is 0, the result is 0. ``site`` is the operation's site index,
    for messages.
    """
    launch = world()
    keys, capacity = Record(launch[World.SYNC_KEYS]), launch[World.SYNC_CAPACITY]
    place = Variable((address >> 2) % capacity)
    looks, found = Variable(0), Variable(0)
    with while_(lambda: found.get().equals(0) & (looks.get() <= capacity)):
        key = keys[place.get()]
        with when(key.equals(address) | (key.equals(0) & insert.equals(1))):
            keys[place.get()] = address
            found.set(place.get() + 1)
        with when(key.equals(0) & insert.equals(0)):
            looks.set(capacity)
        with when(found.get().equals(0)):
            place.set((place.get() + 1) % capacity)
        looks.set(looks.get() + 1)
    with when(found.get().equals(0) & insert.equals(1)):
        fault(Fault.TOO_MANY_COUNTERS, site)
    return found.get()


def _release(address: Word, site: Word, joins: Word, ordered: Word) -> None:
    """Emit the update of a counter's stored clocks at an atomic write by the running lane.

    At a release, the clocks that the lane knows are stored for the counter. A write is a release
    if it has release order, or if the lane has executed a release fence since its last barrier.
    At any other write, a store erases the stored clocks, and a read-modify-write keeps them.

    Args:
        address: the counter's address.
        site: the operation's site index.
        joins: 1 for a read-modify-write, which joins the lane's clocks with the stored clocks; 0
            for a store, which replaces the stored clocks.
        ordered: 1 for a write with release order, 0 for a relaxed write.
    """
    lane = current()
    clocks = _known_row(World.SYNC_CLOCKS, call("emulator_sync", address, site, 1) - 1)
    gives = ordered.equals(1) | lane[Lane.FENCED].equals(1)
    with each(0, world()[World.NUM_BLOCKS]) as block:
        mine = block.equals(lane[Lane.BLOCK])
        known = mine.choose(clock(lane), call("emulator_known", block))
        given = gives.choose(known, 0)
        kept = joins.equals(1).choose(clocks[block], 0)
        clocks[block] = call("emulator_join", kept, given)
    with when(gives):
        lane[Lane.RELEASES] = lane[Lane.RELEASES] + 1


def _acquire(address: Word, site: Word, ordered: Word) -> None:
    """Emit, for an atomic read of a counter, code by which the lane acquires the counter's clocks.

    The lane joins the clocks that are stored for the counter with the clocks that it knows.
    ``address`` is the counter's address, ``site`` the operation's site index. ``ordered`` is 1 for
    a read with acquire order and 0 for a relaxed read, after which the join happens at the lane's
    next acquire fence.
    """
    lane = current()
    with when(ordered.equals(0)):
        lane[Lane.LAST_RELAXED] = address
    with when(ordered.equals(1)):
        found = call("emulator_sync", address, site, 0)
        with when(found.differs(0)):
            clocks = _known_row(World.SYNC_CLOCKS, found - 1)
            row = _acquired_row(lane)
            with each(0, world()[World.NUM_BLOCKS]) as block:
                before = lane[Lane.HAS_ACQUIRED].equals(1).choose(row[block], 0)
                row[block] = call("emulator_join", before, clocks[block])
            lane[Lane.HAS_ACQUIRED] = 1


def _fence(acquires: Word, releases: Word) -> None:
    lane = current()
    with when(releases.equals(1)):
        lane[Lane.FENCED] = 1
    with when(acquires.equals(1) & lane[Lane.LAST_RELAXED].differs(0)):
        perform("emulator_acquire", lane[Lane.LAST_RELAXED], 0, 1)


def _join_at_barrier(block: Word, first: Word) -> None:
    """Emit code that joins all clocks that the lanes of ``block`` acquired before a barrier.

    After the barrier of the block, all lanes of the block know the joined clocks. ``block`` is the
    block's index, ``first`` the address of the record of the block's first lane.
    """
    launch = world()
    row = _known_row(World.KNOWLEDGE, block)
    with each(0, launch[World.THREADS]) as number:
        lane = lane_at(first, number)
        lane[Lane.FENCED] = 0
        with when(lane[Lane.HAS_ACQUIRED].equals(1)):
            lane[Lane.HAS_ACQUIRED] = 0
            learnt = _acquired_row(lane)
            with each(0, launch[World.NUM_BLOCKS]) as other:
                row[other] = call("emulator_join", row[other], learnt[other])


def emit_synchronization() -> None:
    """Emit the runtime's functions for the order of accesses at the insertion point."""
    define("emulator_join", 2, _join, returns=True)
    define("emulator_known", 1, _known_to_current, returns=True)
    define("emulator_before", 1, _before, returns=True)
    define("emulator_sync", 3, _find_counter, returns=True)
    define("emulator_release", 4, _release)
    define("emulator_acquire", 3, _acquire)
    define("emulator_fence", 2, _fence)
    define("emulator_meet", 2, _join_at_barrier)
