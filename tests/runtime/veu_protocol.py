"""A model of the protocol by which threads share vEUs, small enough to search all its states.

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
"""A barrier, as the vEU that is awaited and its steps, or a run of one rTask."""

Thread = tuple[object, ...]
"""What a thread does next, and its variables."""


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
    SLEEP_UNCONDITIONALLY = "sleep without comparing the epoch again"
    SLEEPERS_FIRST = "look for sleeping threads before the epoch begins"
    NOBODY_WAKES = "begin an epoch without waking anybody"


class Violation(Exception):
    """The error of a state that violates a condition of the protocol."""


class State(NamedTuple):
    """The state of the model: shared memory, threads, and ghost variables.

    Attributes:
        epoch: number of launches that the pool has begun, including the last to stop it.
        stop: whether the pool's threads shall end.
        sleepers: number of threads that sleep or are about to.
        run: number of the current run, from 0.
        owners: for each vEU, the last epoch that it has completed, and whether a thread holds it.
        positions: for each vEU, the stored index of its next record.
        hints: for each vEU, the index of the record at which it was left, or -1.
        counters: step counter of each vEU.
        threads: the next action of each thread, with its variables; the first is the caller's.
        executed: ghost: number of records that each vEU has executed in this run.
        is_running: ghost: whether a launch has begun and has not returned.
    """

    epoch: int
    stop: bool
    sleepers: int
    run: int
    owners: tuple[tuple[int, bool], ...]
    positions: tuple[int, ...]
    hints: tuple[int, ...]
    counters: tuple[int, ...]
    threads: tuple[Thread, ...]
    executed: tuple[int, ...]
    is_running: bool = False


def _put(values: tuple[object, ...], place: int, value: object) -> tuple[object, ...]:
    return (*values[:place], value, *values[place + 1 :])


@dataclass(frozen=True)
class Protocol:
    """The protocol for threads that execute the same records in several runs, and then end.

    Attributes:
        veus: records of each vEU.
        num_threads: number of threads, including the caller's.
        num_runs: number of launches.
        is_guided: whether threads take only vEUs that seem ready, as the real code does. Otherwise
            they may take any vEU: that allows for any wrong hint, while the former shows that hints
            are enough to reach the end.
        mutation: an error that is built in.
    """

    veus: tuple[Sequence[Record], ...]
    num_threads: int = 3
    num_runs: int = 2
    is_guided: bool = True
    mutation: Mutation = Mutation.NONE
    totals: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Count the rTasks of each vEU in a run."""
        totals = tuple(sum(record is None for record in veu) for veu in self.veus)
        object.__setattr__(self, "totals", totals)

    def first(self) -> State:
        """Return the state before the first launch."""
        none = (0,) * len(self.veus)
        workers = (("idle", 0),) * (self.num_threads - 1)
        return State(
            0, False, 0, -1, ((0, False),) * len(self.veus), none, (-1,) * len(self.veus), none,
            (("bind",), *workers), none,
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
            Violation: if a thread sleeps although an epoch has begun and nothing will wake it.
        """
        caller = state.threads[0][0]
        for thread in state.threads[1:]:
            is_late = thread[0] == "asleep" and thread[2] != state.epoch
            if is_late and caller not in ("wake", "call"):
                raise Violation("a wake-up is lost")

    def _go(self, state: State, number: int, *thread: object, **changes: object) -> State:
        threads = _put(state.threads, number, thread)
        return state._replace(threads=threads, **changes)

    # The caller.

    def _bind(self, state: State, number: int) -> Iterator[State]:
        """Prepare the next run, or the end, in the caller's thread; no vEU may be held."""
        if any(held for _, held in state.owners):
            raise Violation("a run begins while a vEU is held")
        if state.run + 1 == self.num_runs:
            yield self._go(state, number, *self._announcing(), stop=True)
        else:
            none = (0,) * len(self.veus)
            yield self._go(
                state, number, *self._announcing(), run=state.run + 1, executed=none,
                is_running=True,
            )  # fmt: skip

    def _announcing(self) -> Thread:
        return ("look",) if self.mutation is Mutation.SLEEPERS_FIRST else ("begin",)

    def _look(self, state: State, number: int) -> Iterator[State]:
        yield self._go(state, number, "begin", state.sleepers)

    def _begin(self, state: State, number: int, *sleepers: int) -> Iterator[State]:
        following = ("call", *sleepers) if sleepers else ("wake",)
        yield self._go(state, number, *following, epoch=state.epoch + 1)

    def _wake(self, state: State, number: int) -> Iterator[State]:
        """Read the number of sleeping threads, in the caller's thread."""
        yield self._go(state, number, "call", state.sleepers)

    def _call(self, state: State, number: int, sleepers: int) -> Iterator[State]:
        """Wake all sleeping threads, in the caller's thread, if ``sleepers`` is above 0."""
        following: Thread = ("join",) if state.stop else ("part", state.epoch, 0)
        state = self._go(state, number, *following)
        if sleepers and self.mutation is not Mutation.NOBODY_WAKES:
            threads = tuple(
                ("woken", thread[1]) if thread[0] == "asleep" else thread
                for thread in state.threads
            )
            state = state._replace(threads=threads)
        yield state

    def _join(self, state: State, number: int) -> Iterator[State]:
        if all(thread == ("gone",) for thread in state.threads[1:]):
            yield self._go(state, number, "gone")

    def _return(self, state: State, number: int) -> State:
        if state.executed != tuple(map(len, self.veus)):
            raise Violation("a launch returns before all records are executed")
        if state.counters != tuple((state.run + 1) * total for total in self.totals):
            raise Violation("a step counter has not counted all steps")
        return self._go(state, number, "bind", is_running=False)

    # Any thread in an epoch.

    def _part(self, state: State, number: int, epoch: int, seen: int) -> Iterator[State]:
        """Look at all vEUs: take one, leave the epoch if all are completed, or go to sleep.

        Only workers sleep; the caller's thread keeps looking.
        """
        for veu in range(len(self.veus)):
            if not self.is_guided:
                yield from self._take(state, number, epoch, seen, veu)
            elif self._is_ready(state, epoch, veu):
                yield self._go(state, number, "take", epoch, seen, veu)
        if all(self._seems_ended(owner, epoch) for owner in state.owners):
            yield (
                self._return(state, number)
                if number == 0
                else self._go(state, number, "idle", epoch)
            )
        elif number and (epoch - 1, False) not in state.owners:
            yield self._go(state, number, "doze", seen, epoch)

    def _seems_ended(self, owner: tuple[int, bool], epoch: int) -> bool:
        is_held = self.mutation is Mutation.HELD_IS_ENDED and owner[1]
        return owner[0] != epoch - 1 or is_held

    def _is_ready(self, state: State, epoch: int, veu: int) -> bool:
        if state.owners[veu] != (epoch - 1, False):
            any_epoch = self.mutation is Mutation.TAKE_IN_ANY_EPOCH
            return any_epoch and not state.owners[veu][1]
        hint = state.hints[veu]
        return hint < 0 or self._is_met(state, self.veus[veu][hint])

    def _is_met(self, state: State, record: Record) -> bool:
        assert record is not None
        awaited, steps = record
        return state.counters[awaited] >= state.run * self.totals[awaited] + steps

    def _take(self, state: State, number: int, epoch: int, seen: int, veu: int) -> Iterator[State]:
        free = epoch - 1, False
        if self.mutation is Mutation.TAKE_IN_ANY_EPOCH:
            free = state.owners[veu][0], False
        if state.owners[veu] != free:
            if self.is_guided:
                yield self._go(state, number, "part", epoch, seen)
        elif self.mutation is Mutation.TAKE_IN_TWO_STEPS:
            yield self._go(state, number, "store", epoch, seen, veu)
        else:
            yield from self._store(state, number, epoch, seen, veu)

    def _store(self, state: State, number: int, epoch: int, seen: int, veu: int) -> Iterator[State]:
        owners = _put(state.owners, veu, (epoch - 1, True))
        place = state.positions[veu]
        if self.mutation is Mutation.HINT_ALONE and state.hints[veu] >= 0:
            state = self._executed(state, number, epoch, seen, veu, place, True)
            place += 1
        yield self._go(state, number, "hold", epoch, seen, veu, place, place > 0, owners=owners)

    def _hold(
        self, state: State, number: int, epoch: int, seen: int, veu: int, place: int, goes_on: bool
    ) -> Iterator[State]:
        """Execute the next record of a held vEU, or leave the vEU at a barrier that must wait."""
        if place == len(self.veus[veu]):
            position = place - 1 if self.mutation is Mutation.POSITION_STAYS else 0
            positions = _put(state.positions, veu, position)
            hints = _put(state.hints, veu, -1)
            yield self._go(
                state, number, "release", epoch, seen, veu, epoch, positions=positions, hints=hints
            )
            return
        record = self.veus[veu][place]
        if record is None or self._is_met(state, record):
            yield self._executed(state, number, epoch, seen, veu, place, goes_on)
        elif self.mutation is Mutation.RELEASE_BEFORE_POSITION:
            owners = _put(state.owners, veu, (epoch - 1, False))
            yield self._go(state, number, "late", epoch, seen, veu, place, owners=owners)
        else:
            ended = epoch if self.mutation is Mutation.LEFT_IS_ENDED else epoch - 1
            positions, hints = _put(state.positions, veu, place), _put(state.hints, veu, place)
            yield self._go(
                state, number, "release", epoch, seen, veu, ended, positions=positions, hints=hints
            )

    def _executed(
        self, state: State, number: int, epoch: int, seen: int, veu: int, place: int, goes_on: bool
    ) -> State:
        """Return the state after a record is executed and, for an rTask, its step is published."""
        self._check_record(state, veu, place)
        counters = state.counters
        if self.veus[veu][place] is None:
            before = state.run * self.totals[veu]
            is_counted = not goes_on or self.mutation is not Mutation.STEPS_FROM_BASE
            done = sum(record is None for record in self.veus[veu][:place]) if is_counted else 0
            counters = _put(counters, veu, before + done + 1)
        executed = _put(state.executed, veu, place + 1)
        return self._go(
            state, number, "hold", epoch, seen, veu, place + 1, goes_on, counters=counters,
            executed=executed,
        )  # fmt: skip

    def _check_record(self, state: State, veu: int, place: int) -> None:
        if not state.is_running:
            raise Violation("a record is executed between two runs")
        if state.executed[veu] != place:
            raise Violation("a record is not executed once and in order")
        record = self.veus[veu][place]
        if record is not None:
            awaited, steps = record
            done = self.veus[awaited][: state.executed[awaited]]
            if sum(each is None for each in done) < steps:
                raise Violation("a barrier is passed before it is met")

    def _release(
        self, state: State, number: int, epoch: int, seen: int, veu: int, ended: int
    ) -> Iterator[State]:
        owners = _put(state.owners, veu, (ended, False))
        yield self._go(state, number, "part", epoch, seen, owners=owners)

    def _late(
        self, state: State, number: int, epoch: int, seen: int, veu: int, place: int
    ) -> Iterator[State]:
        positions, hints = _put(state.positions, veu, place), _put(state.hints, veu, place)
        yield self._go(state, number, "part", epoch, seen, positions=positions, hints=hints)

    # Workers between epochs.

    def _idle(self, state: State, number: int, seen: int) -> Iterator[State]:
        if state.epoch == seen:
            yield self._go(state, number, "doze", seen, seen)
        else:
            following: Thread = ("gone",) if state.stop else ("part", state.epoch, seen)
            yield self._go(state, number, *following)

    def _doze(self, state: State, number: int, seen: int, known: int) -> Iterator[State]:
        yield self._go(state, number, "sleep", seen, known, sleepers=state.sleepers + 1)

    def _sleep(self, state: State, number: int, seen: int, known: int) -> Iterator[State]:
        """Sleep if the epoch is still ``known``; the system compares and sleeps atomically."""
        compares = self.mutation is not Mutation.SLEEP_UNCONDITIONALLY
        if compares and state.epoch != known:
            yield self._go(state, number, "woken", seen)
        else:
            yield self._go(state, number, "asleep", seen, known)

    def _asleep(self, *_: object) -> Iterator[State]:
        return iter(())

    def _woken(self, state: State, number: int, seen: int) -> Iterator[State]:
        yield self._go(state, number, "idle", seen, sleepers=state.sleepers - 1)

    def _gone(self, *_: object) -> Iterator[State]:
        return iter(())


def search(protocol: Protocol) -> int:
    """Visit every state that the protocol can reach; return their number.

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
