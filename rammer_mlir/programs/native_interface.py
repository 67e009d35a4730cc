"""Defines the interface between generated code and the runtime.

Code generators take symbols, offsets and strides from this module. The runtime lays out memory by
the same definitions, so generated code and runtime always agree.
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

Both functions start at the position in the vEU's state (``VEU``). They return 1 at the end of the
vEU's records, or 0 if a barrier is not met after ``SPINS`` polls; the state then has the position
of the barrier. ``TRACED_ENTRY`` also stores the start and end of every record, in nanoseconds.
"""

START, STOP = "rammer_start_threads", "rammer_stop_threads"
LAUNCH, REPEAT = "rammer_launch_job", "rammer_repeat_job"
"""CPU: functions that manage a pool's threads and launch entry functions, once or repeatedly.

``start(pool, from, limit) -> i64`` creates the threads of indices ``from`` to ``limit`` - 1. It
returns 0, or the error of ``pthread_create`` in the low half and the index of the missing thread in
the high half. ``stop(pool, count)`` ends the threads of indices 1 to ``count`` - 1.
``launch(job, entry)`` returns after every vEU has ended; several threads may launch at the same
time, with different jobs. ``repeat(job, entry, repetition) -> i64`` returns the number of launches.
Programs that different compilers made share a pool, so these functions and the structures below may
change only together with the symbols.
"""

FLOAT_MODE, SET_FLOAT_MODE = "rammer_float_mode", "rammer_set_float_mode"
"""CPU: functions that return and set the calling thread's floating-point control word (i64)."""

STATUS = "rammer_status"
"""CPU: a 64-bit status word in programs with external rKernels.

The word is 0 on success. After a failure, the low ``STATUS_BITS`` bits are the status that the
rKernel returned, as a signed number, and the high bits are the rKernel's index.
"""

STATUS_BITS = 32

MODULES = "rammer_modules"
"""CPU: a table with a row of ``ModuleWord``s for each stateful function that the program calls.

The table is absent if the program calls no stateful function.
"""


class ModuleWord(IntEnum):
    """Indices of the 64-bit words in a row of ``rammer_modules``, the table of stateful functions.

    The program contains OPEN, RUN and CLOSE. The runtime sets FUNCTION and STATE before a run.

    - FUNCTION: the address that rKernels call.
    - STATE: the first argument of these calls.
    - OPEN, RUN, CLOSE: addresses of the linked functions that open, execute and close the stateful
      function. If an engine executes the stateful function, RUN is the address of the function
      ``RUN_CALLS``, and OPEN and CLOSE are 0.
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

The state is a ``CALL_LIST``. The function makes the list's calls, and returns 1 if a call fails,
else 0.
"""

BEGIN_EXCLUSIVE, END_EXCLUSIVE = "rammer_begin_exclusive", "rammer_end_exclusive"
"""CPU: functions called before and after an rTask that must run alone on the device.

Between the two calls, waiting vEUs sleep instead of polling. Only programs with such rTasks have
these functions.
"""

CALL_ARGUMENTS = 8
"""Number of arguments that each call of a ``CALL_LIST`` passes.

Functions with fewer parameters ignore the rest (C calling convention).
"""


class ContextWord(IntEnum):
    """Indices of the 64-bit words in the context, which is an argument of a CPU's entry function.

    - POINTERS: address of the pointer table, which has the address of each of ``CpuTable.slots``.
    - STEPS: address of the vEUs' step counters, a cache line each.
    - RUN: the run's number, counted from 1.
    - TRACES: address of an array with the address of each vEU's trace buffer; 0 without tracing.
    - SPINS: how often a vEU polls the step counter that it waits for, before the vEU is suspended;
      ``launch`` sets it.
    - RECORDS, ARGUMENTS, STARTS, TOTALS: addresses of the arrays of ``CpuTable``.
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
        "bell": (0, "<i4"),
        "stop": (CACHE_LINE, "<i4"),
        "callers": (2 * CACHE_LINE, "<i8"),
        "sleepers": (3 * CACHE_LINE, "<i4"),
        "limit": (4 * CACHE_LINE, "<i8"),
        "places": (4 * CACHE_LINE + 8, "<u8"),
        "spins": (4 * CACHE_LINE + 16, "<i8"),
        "patience": (4 * CACHE_LINE + 24, "<i8"),
        "idle_polls": (4 * CACHE_LINE + 32, "<i8"),
        "wait_polls": (4 * CACHE_LINE + 40, "<i8"),
    },
)
"""CPU: the first part of a thread pool's memory, which the host zeroes and aligns to cache lines.

- ``bell`` grows by one with every launch that threads of the pool may join; idle threads sleep on
  it.
- ``stop`` is nonzero to end the threads.
- ``callers``: number of launches in progress. Each launch beyond the first replaces a thread of the
  pool: the threads of the highest indices withdraw.
- ``sleepers``: number of threads that sleep on ``bell``.
- The host sets the other fields: ``limit``, the greatest number of threads that compute, including
  the callers; ``places``, the address of ``limit`` addresses of jobs that threads may join, or
  nulls; the number of polls after which an idle thread yields the core between polls (``spins``)
  and sleeps (``idle_polls``); the number of times a thread finds another thread's vEU ready before
  it takes that vEU over (``patience``); and the number of polls of a barrier before a vEU is
  released (``wait_polls``).
"""

THREAD = _layout(CACHE_LINE, {"pool": (0, "<u8"), "number": (8, "<i8"), "handle": (16, "<u8")})
"""CPU: a thread's part of a pool's memory.

``number`` is the thread's index; the thread begins a job with the vEU of this index modulo the
count of vEUs. ``handle`` is the ``pthread_t``. Index 0 stands for the callers; its part stays zero.
"""

JOB = _layout(
    3 * CACHE_LINE,
    {
        "epoch": (0, "<i4"),
        "entry": (CACHE_LINE, "<u8"),
        "float_mode": (CACHE_LINE + 8, "<u8"),
        "pool": (2 * CACHE_LINE, "<u8"),
        "context": (2 * CACHE_LINE + 8, "<u8"),
        "num_veus": (2 * CACHE_LINE + 16, "<i8"),
        "veus": (2 * CACHE_LINE + 24, "<u8"),
    },
)
"""CPU: the first part of the memory of launches that do not overlap in time.

Threads may read this memory after a launch has ended, so it exists as long as the pool's threads.

- ``epoch`` grows by one with every launch.
- ``entry``: the launched entry function; ``float_mode``: the floating-point control word of the
  launching thread.
- The host sets the other fields: ``pool``; ``context``, which entry functions read; ``num_veus``;
  and ``veus``, the address of the vEUs' states. Of these fields, only ``context`` ever changes.
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
"""CPU: the state of a vEU, from which any thread can resume it.

The states of all vEUs follow ``JOB``.

- ``owner``: the last epoch in which the vEU has ended, plus the bit ``1 << EPOCH_BITS`` while a
  thread runs the vEU. Only that thread writes the other fields.
- ``position``: where the vEU resumes: in the low 32 bits the index of a record's first word among
  the vEU's words, in the high bits the record's index; 0 for the first record.
- ``awaited`` and ``target``: the address of the step counter that the vEU waits for, or null, and
  the value that the counter must reach.
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
"""CPU: repeated launches of an entry function, as for a loop.

At most ``steps`` launches run. If ``condition``, the address of a byte, is not null, the last
launch is the first after which the byte is zero. Between launches the addresses of ``num_moves``
pointers change, as the array ``moves`` describes (``MOVE``).
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

``pointer`` is the pointer's index in the pointer table. ``even`` and ``odd`` are the addresses for
launches of even and odd index, counted from 0, and ``stride`` is the number of bytes by which both
addresses grow after each launch.
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
"""CPU: a buffer that library calls must bind again when its address differs from the last run's.

- ``buffer``: the buffer's index; ``is_output``: 1 if the list's calls write the buffer, else 0.
- ``num_calls``, ``calls``: the calls that bind the buffer.
- ``address``: the bound address, 0 before the first run; the binding calls read this word.
- ``memory``: null, or ``size`` bytes that are bound permanently once the buffer has moved. Then
  ``is_copied`` is 1, and each run copies the buffer to or from this memory.
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

Argument ``i`` is the word ``arguments[i]``, or, if bit ``i`` of ``loaded`` is set, the word at that
address; if bit ``i`` of ``taken`` is set too, the word in memory is cleared after the load.
"""

GPU_ENTRY = "rammer_program"
"""GPU: symbol of the persistent kernel."""

COUNTER_WORDS = 16
"""GPU: distance of the step counters of two vEUs in 64-bit words: a cache line of 128 bytes."""

SCRATCHES, COUNTERS, TABLE, WATCH = "scratches", "counters", "table", "watch"
"""GPU: names of the kernel's arguments after the buffers, each a pointer.

They are temporaries that exceed shared memory, the step counters, the task table, and the
watchdog's buffer. The step counters and the watchdog's buffer are zeroed once.
"""


def argument_name(base: Base, index: int = 0) -> str:
    """Return the name of the kernel argument for a buffer.

    For an input or output, the name is ``inputN`` or ``outputN``, where N is ``index``, the index
    among the inputs or outputs. For constants and the arena, which are one buffer each, the name is
    ``base``.
    """
    return f"{base}{index}" if base in ("input", "output") else base


class WatchWord(IntEnum):
    """Indices of the first 64-bit words of the watchdog's buffer.

    - CLAIMS: number of threads whose wait timed out. The first such thread writes the words below.
    - VEU: the waiting vEU.
    - AWAITED: the vEU that ``VEU`` waits for.
    - EXPECTED, SEEN: expected and actual value of the step counter of ``AWAITED``, counted from
      the first run.
    - POSITION: position of the barrier in the task table.
    - RUN: the run's number, counted from 0.

    After ``WATCH_HEADER`` words, the buffer has a word for each vEU: 1 if the watchdog stopped the
    vEU, else 0.
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
