"""Finds a possible execution order of the runs and barriers of an rProgram."""

from __future__ import annotations

from collections.abc import Iterator

from rammer_mlir.errors import ScheduleError
from rammer_mlir.scheduling.program import Barrier, Item, RProgram


def execution_order(program: RProgram) -> Iterator[tuple[int, Item]]:
    """Yield the runs and barriers of an rProgram in an execution order, as pairs (vEU, item).

    A barrier comes after all rTasks that it waits for, and a run is not split. The number of
    completed rTasks of a vEU never falls, so an item that can be executed stays executable. Hence
    the items may be executed in any order that respects the waits: if one such order reaches the
    end, all of them do.

    Raises:
        ScheduleError: if some waits block each other; the message names these waits.
    """
    position = [0] * program.num_veus
    done = [0] * program.num_veus
    sleepers: dict[int, list[int]] = {}
    work = list(range(program.num_veus))
    while work:
        veu = work.pop()
        items = program.veus[veu]
        while position[veu] < len(items):
            item = items[position[veu]]
            if isinstance(item, Barrier):
                blocking = _blocking(item, done)
                if blocking is not None:
                    sleepers.setdefault(blocking, []).append(veu)
                    break
            else:
                done[veu] += item.count
                work.extend(sleepers.pop(veu, ()))
            yield veu, item
            position[veu] += 1
    blocked = [veu for veu in range(program.num_veus) if position[veu] < len(program.veus[veu])]
    if blocked:
        raise ScheduleError(_deadlock(program, blocked, position, done))


def _blocking(barrier: Barrier, done: list[int]) -> int | None:
    for veu, order in barrier.waits:
        if done[veu] <= order:
            return veu
    return None


def _deadlock(program: RProgram, blocked: list[int], position: list[int], done: list[int]) -> str:
    waits: list[str] = []
    for veu in blocked:
        item = program.veus[veu][position[veu]]
        if isinstance(item, Barrier):
            other, order = next((v, o) for v, o in item.waits if done[v] <= o)
            where = f"after order {done[veu] - 1}" if done[veu] else "before its first rTask"
            waits.append(f"vEU {veu} {where} waits for vEU {other} order {order}")
    return f"deadlock: {'; '.join(waits)}: expected waits that some order of execution satisfies"
