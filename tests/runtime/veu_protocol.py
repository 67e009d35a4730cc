"""A model of the protocol by which threads share vEUs and jobs, to search all its states.

A step of a thread is one access to shared memory in ``lowering/cpu/veus.mlir`` or ``runtime.mlir``.
Accesses that only the holder of a vEU makes are merged with the next access that others can see. A
thread that polls may continue or stop after any poll, so that all numbers of polls are covered.
Ghost variables, which the real code does not have, state the conditions to check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Wait = tuple[int, int]
Record = Wait | None
"""A barrier, as the awaited vEU and the number of its steps, or None for a run of one rTask."""

Thread = tuple[object, ...]
"""The next action of a thread, followed by its variables."""

Scan = Thread | bool
"""A thread's variable in an epoch: the flag of a caller, or the scan of a thread of the pool."""


class Mutation(Enum):
    """Errors that can be built into the protocol, each of which the search has to find."""

    NONE = "none"
    RELEASE_BEFORE_POSITION = "give the vEU back before its position is stored"
    TAKE_IN_TWO_STEPS = "take a vEU by a load and a store"
    TAKE_IN_ANY_EPOCH = "take a vEU without comparing its epoch"
    HINT_ALONE = "go on after a barrier because the vEU was found ready before it was taken"
    POSITION_STAYS = "leave the position at the end of the records"
    STEPS_FROM_BASE = "count the steps of a vEU that goes on from its base"
    HELD_IS_ENDED = "take a vEU that is held for one that has ended"
    LEFT_IS_ENDED = "give a vEU that was left back as ended"
    SLEEP_UNCONDITIONALLY = "sleep without comparing the bell again"
    SLEEPERS_FIRST = "look for sleeping threads before the bell rings"
    NOBODY_WAKES = "ring the bell without waking anybody"
    RING_FIRST = "ring the bell before the job is in the table"
    TABLE_FIRST = "go through the table before the bell is read"


class Violation(Exception):
    """The error of a state that violates a condition of the protocol."""


class State(NamedTuple):
    """The state of the model: shared memory, threads, and ghost variables.

    The bell is a counter that callers increase ("ring") to wake the pool's sleeping threads.

    Attributes:
        bell: number of times that the bell has rung.
        stop: whether the pool's threads shall end.
        sleepers: number of threads that sleep or are about to.
        callers: number of launches in progress.
        table: for each job, whether the pool's threads may join it.
        epochs: for each job, number of launches that have begun.
        owners: for each vEU, the last epoch that it has completed, and whether a thread holds it.
        positions: for each vEU, the stored index of its next record.
        hints: for each vEU, the index of the record at which it was left, or -1.
        counters: step counter of each vEU.
        threads: the next action of each thread, with its variables; the callers come first.
        executed: ghost: number of records that each vEU has executed in the current run of its job.
        running: ghost: for each job, whether a launch has begun and has not returned.
    """

    bell: int
    stop: bool
    sleepers: int
    callers: int
    table: tuple[bool, ...]
    epochs: tuple[int, ...]
    owners: tuple[tuple[int, bool], ...]
    positions: tuple[int, ...]
    hints: tuple[int, ...]
    counters: tuple[int, ...]
    threads: tuple[Thread, ...]
    executed: tuple[int, ...]
    running: tuple[bool, ...]


def _put(values: tuple[object, ...], place: int, value: object) -> tuple[object, ...]:
    return (*values[:place], value, *values[place + 1 :])


@dataclass(frozen=True)
class Protocol:
    """The protocol for threads that execute the same records in several runs, and then end.

    Each caller has a job of its own; all jobs execute the same program.

    Attributes:
        veus: records of each vEU of a job.
        num_threads: number of threads, including the callers'.
        num_callers: number of threads that launch.
        num_runs: number of launches of each caller.
        limit: the greatest number of threads that compute; None for ``num_threads``.
        is_guided: whether threads take only vEUs that seem ready, as the real code does. Otherwise
            they may take any vEU, as after wrong hints. The guided search shows that hints suffice
            to reach the end.
        mutation: an error that is built in.
    """

    veus: tuple[Sequence[Record], ...]
    num_threads: int = 3
    num_callers: int = 1
    num_runs: int = 2
    limit: int | None = None
    is_guided: bool = True
    mutation: Mutation = Mutation.NONE
    totals: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Count the rTasks of each vEU in a run."""
        totals = tuple(sum(record is None for record in veu) for veu in self.veus)
        object.__setattr__(self, "totals", totals)

    def first(self) -> State:
        """Return the state before the first launch."""
        jobs, veus = self.num_callers, self.num_callers * len(self.veus)
        workers = (("idle", 0, self._none()),) * (self.num_threads - jobs)
        return State(
            bell=0, stop=False, sleepers=0, callers=0, table=(False,) * jobs, epochs=(0,) * jobs,
            owners=((0, False),) * veus, positions=(0,) * veus, hints=(-1,) * veus,
            counters=(0,) * veus, threads=(*([("bind",)] * jobs), *workers), executed=(0,) * veus,
            running=(False,) * jobs,
        )  # fmt: skip

    def is_last(self, state: State) -> bool:
        """Whether all threads have ended."""
        return all(thread == ("gone",) for thread in state.threads)

    def steps(self, state: State) -> Iterator[State]:
        """Yield every state that a single step of some thread leads to.

        Raises:
            Violation: if the step violates a condition of the protocol.
        """
        for number, thread in enumerate(state.threads):
            yield from getattr(self, f"_{thread[0]}")(state, number, *thread[1:])

    def check(self, state: State) -> None:
        """Check the condition that must hold in every state: no wake-up is lost.

        Raises:
            Violation: if nothing will wake a sleeping thread although the table has a job that the
                thread has not found, or the pool shall end.
        """
        for me, thread in enumerate(state.threads[self.num_callers :], start=1):
            if thread[0] != "asleep":
                continue
            found = thread[2]
            assert isinstance(found, tuple)
            for job in range(self.num_callers):
                is_open = state.table[job] and state.running[job]
                is_new = is_open and state.epochs[job] != found[job]
                is_needed = is_new and me + state.callers <= self._limit()
                is_stop = state.stop and job == 0
                if (is_needed or is_stop) and not self._will_ring(state.threads[job]):
                    raise Violation("a wake-up is lost")

    def _will_ring(self, caller: Thread) -> bool:
        """Return whether a caller will ring the bell, or is about to wake the sleeping threads.

        The bell is a counter that callers increase; the pool's threads sleep while it is unchanged.
        """
        has_not_rung = "part", "take", "store", "hold", "release", "late"
        if caller[0] in has_not_rung:
            return caller[3] is False
        return caller[0] in ("ring", "look", "wake", "call")

    def _none(self) -> tuple[int, ...]:
        return (0,) * self.num_callers

    def _limit(self) -> int:
        return self.num_threads if self.limit is None else self.limit

    def _go(self, state: State, number: int, *thread: object, **changes: object) -> State:
        threads = _put(state.threads, number, thread)
        return state._replace(threads=threads, **changes)

    def _veus(self, job: int) -> range:
        """Return the indices of a job's vEUs among the vEUs of all jobs."""
        count = len(self.veus)
        return range(job * count, (job + 1) * count)

    def _records(self, veu: int) -> Sequence[Record]:
        return self.veus[veu % len(self.veus)]

    # A caller: its number is that of its job.

    def _bind(self, state: State, number: int) -> Iterator[State]:
        """Yield the state after caller ``number`` has prepared its next run, or has ended.

        Raises:
            Violation: if a thread still holds a vEU of the caller's job.
        """
        if any(state.owners[veu][1] for veu in self._veus(number)):
            raise Violation("a run begins while a vEU is held")
        if state.epochs[number] < self.num_runs:
            yield self._go(state, number, "begin", callers=state.callers + 1)
        elif number:
            yield self._go(state, number, "gone")
        elif all(thread == ("gone",) for thread in state.threads[1 : self.num_callers]):
            yield self._go(state, number, *self._announcing(), stop=True)

    def _begin(self, state: State, number: int) -> Iterator[State]:
        """Yield the state after caller ``number`` has begun the next epoch (launch) of its job."""
        executed = state.executed
        for veu in self._veus(number):
            executed = _put(executed, veu, 0)
        epoch = state.epochs[number] + 1
        rings_first = self.mutation is Mutation.RING_FIRST and state.callers < self._limit()
        following: Thread = self._announcing() if rings_first else ("enter",)
        yield self._go(
            state, number, *following, epochs=_put(state.epochs, number, epoch), executed=executed,
            running=_put(state.running, number, True),
        )  # fmt: skip

    def _enter(self, state: State, number: int) -> Iterator[State]:
        has_rung = self.mutation is Mutation.RING_FIRST
        yield self._go(
            state, number, "part", number, state.epochs[number], has_rung,
            table=_put(state.table, number, True),
        )  # fmt: skip

    def _announcing(self) -> Thread:
        return ("look",) if self.mutation is Mutation.SLEEPERS_FIRST else ("ring",)

    def _look(self, state: State, number: int) -> Iterator[State]:
        yield self._go(state, number, "ring", state.sleepers)

    def _ring(self, state: State, number: int, *sleepers: int) -> Iterator[State]:
        following = ("call", *sleepers) if sleepers else ("wake",)
        yield self._go(state, number, *following, bell=state.bell + 1)

    def _wake(self, state: State, number: int) -> Iterator[State]:
        """Yield the state after caller ``number`` has read the number of sleeping threads.

        In the next step, the caller wakes them.
        """
        yield self._go(state, number, "call", state.sleepers)

    def _call(self, state: State, number: int, sleepers: int) -> Iterator[State]:
        """Yield the state after caller ``number`` has woken all sleeping threads.

        The caller wakes no thread if ``sleepers``, the number that it has read, is 0.
        """
        following: Thread = ("part", number, state.epochs[number], True)
        if state.stop:
            following = ("join",)
        elif self.mutation is Mutation.RING_FIRST:
            following = ("enter",)
        state = self._go(state, number, *following)
        if sleepers and self.mutation is not Mutation.NOBODY_WAKES:
            threads = tuple(
                ("woken", thread[1], thread[2]) if thread[0] == "asleep" else thread
                for thread in state.threads
            )
            state = state._replace(threads=threads)
        yield state

    def _join(self, state: State, number: int) -> Iterator[State]:
        if all(thread == ("gone",) for thread in state.threads[1:]):
            yield self._go(state, number, "gone")

    def _return(self, state: State, number: int) -> State:
        veus = self._veus(number)
        if [state.executed[veu] for veu in veus] != [*map(len, self.veus)]:
            raise Violation("a launch returns before all records are executed")
        totals = [state.epochs[number] * total for total in self.totals]
        if [state.counters[veu] for veu in veus] != totals:
            raise Violation("a step counter has not counted all steps")
        return self._go(state, number, "leave", running=_put(state.running, number, False))

    def _leave(self, state: State, number: int) -> Iterator[State]:
        """Yield the state after caller ``number`` has removed its job from the table of jobs."""
        yield self._go(state, number, "end", table=_put(state.table, number, False))

    def _end(self, state: State, number: int) -> Iterator[State]:
        yield self._go(state, number, "bind", callers=state.callers - 1)

    # Any thread in an epoch. A caller has a flag, whether it has rung since it is not alone. A
    # thread of the pool has a scan: the bell that it has heard, the epoch of each job that it has
    # found, and whether all vEUs of these jobs had ended.

    def _part(self, state: State, number: int, job: int, epoch: int, scan: Scan) -> Iterator[State]:
        """Yield the states after thread ``number`` has tried to take a vEU of ``job``.

        If all vEUs have completed the launch ``epoch``, the thread leaves the job. Only a thread of
        the pool leaves earlier: if no vEU is free, or if callers take its place among the ``limit``
        threads. A caller first wakes the pool's threads, unless it has done so, if the limit allows
        more threads.

        ``scan`` is, for a caller, whether it has woken them; for a thread of the pool, its
        variables: the bell, the epochs of the jobs, and whether these jobs have ended.
        """
        me = number - self.num_callers + 1
        is_alone = state.callers >= self._limit()
        if isinstance(scan, tuple):
            if me + state.callers > self._limit():
                yield self._next_job(state, number, job, epoch, scan, False)
                return
        elif not scan and not is_alone:
            yield self._go(state, number, *self._announcing())
            return
        else:
            scan = not is_alone
        owners = [state.owners[veu] for veu in self._veus(job)]
        for veu in self._veus(job):
            if not self.is_guided:
                yield from self._take(state, number, job, epoch, scan, veu)
            elif self._is_ready(state, epoch, veu):
                yield self._go(state, number, "take", job, epoch, scan, veu)
        if all(self._seems_ended(owner, epoch) for owner in owners):
            if isinstance(scan, tuple):
                yield self._next_job(state, number, job, epoch, scan, True)
            else:
                yield self._return(state, number)
        elif isinstance(scan, tuple) and (epoch - 1, False) not in owners:
            yield self._next_job(state, number, job, epoch, scan, False)

    def _next_job(
        self, state: State, number: int, job: int, epoch: int, scan: Thread, has_ended: bool
    ) -> State:
        bell, found, all_ended = scan
        assert isinstance(found, tuple)
        found = _put(found, job, epoch)
        return self._go(state, number, "table", job + 1, (bell, found, all_ended and has_ended))

    def _seems_ended(self, owner: tuple[int, bool], epoch: int) -> bool:
        is_held = self.mutation is Mutation.HELD_IS_ENDED and owner[1]
        return owner[0] != epoch - 1 or is_held

    def _is_ready(self, state: State, epoch: int, veu: int) -> bool:
        if state.owners[veu] != (epoch - 1, False):
            any_epoch = self.mutation is Mutation.TAKE_IN_ANY_EPOCH
            return any_epoch and not state.owners[veu][1]
        hint = state.hints[veu]
        return hint < 0 or self._is_met(state, veu, self._records(veu)[hint])

    def _is_met(self, state: State, veu: int, record: Record) -> bool:
        assert record is not None
        awaited, steps = record
        job = veu // len(self.veus)
        before = (state.epochs[job] - 1) * self.totals[awaited]
        return state.counters[self._veus(job)[awaited]] >= before + steps

    def _take(
        self, state: State, number: int, job: int, epoch: int, scan: Scan, veu: int
    ) -> Iterator[State]:
        free = epoch - 1, False
        if self.mutation is Mutation.TAKE_IN_ANY_EPOCH:
            free = state.owners[veu][0], False
        if state.owners[veu] != free:
            if self.is_guided:
                yield self._go(state, number, "part", job, epoch, scan)
        elif self.mutation is Mutation.TAKE_IN_TWO_STEPS:
            yield self._go(state, number, "store", job, epoch, scan, veu)
        else:
            yield from self._store(state, number, job, epoch, scan, veu)

    def _store(
        self, state: State, number: int, job: int, epoch: int, scan: Scan, veu: int
    ) -> Iterator[State]:
        owners = _put(state.owners, veu, (epoch - 1, True))
        place = state.positions[veu]
        way = job, epoch, scan, veu
        if self.mutation is Mutation.HINT_ALONE and state.hints[veu] >= 0:
            state = self._executed(state, number, way, place, True)
            place += 1
        yield self._go(state, number, "hold", *way, place, place > 0, owners=owners)

    def _hold(
        self, state: State, number: int, job: int, epoch: int, scan: Scan, veu: int,
        place: int, goes_on: bool,
    ) -> Iterator[State]:  # fmt: skip
        """Yield the state after thread ``number`` has executed the next record of a held vEU.

        If the record is a barrier that must wait, or if all records are executed, the thread stores
        the vEU's position and gives the vEU back in its next step. ``place`` is the index of the
        record; ``goes_on`` is whether the thread took the vEU in the middle of its records.
        """
        records = self._records(veu)
        if place == len(records):
            position = place - 1 if self.mutation is Mutation.POSITION_STAYS else 0
            positions = _put(state.positions, veu, position)
            hints = _put(state.hints, veu, -1)
            yield self._go(
                state, number, "release", job, epoch, scan, veu, epoch, positions=positions,
                hints=hints,
            )  # fmt: skip
            return
        record = records[place]
        if record is None or self._is_met(state, veu, record):
            yield self._executed(state, number, (job, epoch, scan, veu), place, goes_on)
        elif self.mutation is Mutation.RELEASE_BEFORE_POSITION:
            owners = _put(state.owners, veu, (epoch - 1, False))
            yield self._go(state, number, "late", job, epoch, scan, veu, place, owners=owners)
        else:
            ended = epoch if self.mutation is Mutation.LEFT_IS_ENDED else epoch - 1
            positions, hints = _put(state.positions, veu, place), _put(state.hints, veu, place)
            yield self._go(
                state, number, "release", job, epoch, scan, veu, ended, positions=positions,
                hints=hints,
            )  # fmt: skip

    def _executed(
        self, state: State, number: int, way: tuple[int, int, Scan, int], place: int,
        goes_on: bool,
    ) -> State:  # fmt: skip
        """Return the state after thread ``number`` has executed a record of a vEU that it holds.

        ``place`` is the index of the record. If the record is an rTask, its step is published.
        ``way`` has the job, the epoch, the scan (as in ``_part``) and the vEU; ``goes_on`` is as in
        ``_hold``.
        """
        job, _, _, veu = way
        self._check_record(state, job, veu, place)
        counters = state.counters
        records = self._records(veu)
        if records[place] is None:
            before = (state.epochs[job] - 1) * self.totals[veu % len(self.veus)]
            is_counted = not goes_on or self.mutation is not Mutation.STEPS_FROM_BASE
            done = sum(record is None for record in records[:place]) if is_counted else 0
            counters = _put(counters, veu, before + done + 1)
        executed = _put(state.executed, veu, place + 1)
        return self._go(
            state, number, "hold", *way, place + 1, goes_on, counters=counters, executed=executed
        )

    def _check_record(self, state: State, job: int, veu: int, place: int) -> None:
        if not state.running[job]:
            raise Violation("a record is executed between two runs")
        if state.executed[veu] != place:
            raise Violation("a record is not executed once and in order")
        record = self._records(veu)[place]
        if record is not None:
            awaited, steps = record
            done = self.veus[awaited][: state.executed[self._veus(job)[awaited]]]
            if sum(each is None for each in done) < steps:
                raise Violation("a barrier is passed before it is met")

    def _release(
        self, state: State, number: int, job: int, epoch: int, scan: Scan, veu: int,
        ended: int,
    ) -> Iterator[State]:  # fmt: skip
        owners = _put(state.owners, veu, (ended, False))
        yield self._go(state, number, "part", job, epoch, scan, owners=owners)

    def _late(
        self, state: State, number: int, job: int, epoch: int, scan: Scan, veu: int,
        place: int,
    ) -> Iterator[State]:  # fmt: skip
        positions, hints = _put(state.positions, veu, place), _put(state.hints, veu, place)
        yield self._go(state, number, "part", job, epoch, scan, positions=positions, hints=hints)

    # The pool's threads between jobs.

    def _idle(self, state: State, number: int, seen: int, found: Thread) -> Iterator[State]:
        if state.bell == seen:
            yield self._go(state, number, "doze", seen, found)
        elif state.stop:
            yield self._go(state, number, "gone")
        else:
            yield self._go(state, number, "table", 0, (state.bell, self._none(), True))

    def _table(self, state: State, number: int, job: int, scan: Thread) -> Iterator[State]:
        """Yield the state after thread ``number`` of the pool has read entry ``job`` of the table.

        ``scan`` is as in ``_part``. After the last entry, the thread waits for the bell if all jobs
        that it has found have ended, and otherwise goes to sleep.
        """
        bell, found, all_ended = scan
        if job == self.num_callers:
            if self.mutation is Mutation.TABLE_FIRST:
                bell = state.bell
            yield self._go(state, number, "idle" if all_ended else "doze", bell, found)
        elif state.table[job]:
            yield self._go(state, number, "read", job, scan)
        else:
            yield self._go(state, number, "table", job + 1, scan)

    def _read(self, state: State, number: int, job: int, scan: Thread) -> Iterator[State]:
        yield self._go(state, number, "part", job, state.epochs[job], scan)

    def _doze(self, state: State, number: int, seen: int, found: Thread) -> Iterator[State]:
        yield self._go(state, number, "sleep", seen, found, sleepers=state.sleepers + 1)

    def _sleep(self, state: State, number: int, seen: int, found: Thread) -> Iterator[State]:
        """Yield the state after thread ``number`` of the pool has fallen asleep.

        The thread sleeps only if the bell is still ``seen``; the system compares and sleeps
        atomically.
        """
        compares = self.mutation is not Mutation.SLEEP_UNCONDITIONALLY
        if compares and state.bell != seen:
            yield self._go(state, number, "woken", seen, found)
        else:
            yield self._go(state, number, "asleep", seen, found)

    def _asleep(self, *_: object) -> Iterator[State]:
        return iter(())

    def _woken(self, state: State, number: int, seen: int, found: Thread) -> Iterator[State]:
        yield self._go(state, number, "idle", seen, found, sleepers=state.sleepers - 1)

    def _gone(self, *_: object) -> Iterator[State]:
        return iter(())


def search(protocol: Protocol) -> int:
    """Visit every state that the protocol can reach; return the count of the states.

    Raises:
        Violation: if a state violates a condition, or the end cannot be reached from it.
    """
    first = protocol.first()
    before: dict[State, list[State]] = {first: []}
    pending, last = [first], []
    while pending:
        state = pending.pop()
        protocol.check(state)
        if protocol.is_last(state):
            last.append(state)
        for following in protocol.steps(state):
            if following not in before:
                before[following] = []
                pending.append(following)
            before[following].append(state)
    _check_ways(before, last)
    return len(before)


def _check_ways(before: dict[State, list[State]], last: list[State]) -> None:
    """Check that the end can be reached from every state, so that no threads wait for ever.

    ``before`` has the predecessors of each state; ``last`` has the final states.
    """
    ending, pending = set(last), list(last)
    while pending:
        for state in before[pending.pop()]:
            if state not in ending:
                ending.add(state)
                pending.append(state)
    if len(ending) < len(before):
        raise Violation("threads wait for each other for ever")
