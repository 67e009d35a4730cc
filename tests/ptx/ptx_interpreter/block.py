"""Execution of a block of threads, with divergence, warp-wide instructions and barriers.

Threads at the same instruction continue together, and those at the lowest instruction continue
first, so that they join again where branches join. A warp-wide instruction waits for all threads of
the warp, a barrier for all threads of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .active import Active
from .arrays import Mask
from .decoding import WARP_WIDE, decode
from .faults import PtxFault
from .module import Instruction, Kernel
from .steps import Machine, Step
from .warps import WARP

_BRANCHES = ("bra", "brx", "ret", "exit")
_BARRIERS = ("bar", "barrier")
_FENCES = ("membar", "fence", "nanosleep", "prefetch", "griddepcontrol")
"""Instructions that change no values, because threads take turns in program order."""

_PATIENCE = 16
"""Polls of a block, in loops that do not sleep, before the other blocks take their turn."""


@dataclass
class _Segment:
    """Consecutive instructions that threads execute without a branch or a wait in between.

    Attributes:
        steps: functions that execute the instructions.
        last: the branch, barrier or wait at the end; None without one.
        next: index of the instruction after the segment.
    """

    steps: list[Step]
    last: Instruction | None
    next: int


class Block:
    """A block of a launch: its threads, and the instruction that each is at."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        """Place all threads of a block before the first instruction of ``kernel``.

        ``machine`` has the block's registers and memories.
        """
        self._kernel, self.machine = kernel, machine
        self._all: Mask = np.ones(machine.threads, np.bool_)
        self._ready: dict[int, Mask] = {0: self._all.copy()}
        self._parked: dict[int, Mask] = {}
        self._at_barrier: dict[int, Mask] = {}
        self._exited: Mask = ~self._all
        self._segments: dict[int, _Segment] = {}
        self._looks = 0
        self._stops = set(kernel.labels.values())

    def run(self) -> Iterator[None]:
        """Execute the block to its end; yield when other blocks should run.

        They should run when a thread of this block may wait for a write of another block.
        """
        is_waiting = False
        while self._ready or self._release():
            # A thread that polls must not keep another one of its block from publishing.
            place = (max if is_waiting else min)(self._ready)
            mask = self._ready.pop(place)
            segment = self._segment(place)
            if self._waits_for_warps(place, mask):
                continue
            on = Active(mask)
            for step in segment.steps:
                step(on)
            is_waiting = self._follow(segment, on)
            if is_waiting:
                yield
        pending = self.machine.copies.under_way()
        if pending is not None:
            raise PtxFault(f"{pending}: block {self.machine.number}: nothing waits for the copy")

    def _segment(self, place: int) -> _Segment:
        """Return the segment that begins at the instruction with the index ``place``, decoded once.

        A segment has consecutive instructions without a branch or a wait in between.
        """
        if place not in self._segments:
            self._segments[place] = self._decode(place)
        return self._segments[place]

    def _decode(self, place: int) -> _Segment:
        instructions = self._kernel.instructions
        steps: list[Step] = []
        at = place
        while at < len(instructions):
            instruction = instructions[at]
            if instruction.name in (*_BRANCHES, *_BARRIERS) or _waits(instruction):
                if instruction.name in ("ld", "atom"):
                    steps.append(decode(instruction, self.machine))
                return _Segment(steps, instruction, at + 1)
            is_warp_wide = instruction.name in WARP_WIDE
            if at > place and (is_warp_wide or at in self._stops):
                break
            if instruction.name not in _FENCES:
                steps.append(decode(instruction, self.machine))
            at += 1
        return _Segment(steps, None, at)

    def _waits_for_warps(self, place: int, mask: Mask) -> bool:
        """Park the threads of incomplete warps if the instruction at index ``place`` is warp-wide.

        ``mask`` has the threads at this instruction. Parked threads are removed from it; threads
        parked here earlier are added if their warp has become complete. Returns whether no complete
        warp is left, so that no thread can execute the instruction.
        """
        if self._kernel.instructions[place].name not in WARP_WIDE or mask.all():
            return False
        parked = self._parked.pop(place, None)
        if parked is not None:
            mask |= parked
        whole = np.repeat(mask.reshape(-1, WARP).all(1), WARP)
        if (mask & ~whole).any():
            self._parked[place] = mask & ~whole
        if whole.all() or not whole.any():
            mask[:] = whole
            return not whole.any()
        mask &= whole
        return False

    def _follow(self, segment: _Segment, on: Active) -> bool:
        """Send the threads ``on``, which have executed a segment, to their next instructions.

        A segment has consecutive instructions; it ends with a branch, a barrier or a wait, or ahead
        of a label or a warp-wide instruction. Returns whether other blocks should run next, because
        the threads may wait for them: after each ``nanosleep``, and after every ``_PATIENCE``-th
        wait.
        """
        last = segment.last
        if last is None:
            self._send(segment.next, on.mask)
            return False
        if last.name in _BARRIERS:
            self._meet(last, segment.next - 1, on.mask)
            return False
        if last.name not in _BRANCHES:
            self._send(segment.next, on.mask)
            self._looks += 1
            return last.name == "nanosleep" or self._looks % _PATIENCE == 0
        taken = on.mask
        if last.guard is not None:
            taken = on.mask & self.machine.registers.predicate(last)
            self._send(segment.next, on.mask & ~taken)
        if last.name in ("ret", "exit"):
            self._exited |= taken
        elif last.name == "bra":
            self._send(self._place(last, last.operands[0]), taken)
        else:
            self._scatter(last, taken)
        return False

    def _place(self, instruction: Instruction, label: str) -> int:
        if label not in self._kernel.labels:
            raise PtxFault(f"{instruction}: expected a label, found '{label}'")
        return self._kernel.labels[label]

    def _scatter(self, instruction: Instruction, mask: Mask) -> None:
        """Execute ``brx.idx``: send each thread in ``mask`` to the label that its index selects."""
        word = np.dtype(np.uint32)
        index = self.machine.registers.source(instruction.operands[0], word)
        targets = self._kernel.targets[instruction.operands[1]]
        for number in np.unique(index[mask]):
            if number >= len(targets):
                raise PtxFault(
                    f"{instruction}: expected a number below {len(targets)}, found {number}"
                )
            self._send(self._place(instruction, targets[number]), mask & (index == number))

    def _send(self, place: int, mask: Mask) -> None:
        if not mask.any():
            return
        if place >= len(self._kernel.instructions):
            raise PtxFault(f"kernel '{self._kernel.name}': control falls off its end")
        waiting = self._ready.get(place)
        self._ready[place] = mask.copy() if waiting is None else waiting | mask

    def _meet(self, instruction: Instruction, place: int, mask: Mask) -> None:
        """Let the threads in ``mask`` wait at a barrier of the block, at instruction ``place``."""
        name = instruction.opcode
        if name == "bar.warp.sync" or instruction.operands != ("0",) or instruction.guard:
            raise PtxFault(f"{instruction}: expected the barrier 0 of the whole block")
        if name not in ("bar.sync", "barrier.sync", "barrier.sync.aligned"):
            raise PtxFault(f"{instruction}: expected a barrier that waits")
        waiting = self._at_barrier.get(place)
        self._at_barrier[place] = mask.copy() if waiting is None else waiting | mask

    def _release(self) -> bool:
        """Let threads continue from a barrier that all threads have reached.

        Returns False if no thread waits, because all have exited. Raises PtxFault if the barrier
        can never be reached by all.
        """
        if not self._at_barrier and not self._parked:
            return False
        arrived = np.zeros_like(self._all)
        for place, mask in self._at_barrier.items():
            warps = mask.reshape(-1, WARP)
            if (warps.any(1) != warps.all(1)).any():
                raise self._stuck(place, mask, "not met by all threads of a warp")
            arrived |= mask
        if not arrived.all():
            waiting = self._parked or self._at_barrier
            place, mask = next(iter(waiting.items()))
            raise self._stuck(place, mask, "not met by all threads")
        for place, mask in self._at_barrier.items():
            self._send(place + 1, mask)
        self._at_barrier.clear()
        for races in self.machine.races.values():
            races.next_phase()
        return True

    def _stuck(self, place: int, mask: Mask, what: str) -> PtxFault:
        instruction = self._kernel.instructions[place]
        count = int(mask.sum())
        exited = int(self._exited.sum())
        return PtxFault(
            f"{instruction}: block {self.machine.number}: {what}: {count} of "
            f"{self.machine.threads} threads wait here, {exited} have exited"
        )


def _waits(instruction: Instruction) -> bool:
    """Return whether a thread may wait at an instruction for a write of another block.

    A thread may wait at acquiring loads and at ``nanosleep``.
    """
    if instruction.name == "nanosleep":
        return True
    return instruction.name in ("ld", "atom") and "acquire" in instruction.qualifiers
