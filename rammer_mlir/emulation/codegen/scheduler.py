"""Emits the emulator's scheduler, which runs all lanes as fibers of a single thread.

The scheduler runs the lanes of all blocks one after the other on the caller's thread, in a fixed
order, and resumes a lane after it has yielded. Results are therefore deterministic, there may be
more blocks than cores, and a deadlocked launch is detected instead of hanging. A lane yields at
block barriers, at shuffles, before it polls an atomic location again, and after every atomic write.
The race checks (``checks``) do not depend on the order in which lanes run.
"""

from __future__ import annotations

from functools import partial

from rammer_mlir.emulation.codegen.fibers import FiberCode
from rammer_mlir.emulation.codegen.i64_language import (
    Record,
    Variable,
    Word,
    address_of,
    declare,
    define,
    each,
    global_word,
    load,
    perform,
    store,
    when,
    while_,
    word,
)
from rammer_mlir.emulation.records import (
    STACK_GUARD,
    Block,
    Fault,
    Lane,
    Shuffle,
    Status,
    World,
)

WORLD, LANE = "emulator_world", "emulator_current_lane"
"""Names of the globals with the addresses of the launch's record and the running lane's record."""

_OTHER_LOOKS = 8
"""Number of polls after which a lane yields even if each poll has another address than the last."""

LANE_WORDS, BLOCK_WORDS = len(Lane), len(Block)


def world() -> Record:
    """Emit a load of the address of the launch's record, and return the record (``World``)."""
    return Record(load(address_of(WORLD)))


def current() -> Record:
    """Emit a load of the address of the running lane's record, and return the record (``Lane``)."""
    return Record(load(address_of(LANE)))


def lane_at(first: Word, number: Word | int) -> Record:
    """Emit the address of the lane record with index ``number``, and return the record.

    ``first`` is the address of the record with index 0.
    """
    return Record(first + word(number) * (8 * LANE_WORDS))


def _count_progress() -> None:
    launch = world()
    launch[World.PROGRESS] = launch[World.PROGRESS] + 1


def _leave() -> None:
    """Emit a switch to the scheduler; the code that follows runs when the lane is resumed."""
    perform("emulator_switch", current().at(Lane.STACK), world()[World.SCHEDULER_STACK])


def _fault(
    kind: Word, site: Word, address: Word, base: Word, other: Word, other_site: Word
) -> None:
    """Emit the body of ``emulator_fault``, which stops a launch.

    The parameters are those of the function ``fault``.
    """
    launch, lane = world(), current()
    places = (World.FAULT, World.FAULT_SITE, World.FAULT_ADDRESS, World.FAULT_BASE,
              World.FAULT_OTHER, World.FAULT_OTHER_SITE)  # fmt: skip
    for place, value in zip(places, (kind, site, address, base, other, other_site), strict=True):
        launch[place] = value
    launch[World.FAULT_BLOCK] = lane[Lane.BLOCK]
    launch[World.FAULT_LANE] = lane[Lane.LANE]
    _leave()


def fault(
    kind: Fault,
    site: Word | int,
    address: Word | int = 0,
    base: Word | int = 0,
    other: Word | int = 0,
    other_site: Word | int = 0,
) -> None:
    """Emit a call that stops the launch with a fault at the operation with site index ``site``.

    ``address`` is the accessed address and ``base`` an address in the intended buffer. For a race,
    ``other`` is the stamp of the other access, and ``other_site`` the site index of the other
    access. For a fault without an address, such as an index out of bounds, the arguments are
    numbers that the fault's message prints.
    """
    perform("emulator_fault", int(kind), site, address, base, other, other_site)


def _barrier(site: Word) -> None:
    lane = current()
    threads = world()[World.THREADS]
    block = Record(lane[Lane.BLOCK_RECORD])
    first = lane_at(lane.address, word(0) - lane[Lane.LANE]).address
    lane[Lane.STATUS] = int(Status.BARRIER)
    lane[Lane.SITE] = site
    block[Block.ARRIVED] = block[Block.ARRIVED] + 1
    with when(block[Block.ARRIVED].equals(threads)):
        alike = _all_at(first, threads, Status.BARRIER, site)
        with when(alike.equals(1)):
            perform("emulator_meet", lane[Lane.BLOCK], first)
            block[Block.PHASE] = block[Block.PHASE] + 1
            block[Block.ARRIVED] = 0
            with each(0, threads) as number:
                other = lane_at(first, number)
                other[Lane.STATUS] = int(Status.READY)
                other[Lane.RELEASES] = 0
                other[Lane.POLL_ADDRESS] = 0
    with when(lane[Lane.STATUS].equals(int(Status.BARRIER))):
        _leave()


def _all_at(first: Word, count: Word, status: Status, site: Word) -> Word:
    """Emit the value 1 if all of ``count`` lanes have ``status`` at the operation ``site``, else 0.

    ``first`` is the address of the first lane's record, and ``site`` the operation's site index.
    """
    alike = Variable(1)
    with each(0, count) as number:
        other = lane_at(first, number)
        here = other[Lane.STATUS].equals(int(status)) & other[Lane.SITE].equals(site)
        alike.set(here.choose(alike.get(), 0))
    return alike.get()


def _shuffle(value: Word, offset: Word, width: Word, mode: Word, site: Word) -> Word:
    lane = current()
    subgroup = world()[World.SUBGROUP]
    in_group = lane[Lane.LANE] % subgroup
    first = lane_at(lane.address, word(0) - in_group)
    rest = world()[World.THREADS] - (lane[Lane.LANE] - in_group)
    count = (rest < subgroup).choose(rest, subgroup)
    places = (Lane.VALUE, Lane.OFFSET, Lane.WIDTH, Lane.MODE, Lane.SITE)
    for place, given in zip(places, (value, offset, width, mode, site), strict=True):
        lane[place] = given
    lane[Lane.STATUS] = int(Status.SHUFFLE)
    first[Lane.ARRIVED] = first[Lane.ARRIVED] + 1
    with when(first[Lane.ARRIVED].equals(count)):
        alike = _all_at(first.address, count, Status.SHUFFLE, site)
        with when(alike.equals(1)):
            _exchange(first.address, count)
            first[Lane.ARRIVED] = 0
    with when(lane[Lane.STATUS].equals(int(Status.SHUFFLE))):
        _leave()
    return lane[Lane.OFFSET]


def _exchange(first: Word, count: Word) -> None:
    """Emit the exchange of values of a shuffle between ``count`` lanes.

    ``first`` is the address of the first lane's record. A lane's result is stored in the word
    ``Lane.OFFSET`` of the lane's record, because other lanes still read the word ``Lane.VALUE``.
    The word ``Lane.VALID`` becomes 1 if the lane's source lane is in range, else 0.
    """
    with each(0, count) as number:
        lane = lane_at(first, number)
        offset, width, mode = lane[Lane.OFFSET], lane[Lane.WIDTH], lane[Lane.MODE]
        source = mode.equals(int(Shuffle.XOR)).choose(number ^ offset, offset)
        source = mode.equals(int(Shuffle.UP)).choose(number - offset, source)
        source = mode.equals(int(Shuffle.DOWN)).choose(number + offset, source)
        # A wave of 64 lanes is divided into parts of `width`, as in the lowering to rocdl;
        # in a warp, `width` is the number of participating lanes.
        wave = world()[World.SUBGROUP].equals(64)
        begin = wave.choose(number & (word(0) - width), 0)
        turned = begin + ((number + offset) & (width - 1))
        source = mode.equals(int(Shuffle.ROTATE)).choose(turned, source)
        valid = source < (begin + width)
        with when(valid & (source >= count)):
            fault(Fault.NO_SOURCE_LANE, lane[Lane.SITE], source, lane[Lane.LANE])
        chosen = valid.choose(source, number)
        lane[Lane.OFFSET] = lane_at(first, chosen)[Lane.VALUE]
        lane[Lane.VALID] = valid.choose(1, 0)
        lane[Lane.STATUS] = int(Status.READY)


def _poll(address: Word, site: Word) -> None:
    """Emit a yield to other lanes before an atomic read, executed only if the lane seems to poll.

    ``address`` is the address that the lane reads, and ``site`` the operation's site index. The
    lane yields in two cases:

    - The lane's last atomic read had the same address, and the lane has executed no barrier and no
      atomic write since then.
    - The lane has executed ``_OTHER_LOOKS`` atomic reads since it last yielded before a read. This
      covers lanes that poll several addresses by turns.

    The lane does not yield before other reads. A kernel that reads a result of another lane without
    waiting for this result is therefore likely to read too early, which reveals the error.
    """
    lane = current()
    again = lane[Lane.POLL_ADDRESS].equals(address) | (lane[Lane.LOOKS] >= _OTHER_LOOKS)
    lane[Lane.POLL_ADDRESS] = address
    lane[Lane.LOOKS] = lane[Lane.LOOKS] + 1
    with when(again):
        lane[Lane.LOOKS] = 0
        perform("emulator_wait", address, site)


def _offer(address: Word, site: Word) -> None:
    """Emit a yield after an atomic write, so that polling lanes run before the next write.

    ``address`` is the written address, and ``site`` the operation's site index.
    """
    perform("emulator_wait", address, site)
    current()[Lane.POLL_ADDRESS] = 0


def _wait(address: Word, site: Word) -> None:
    lane = current()
    lane[Lane.STATUS] = int(Status.POLLING)
    lane[Lane.SITE] = site
    lane[Lane.POLL_ADDRESS] = address
    _leave()


def _lane(record: Word) -> None:
    """Emit the body of ``emulator_lane``, which calls the kernel for a lane, on the lane's stack.

    ``record`` is the address of the lane's record.
    """
    lane = Record(record)
    perform("emulator_kernel", record)
    with when(lane[Lane.COPIES_BEGUN].differs(lane[Lane.COPIES_ENDED])):
        fault(Fault.COPY_NOT_AWAITED, lane[Lane.SITE])
    lane[Lane.STATUS] = int(Status.DONE)
    block = Record(lane[Lane.BLOCK_RECORD])
    block[Block.DONE] = block[Block.DONE] + 1
    _leave()


def _resume(record: Word) -> None:
    lane, launch = Record(record), world()
    store(address_of(LANE), record)
    lane[Lane.STATUS] = int(Status.READY)
    perform("emulator_switch", launch.at(World.SCHEDULER_STACK), lane[Lane.STACK])
    intact = load(lane[Lane.STACK_TOP]).equals(STACK_GUARD)
    with when(intact.choose(0, 1).equals(1)):
        launch[World.FAULT] = int(Fault.STACK_OVERFLOW)
        launch[World.FAULT_BLOCK] = lane[Lane.BLOCK]
        launch[World.FAULT_LANE] = lane[Lane.LANE]


def _turn(block_number: Word) -> None:
    """Emit a loop that resumes a block's lanes until every lane waits, polls or has ended.

    A polling lane is resumed at most once, for one poll. If no lane polls and not all lanes have
    ended, the launch stops: lanes wait at a barrier or shuffle that others never reach.
    ``block_number`` is the block's index.
    """
    launch = world()
    threads = launch[World.THREADS]
    first = lane_at(launch[World.LANES], block_number * threads).address
    again, looked = Variable(1), Variable(0)
    waiting = Variable(0)
    with while_(lambda: again.get().equals(1) & launch[World.FAULT].equals(0)):
        again.set(0)
        waiting.set(0)
        with each(0, threads) as number:
            lane = lane_at(first, number)
            status = lane[Lane.STATUS]
            ready = status.equals(int(Status.READY))
            with when(ready):
                _count_progress()
                again.set(1)
            polls = status.equals(int(Status.POLLING))
            waiting.set(polls.choose(1, waiting.get()))
            look = polls & looked.get().equals(0)
            with when((ready | look) & launch[World.FAULT].equals(0)):
                perform("emulator_resume", lane.address)
                again.set(1)
        looked.set(1)
    block = Record(launch[World.BLOCKS] + block_number * (8 * BLOCK_WORDS))
    unfinished = block[Block.DONE].differs(threads) & waiting.get().equals(0)
    with when(unfinished & launch[World.FAULT].equals(0)):
        launch[World.FAULT] = int(Fault.STUCK)
        launch[World.FAULT_BLOCK] = block_number


def _begin_lanes(fibers: FiberCode) -> None:
    """Emit the initialization of every lane's first stack frame, from which the lane starts."""
    launch = world()
    with each(0, launch[World.NUM_BLOCKS] * launch[World.THREADS]) as number:
        lane = lane_at(launch[World.LANES], number)
        frame = Record(lane[Lane.STACK] - 8 * fibers.frame_words)
        frame[fibers.argument] = lane.address
        frame[fibers.function] = address_of("emulator_lane")
        frame[fibers.resume] = address_of("emulator_begin")
        lane[Lane.STACK] = frame.address


def _launch(fibers: FiberCode, record: Word) -> None:
    """Emit the loop that runs a launch to its end, or to its first fault.

    ``record`` is the address of the launch's record.
    """
    store(address_of(WORLD), record)
    launch = world()
    _begin_lanes(fibers)
    done, idle = Variable(0), Variable(0)
    with while_(lambda: done.get().equals(0) & launch[World.FAULT].equals(0)):
        before = launch[World.PROGRESS]
        done.set(1)
        with each(0, launch[World.NUM_BLOCKS]) as number:
            block = Record(launch[World.BLOCKS] + number * (8 * BLOCK_WORDS))
            with when(block[Block.DONE].differs(launch[World.THREADS])):
                done.set(0)
                with when(launch[World.FAULT].equals(0)):
                    perform("emulator_turn", number)
        moved = launch[World.PROGRESS].differs(before)
        idle.set(moved.choose(0, idle.get() + 1))
        late = idle.get() > launch[World.IDLE_LIMIT]
        with when(late & done.get().equals(0) & launch[World.FAULT].equals(0)):
            launch[World.FAULT] = int(Fault.HANG)


def _lane_word(place: Word) -> Word:
    return current()[place]


def _launch_word(place: Word) -> Word:
    return world()[place]


def _nothing(*_: Word) -> None:
    """Emit nothing: the body of ``emulator_meet`` for kernels without checks.

    Barriers call ``emulator_meet``, which joins the lanes' clocks in kernels with checks.
    """


def emit_scheduler(fibers: FiberCode) -> None:
    """Emit the runtime's functions that run lanes, at the insertion point.

    Kernels call ``emulator_barrier``, ``emulator_shuffle`` and ``emulator_poll``. Python starts a
    launch by ``emulator_launch``. The caller must define ``emulator_kernel``, which runs the kernel
    for a lane, and ``emulator_meet``, which barriers call.
    """
    global_word(WORLD)
    global_word(LANE)
    declare("emulator_switch", 2)
    declare("emulator_kernel", 1)
    declare("emulator_begin", 0)
    define("emulator_fault", 6, _fault)
    define("emulator_barrier", 1, _barrier)
    define("emulator_shuffle", 5, _shuffle, returns=True)
    define("emulator_wait", 2, _wait)
    define("emulator_poll", 2, _poll)
    define("emulator_offer", 2, _offer)
    define("emulator_progress", 0, _count_progress)
    define("emulator_lane", 1, _lane)
    define("emulator_resume", 1, _resume)
    define("emulator_turn", 1, _turn)
    define("emulator_lane_word", 1, _lane_word, returns=True)
    define("emulator_launch_word", 1, _launch_word, returns=True)
    define("emulator_launch", 1, partial(_launch, fibers))


def emit_unchecked() -> None:
    """Emit an empty function ``emulator_meet``, which barriers call, for kernels without checks."""
    define("emulator_meet", 2, _nothing)
