"""Values share memory only one after the other: rule 5."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.checker.archive import Int64Array, ranges, require_few, starts
from rammer_mlir.checker.history import MOST_CLOCKS, History
from rammer_mlir.checker.program import BASES
from rammer_mlir.checker.proof import OUTPUT, Uses, Values
from rammer_mlir.errors import ScheduleError

_ARENA, _CONSTANT = BASES.index("arena"), BASES.index("constant")

_ALIGNMENT = 64
"""Bytes of whose multiples constants begin at one."""


def check_places(values: Values, sizes: tuple[Int64Array, ...]) -> None:
    """Check where values are in buffers of these sizes, for each base.

    Inputs and outputs are whole buffers; constants follow each other, so that none is taken for
    another one.
    """
    place, num_bytes = values.place, values.num_bytes
    room = np.concatenate(sizes)[starts([len(s) for s in sizes])[place.base] + place.index]
    begin, size = np.zeros_like(room), room.copy()
    begin[place.base == _ARENA] = place.offset[place.base == _ARENA]
    size[place.base >= _CONSTANT] = num_bytes[place.base >= _CONSTANT]
    constants = np.flatnonzero(place.base == _CONSTANT)
    constants = constants[np.argsort(place.offset[constants], kind="stable")]
    ends = starts(np.maximum(-(-num_bytes[constants] // _ALIGNMENT), 1) * _ALIGNMENT)
    begin[constants] = ends[:-1]
    wrong = (place.offset != begin) | (num_bytes != size) | (begin + size > room)
    for value in np.flatnonzero(wrong)[:1]:
        raise ScheduleError(
            f"rule 5 (memory): {values.names[value]} has {num_bytes[value]} bytes from byte "
            f"{place.offset[value]} of {BASES[place.base[value]]} {place.index[value]} on: "
            f"expected {size[value]} from byte {begin[value]} on, below {room[value]}"
        )
    outputs = place.index[values.kind == OUTPUT]
    for missing in np.setdiff1d(np.flatnonzero(sizes[1]), outputs)[:1]:
        raise ScheduleError(f"rule 4 (defined): expected a value for output {missing}, found none")


def check_sharing(values: Values, uses: Uses, history: History) -> None:
    """Check values that share bytes of the arena; others share none.

    Values are taken in a possible order of execution: if each one is done before the next on each
    byte begins, it is done before all later ones.
    """
    first, known, reached = _lives(values, uses, history)
    used = np.flatnonzero((values.num_bytes > 0) & (values.place.base != _CONSTANT))
    used = used[(values.place.base[used] != _ARENA) | (first[used] < len(history.veu))]
    for a, b in _neighbours(values, used, first).tolist():
        if values.place.base[a] != _ARENA:
            raise ScheduleError(
                f"rule 5 (memory): {values.names[a]} and {values.names[b]} share bytes: expected "
                "memory of its own for each value outside of the arena"
            )
        late = np.flatnonzero(reached[a] > known[b])
        if len(late):
            raise ScheduleError(_message(values, uses, history, (a, b), int(late[0])))


def _lives(
    values: Values, uses: Uses, history: History
) -> tuple[Int64Array, NDArray[np.int32], NDArray[np.int32]]:
    """Return when values are used first, what is complete then, and what is at their end."""
    number = len(values.names)
    require_few(number * history.clocks.shape[1], MOST_CLOCKS, "values, times vEUs")
    order = np.argsort(uses.value, kind="stable")
    operators, value = uses.operator[order], uses.value[order]
    present, begin = np.unique(value, return_index=True)
    known = np.full((number, history.clocks.shape[1]), np.iinfo(np.int32).max, np.int32)
    reached = np.zeros_like(known)
    first = np.full(number, len(history.veu))
    if len(present):
        known[present] = np.minimum.reduceat(history.known[operators], begin)
        reached[present] = np.maximum.reduceat(history.reached[operators], begin)
        first[present] = np.minimum.reduceat(history.first[operators], begin)
    return first, known, reached


def _neighbours(values: Values, used: Int64Array, first: Int64Array) -> Int64Array:
    """Return pairs of values that follow each other on some byte."""
    place = values.place
    buffers = np.unique(
        np.stack((place.base[used], place.index[used])), axis=1, return_inverse=True
    )[1]
    room = int((place.offset + values.num_bytes).max(initial=0)) + 1
    begin = buffers.reshape(-1) * room + place.offset[used]
    end = begin + values.num_bytes[used]
    cuts = np.unique(np.concatenate((begin, end)))
    low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
    owner, part = ranges(low, high - low)
    order = np.lexsort((owner, first[used][owner], part))
    owner, part = owner[order], part[order]
    follow = np.flatnonzero(part[1:] == part[:-1])
    pairs = np.unique(owner[follow] * len(used) + owner[follow + 1])
    return used[np.stack(np.divmod(pairs, max(len(used), 1)), axis=1)]


def _message(values: Values, uses: Uses, history: History, pair: tuple[int, int], veu: int) -> str:
    """Name rTasks of two values of which the first's, on a vEU, need not be done in time."""
    a, b = (np.unique(uses.operator[uses.value == value]) for value in pair)
    one = int(a[np.argmax(history.reached[a, veu])])
    at_end = (history.veu == veu) & (history.step == history.reached[one, veu])
    task = int(np.flatnonzero(at_end)[0])
    other = int(b[np.argmin(history.known[b, veu])])
    others = np.arange(int(history.base[other]), int(history.base[other + 1]))
    ordered = history.precedes(np.full(len(others), task), others)
    names = [values.names[value] for value in pair]
    return (
        f"rule 5 (memory): {names[0]} and {names[1]} share bytes, and {history.name(task)} uses "
        f"the one while {history.name(int(others[np.argmin(ordered)]))} may use the other: "
        f"expected all uses of {names[0]} to end before {names[1]} is used"
    )
