"""The interface between generated code and the runtime.

Code generators take symbols, offsets and strides from this module, and the runtime lays out memory
by the same definitions, so the two sides always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from rammer_mlir.programs.records import Base

CACHE_LINE = 64
"""Number of bytes of a CPU's cache line.

Data that different threads write is on different cache lines.
"""

ENTRY, TRACED_ENTRY = "rammer_run_veu", "rammer_run_veu_traced"
"""CPU: functions ``(vEU, context, state) -> i1`` that execute one vEU's share of a run.

They start at the position in the vEU's state (``VEU``) and return 1 at the end of the vEU's
records, or 0 after polling a barrier ``SPINS`` times in vain; the state then records the position.
"""

START, LAUNCH, STOP = "rammer_start", "rammer_launch", "rammer_stop"
REPEAT = "rammer_repeat"
"""CPU: functions that manage a pool's threads and launch entry functions, once or repeatedly.

``start(pool) -> i64`` returns 0, or the error of ``pthread_create`` in the low half and the number
of threads created so far in the high half; ``launch(pool, entry, context)`` returns after every vEU
has ended; ``stop(pool, count)`` ends the first ``count`` threads except the caller's;
``repeat(pool, entry, context, repetition) -> i64`` returns the number of launches.
"""

STATUS = "rammer_status"
"""CPU: a 64-bit status word in programs with external rKernels.

It is 0 on success; after a failure the low ``STATUS_BITS`` hold the rKernel's status as a signed
number, and the high bits hold the rKernel's number.
"""

STATUS_BITS = 32

MODULES = "rammer_modules"
"""CPU: a table of stateful functions, if the program calls any: a ``ModuleWord`` row for each."""


class ModuleWord(IntEnum):
    """Indices of the 64-bit words in a row of the table of stateful functions.

    The runtime writes FUNCTION, the address to call, and STATE, its argument; OPEN, RUN and CLOSE
    are functions in linked code. If an engine runs the module, RUN is ``RUN_CALLS``, and OPEN and
    CLOSE are 0.
    """

    FUNCTION = 0
    STATE = 1
    OPEN = 2
    RUN = 3
    CLOSE = 4


MODULE_WORDS = len(ModuleWord)
"""Number of 64-bit words of a row of the table of stateful functions."""

RUN_CALLS = "rammer_run_calls"
"""CPU: ``(state, rTask, buffers) -> i32``, in programs with modules that engines run.

It calls the C functions of a list, which is its state, and returns 0, or 1 if a call failed.
"""

BEGIN_EXCLUSIVE, END_EXCLUSIVE = "rammer_begin_exclusive", "rammer_end_exclusive"
"""CPU: functions called before and after exclusive rTasks, in programs that have such rTasks.

Between the two calls, waiting vEUs sleep instead of polling.
"""

CALL_ARGUMENTS = 8
"""Number of arguments of each call of a list.

Functions with fewer parameters ignore the rest (C calling convention).
"""


class ContextWord(IntEnum):
    """Indices of the 64-bit words in the context of a CPU's entry function.

    POINTERS is the pointer table, STEPS the step counters (one cache line each), RUN the number of
    the run from 1, TRACES the per-vEU trace buffers, and SPINS the number of polls before a waiting
    vEU yields; RECORDS, ARGUMENTS, STARTS and TOTALS are the arrays of the task table.
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
    """Return a structured dtype of ``num_bytes`` from the (offset, type) of each field."""
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
"""CPU: the first part of a pool's memory, which the host zeroes and aligns to cache lines.

- ``epoch`` grows by one with every launch; idle threads sleep on it.
- ``stop`` is nonzero to end the threads.
- ``entry`` and ``context``: the launched entry function and its context; ``float_mode``: the
  floating-point control word of the launching thread.
- ``sleepers``: threads that sleep on the epoch.
- The rest is the host's: ``num_veus`` and the address of their states, ``num_threads`` including
  the caller's, the number of polls after which an idle thread yields the core between polls
  (``spins``) and sleeps (``idle_polls``), and the number of times a thread finds another thread's
  vEU ready before it takes that vEU over (``patience``).
"""

THREAD = _layout(CACHE_LINE, {"pool": (0, "<u8"), "first": (8, "<i8"), "handle": (16, "<u8")})
"""CPU: a thread's part of a pool's memory; these parts follow ``POOL``.

``first`` is the vEU that the thread runs first, and ``handle`` the ``pthread_t``. The first thread
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
"""CPU: the state of a vEU between two threads that run it.

The states of all vEUs follow the threads' parts of the pool's memory.

- ``owner``: the last epoch that the vEU has ended, plus a flag above ``EPOCH_BITS`` while a thread
  holds the vEU. Only the holder writes the other fields.
- ``position``: the record at which the vEU resumes; 0 for its first record.
- ``awaited`` and ``target``: the step counter that the vEU waits for, or null, and the value that
  the counter must reach.
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
"""CPU: repeated launches of an entry function.

At most ``steps`` launches run, and, if there is a condition byte, only until the byte is zero after
a launch. The addresses of some pointers change between launches.
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
"""CPU: a pointer whose address changes between repeated launches.

It has the pointer's number, its addresses in even and odd launches, and the bytes by which both
advance after each launch.
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
"""CPU: a list of C calls: the buffers to bind first (``BOUND``), then the calls (``CALL``).

``status`` is the result of the call that failed.
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
"""CPU: a buffer that is bound again when its address differs from that of the previous run.

- ``buffer``: its number; ``is_output``: 1 if it is written.
- ``address``: start of the bound memory, 0 before the first run; the binding calls read it here.
- ``memory``: ``size`` bytes that are bound permanently once the buffer has moved, or null.
  ``is_copied``, of the list, is 1 from then on, and each run copies the buffer to or from this
  memory.
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
"""CPU: a call of a C function, which fails if its result has a bit of ``mask`` set.

An argument is a 64-bit word, or, if its bit in ``loaded`` is set, the address of such a word; if
its bit in ``taken`` is set too, the word is cleared after the load.
"""

GPU_ENTRY = "rammer_program"
"""GPU: symbol of the persistent kernel."""

COUNTER_WORDS = 16
"""GPU: number of 64-bit words between the step counters of two vEUs.

They are a cache line of 128 bytes.
"""

SCRATCHES, COUNTERS, TABLE, WATCH = "scratches", "counters", "table", "watch"
"""GPU: the kernel's arguments after the buffers.

They are temporaries that exceed shared memory, step counters, the task table, and the watchdog's
buffer. Counters and the watchdog's buffer are zeroed once.
"""


def argument_name(base: Base, index: int = 0) -> str:
    """Return the name of the kernel argument for a buffer: ``inputN``, ``outputN``, or the base.

    All constants are in one buffer, and all intermediates in one arena.
    """
    return f"{base}{index}" if base in ("input", "output") else base


class WatchWord(IntEnum):
    """Indices in the watchdog's buffer, before one word per vEU that says whether it was stopped.

    CLAIMS counts threads whose wait timed out. The first such thread writes its vEU, the awaited
    vEU, that vEU's expected and actual step counter since the first run, the position of the
    barrier in the task table, and the run.
    """

    CLAIMS = 0
    VEU = 1
    AWAITED = 2
    EXPECTED = 3
    SEEN = 4
    POSITION = 5
    RUN = 6


WATCH_HEADER = 8
"""Number of words of the watchdog's buffer before the words of the vEUs."""


def watch_words(num_veus: int) -> int:
    """Return the number of 64-bit words of the watchdog's buffer."""
    return WATCH_HEADER + num_veus
