"""The interface between compiled code and the runtime: what both sides are made from.

Code generators take symbols, offsets and strides from here, and the runtime lays out memory by the
same definitions, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from rammer_mlir.programs.records import Base

CACHE_LINE = 64
"""Bytes of a CPU's cache line. What different threads write begins on different lines."""

ENTRY, TRACED_ENTRY = "rammer_run_veu", "rammer_run_veu_traced"
"""CPU: functions ``(vEU, context, state) -> i1`` that execute one vEU's share of a run.

They begin at the position in the vEU's state (``VEU``), and return 1 at the end of the vEU's
records, or 0 at a barrier that is not met for a while: then the state says where that is.
"""

START, LAUNCH, STOP = "rammer_start", "rammer_launch", "rammer_stop"
REPEAT = "rammer_repeat"
"""CPU: functions that create a pool's threads, launch an entry function, end the threads, and
launch an entry function again and again.

``start(pool) -> i64`` returns 0, or the error of ``pthread_create`` in the low half and the number
of threads made so far in the high half; ``launch(pool, entry, context)`` returns when every vEU has
ended; ``stop(pool, count)`` ends the first ``count`` threads but the caller's;
``repeat(pool, entry, context, repetition) -> i64`` returns how often it launched.
"""

STATUS = "rammer_status"
"""CPU: a 64-bit word, in programs with external rKernels: 0, or the status of one that did not
succeed in the low ``STATUS_BITS``, as a signed number, and the rKernel's number above it.
"""

STATUS_BITS = 32

MODULES = "rammer_modules"
"""CPU: a table of functions with a state, in programs that call such: a row of ``ModuleWord`` for
each."""


class ModuleWord(IntEnum):
    """Places of the 64-bit words in a row of the table of functions with a state.

    FUNCTION and STATE are what is called, written by the runtime; OPEN, RUN and CLOSE are functions
    in linked code. Where an engine runs the module, RUN is ``RUN_CALLS``, and the others are 0.
    """

    FUNCTION = 0
    STATE = 1
    OPEN = 2
    RUN = 3
    CLOSE = 4


MODULE_WORDS = len(ModuleWord)
"""Words of a row."""

RUN_CALLS = "rammer_run_calls"
"""CPU: ``(state, rTask, buffers) -> i32``, in programs with modules that engines run: it calls the
C functions of a list, which is its state, and returns 0, or 1 if one of them failed.
"""

BEGIN_EXCLUSIVE, END_EXCLUSIVE = "rammer_begin_exclusive", "rammer_end_exclusive"
"""CPU: functions that are called around exclusive rTasks, in programs that have such: between them,
vEUs that wait sleep instead of polling.
"""

CALL_ARGUMENTS = 8
"""Arguments of each call of a list; a function of fewer ignores the others, as C's rules allow."""


class ContextWord(IntEnum):
    """Places of the 64-bit words that a CPU's entry function finds in its context.

    POINTERS is the pointer table, STEPS the step counters (one cache line each), RUN the number of
    the run from 1, TRACES the per-vEU trace buffers, and SPINS how often a waiting vEU polls before
    it gives way; RECORDS, ARGUMENTS, STARTS and TOTALS are the arrays of the task table.
    """

    POINTERS = 0
    STEPS = 1
    RUN = 2
    TRACES = 3
    SPINS = 4
    RECORDS = 5
    ARGUMENTS = 6
    STARTS = 7
    TOTALS = 8


def _layout(num_bytes: int, fields: Mapping[str, tuple[int, str]]) -> np.dtype[np.void]:
    """Return a structure of ``num_bytes`` whose fields have an offset and a type each."""
    return np.dtype(
        {
            "names": list(fields),
            "offsets": [offset for offset, _ in fields.values()],
            "formats": [kind for _, kind in fields.values()],
            "itemsize": num_bytes,
        }
    )


POOL = _layout(
    5 * CACHE_LINE,
    {
        "epoch": (0, "<i4"),
        "stop": (CACHE_LINE, "<i4"),
        "entry": (2 * CACHE_LINE, "<u8"),
        "context": (2 * CACHE_LINE + 8, "<u8"),
        "float_mode": (2 * CACHE_LINE + 16, "<u8"),
        "sleepers": (3 * CACHE_LINE, "<i4"),
        "num_veus": (4 * CACHE_LINE, "<i8"),
        "num_threads": (4 * CACHE_LINE + 8, "<i8"),
        "veus": (4 * CACHE_LINE + 16, "<u8"),
        "spins": (4 * CACHE_LINE + 24, "<i8"),
        "patience": (4 * CACHE_LINE + 32, "<i8"),
        "idle_polls": (4 * CACHE_LINE + 40, "<i8"),
    },
)
"""CPU: the head of a pool's memory, which the host zeroes and aligns to cache lines.

- ``epoch`` grows by one with every launch; idle threads sleep on it.
- ``stop`` is not zero when the threads shall end.
- ``entry`` and ``context``: the launched entry function and its context; ``float_mode``: the
  processor's word that says how the launching thread rounds.
- ``sleepers``: threads that sleep on the epoch.
- The rest is the host's: ``num_veus`` and the address of their states, ``num_threads`` with the
  caller's, how often a thread polls before it gives way between two polls (``spins``) and before it
  sleeps (``idle_polls``), and how often it finds another thread's vEU ready before it takes it
  (``patience``).
"""

THREAD = _layout(CACHE_LINE, {"pool": (0, "<u8"), "first": (8, "<i8"), "handle": (16, "<u8")})
"""CPU: the part of a pool's memory that belongs to a thread; one for each follows the head.

``first`` is the vEU that the thread takes first, and ``handle`` the ``pthread_t``. The first thread
is the caller's, and its part stays zero.
"""

VEU = _layout(
    CACHE_LINE,
    {
        "owner": (0, "<u8"),
        "position": (8, "<i8"),
        "awaited": (16, "<u8"),
        "target": (24, "<i8"),
    },
)
"""CPU: the state of a vEU between two threads that run it; one for each follows the threads' parts.

- ``owner``: the last epoch that the vEU has ended, and 1 above ``EPOCH_BITS`` while a thread holds
  the vEU. Only the holder writes the rest.
- ``position``: where the vEU goes on, 0 at its first record.
- ``awaited`` and ``target``: the step counter that it waits for, or null, and the value that it
  waits for there.
"""

EPOCH_BITS = 32

REPETITION = _layout(
    4 * 8,
    {
        "steps": (0, "<i8"),
        "condition": (8, "<u8"),
        "num_moves": (16, "<i8"),
        "moves": (24, "<u8"),
    },
)
"""CPU: launches that follow each other: at most so many, until a byte is zero after one of them if
there is a condition, each with pointers that move.
"""

MOVE = _layout(
    4 * 8,
    {
        "pointer": (0, "<i8"),
        "even": (8, "<u8"),
        "odd": (16, "<u8"),
        "stride": (24, "<i8"),
    },
)
"""CPU: the number of a pointer that moves, its addresses in even and odd launches, and the bytes
that both move on with each launch.
"""

CALL_LIST = _layout(
    5 * 8,
    {
        "status": (0, "<u8"),
        "num_bound": (8, "<i8"),
        "bound": (16, "<u8"),
        "num_calls": (24, "<i8"),
        "calls": (32, "<u8"),
    },
)
"""CPU: a list of C calls: the buffers that are bound first (``BOUND``), then what computes
(``CALL``). ``status`` is the list's: what the call that failed returned.
"""

BOUND = _layout(
    CACHE_LINE,
    {
        "buffer": (0, "<i8"),
        "address": (8, "<u8"),
        "num_calls": (16, "<i8"),
        "calls": (24, "<u8"),
        "memory": (32, "<u8"),
        "size": (40, "<i8"),
        "is_output": (48, "<i8"),
        "is_copied": (56, "<i8"),
    },
)
"""CPU: a buffer that is bound anew when it is at another address than in the run before.

- ``buffer``: its number; ``is_output``: 1 if it is written.
- ``address``: where what is bound begins, 0 before the first run; the calls that bind find it here.
- ``memory``: of ``size`` bytes, or null: what is bound from the first time on that the buffer
  moves. ``is_copied`` is the list's: 1 since then, and the buffer is copied there or from there.
"""

CALL = _layout(
    (4 + CALL_ARGUMENTS) * 8,
    {
        "function": (0, "<u8"),
        "mask": (8, "<u8"),
        "loaded": (16, "<u8"),
        "taken": (24, "<u8"),
        "arguments": (32, f"({CALL_ARGUMENTS},)<u8"),
    },
)
"""CPU: a call of a C function, which fails if its result has one of the bits of ``mask``.

An argument is a 64-bit word, or, where its bit is set in ``loaded``, the address of such a word;
where it is set in ``taken`` too, the word is zero from then on.
"""

GPU_ENTRY = "rammer_program"
"""GPU: the persistent kernel."""

COUNTER_WORDS = 16
"""GPU: 64-bit words from one vEU's step counter to the next: a cache line of 128 bytes."""

SCRATCHES, COUNTERS, TABLE, WATCH = "scratches", "counters", "table", "watch"
"""GPU: the kernel's arguments after the buffers: temporaries that do not fit shared memory, step
counters, task table, and the watchdog's buffer. Counters and the watchdog's buffer are zeroed once.
"""


def argument_name(base: Base, index: int = 0) -> str:
    """Return the name of the kernel's argument for a buffer: ``inputN``, ``outputN``, or the base.

    There is one buffer of constants, and one arena.
    """
    return f"{base}{index}" if base in ("input", "output") else base


class WatchWord(IntEnum):
    """Places in the watchdog's buffer, before the word of each vEU: whether it was stopped.

    CLAIMS counts threads that lost patience; the first one says its vEU, which vEU it awaits, the
    steps that it expects of that one and sees since the first run, the position in the task table
    of what it waits for, and the run.
    """

    CLAIMS = 0
    VEU = 1
    AWAITED = 2
    EXPECTED = 3
    SEEN = 4
    POSITION = 5
    RUN = 6


WATCH_HEADER = 8
"""Words of the watchdog's buffer before the vEUs'."""


def watch_words(num_veus: int) -> int:
    """Return the number of 64-bit words of the watchdog's buffer."""
    return WATCH_HEADER + num_veus
