"""Emits the persistent kernel, in which each block executes the records of its vEU.

A record is a run of rTasks or a barrier; the task table is an array of words that encodes the
records of all vEUs. Long programs get a loop over the task table with a call for each distinct
rKernel. Short programs get straight-line code for each vEU, in which buffers and rTask ids are
constants. In both cases a barrier reads the awaited vEUs and steps from the task table, because
each thread of the block waits for a different vEU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, gpu, ir, memref, scf
from rammer_mlir.lowering.gpu.program.builders import (
    DYNAMIC,
    add,
    as_index,
    bytes_type,
    compare,
    index,
    load_word,
    multiply,
    offset,
    word,
)
from rammer_mlir.lowering.gpu.program.kernel_frame import KernelFrame, choose_buffer, typed_view
from rammer_mlir.lowering.gpu.program.layout import KernelLayout
from rammer_mlir.programs.gpu_table import (
    END,
    RUN_WORDS,
    WAITS_AT,
    Placed,
    PlacedBarrier,
    PlacedRun,
)

STRAIGHT_LINE_LIMIT = 16
"""Largest number of records (rTask runs and barriers) of a program in straight-line code.

In straight-line code, each call may be inlined.
"""


def define_kernel(layout: KernelLayout, straight_line_limit: int = STRAIGHT_LINE_LIMIT) -> None:
    """Define the persistent kernel of a program at the current insertion point.

    A program of at most ``straight_line_limit`` records becomes straight-line code instead of a
    dispatch loop.
    """
    frame = KernelFrame(layout)
    with ir.InsertionPoint(frame.entry):
        if layout.program.launches[0].num_records <= straight_line_limit:
            _straight_line(frame)
        else:
            _DispatchLoop(frame).build()
        gpu.ReturnOp([])


def _straight_line(frame: KernelFrame) -> None:
    veus = frame.layout.table.veus
    switch = scf.IndexSwitchOp([], frame.veu, range(len(veus)))
    for records, block in zip(veus, switch.case_blocks, strict=True):
        with ir.InsertionPoint(block):
            for placed in records:
                _straight_record(frame, placed)
            scf.YieldOp([])
    with ir.InsertionPoint(switch.default_block):
        scf.YieldOp([])


def _straight_record(frame: KernelFrame, placed: Placed) -> None:
    if isinstance(placed, PlacedBarrier):
        frame.wait(index(placed.position + WAITS_AT), index(len(placed.record.waits)))
    else:
        _straight_run(frame, placed)


def _straight_run(frame: KernelFrame, placed: PlacedRun) -> None:
    record, program = placed.record, frame.layout.program
    kernel = program.kernel_of(record).name
    slots = program.operators[record.operator].slots
    views = [
        typed_view(frame.buffer((slot.base, slot.index)), index(slot.offset), *kinds)
        for slot, kinds in zip(slots, frame.buffer_types(kernel), strict=True)
    ]
    frame.run_tasks(kernel, views, index(record.first), index(record.first + record.count))
    if placed.publish:
        frame.publish(add(frame.base, word(placed.steps)))
    else:
        frame.meet()


@dataclass(frozen=True)
class _Fetched:
    """A record of the task table (a run of rTasks, or a barrier) in registers.

    Attributes:
        position: position of the record in the task table.
        words: the ``RUN_WORDS`` words from that position on. A barrier record uses only the first
            two words; the other words are ignored.
    """

    position: ir.Value
    words: Sequence[ir.Value]

    @property
    def values(self) -> list[ir.Value]:
        """The position, then the words, in the order in which the dispatch loop carries them."""
        return [self.position, *self.words]


class _DispatchLoop:
    """The loop over the records (rTask runs and barriers) of the block's vEU, up to its end record.

    The loop fetches the next record before it waits for other vEUs or publishes the step counter,
    to hide the latency of the task table.
    """

    def __init__(self, frame: KernelFrame) -> None:
        self._frame, self._layout = frame, frame.layout

    def build(self) -> None:
        """Build the loop at the current insertion point."""
        first = self._fetch(as_index(load_word(self._frame.table, self._frame.veu)))
        kinds = [value.type for value in first.values]
        loop = scf.WhileOp(kinds, first.values)
        before, after = (region.blocks.append(*kinds) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            _, kind, *_ = before.arguments
            scf.ConditionOp(compare("ne", kind, word(END)), list(before.arguments))
        with ir.InsertionPoint(after):
            position, *words = after.arguments
            scf.YieldOp(self._execute(_Fetched(position, words)).values)

    def _fetch(self, position: ir.Value) -> _Fetched:
        """Emit the loads of the record at ``position``."""
        table = self._frame.table
        words = [load_word(table, offset(position, n)) for n in range(RUN_WORDS)]
        return _Fetched(position, words)

    def _execute(self, record: _Fetched) -> _Fetched:
        """Emit the execution of a record; return the next record of the vEU."""
        kinds = [value.type for value in record.values]
        kernels = self._layout.program.kernels
        switch = scf.IndexSwitchOp(kinds, as_index(record.words[0]), range(len(kernels)))
        for number, block in enumerate(switch.case_blocks):
            with ir.InsertionPoint(block):
                scf.YieldOp(self._run(number, record).values)
        with ir.InsertionPoint(switch.default_block):
            scf.YieldOp(self._barrier(record).values)
        position, *words = switch.results
        return _Fetched(position, words)

    def _run(self, number: int, record: _Fetched) -> _Fetched:
        """Emit the rTasks of a run record, which calls rKernel ``number``; return the next record.

        If the record has a step count, the vEU's step counter is then stored, else only a block
        barrier follows. The next record is fetched after the rTasks, because its words would occupy
        registers during the rKernel.
        """
        table, kernel = self._frame.table, self._layout.program.kernels[number].name
        _, first, count, arguments = (as_index(value) for value in record.words[:4])
        views: list[ir.Value] = []
        for argument, kinds in enumerate(self._frame.buffer_types(kernel)):
            start = as_index(load_word(table, offset(arguments, 2 * argument + 1)))
            buffer = self._buffer(number, argument, arguments)
            views.append(typed_view(buffer, start, *kinds))
        self._frame.run_tasks(kernel, views, first, add(first, count))
        following = self._fetch(offset(record.position, RUN_WORDS))
        steps = record.words[4]
        choice = scf.IfOp(compare("ne", steps, word(0)), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            total = load_word(table, self._frame.total_at)
            self._frame.publish(add(multiply(total, self._frame.run), steps))
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            self._frame.meet()
            scf.YieldOp([])
        return following

    def _buffer(self, kernel: int, argument: int, arguments: ir.Value) -> ir.Value:
        """Emit code that selects the buffer of an rKernel's argument; return the buffer.

        Args:
            kernel: index of the rKernel.
            argument: index of the argument.
            arguments: position in the task table of the current record's arguments. The buffer's
                index is read from there if rOperators pass different buffers for the argument.
        """
        kind = bytes_type(DYNAMIC)
        numbers = self._buffers_of(kernel, argument)
        if len(numbers) == 1:
            return memref.cast(kind, self._frame.buffer(self._layout.buffers[numbers[0]]))
        which = as_index(load_word(self._frame.table, offset(arguments, 2 * argument)))
        return choose_buffer(self._frame, which, numbers, kind)

    def _buffers_of(self, kernel: int, argument: int) -> list[int]:
        """Return the indices of the buffers that argument ``argument`` of an rKernel may refer to.

        A buffer's index is its position in ``KernelLayout.buffers``.
        """
        slots = {
            operator.slots[argument]
            for operator in self._layout.program.operators
            if operator.kernel == kernel
        }
        return sorted({self._layout.buffers.index((slot.base, slot.index)) for slot in slots})

    def _barrier(self, record: _Fetched) -> _Fetched:
        """Emit the wait of a barrier record; return the next record of the vEU.

        If the watchdog has stopped the program, the returned record is an end record.
        """
        at, count = offset(record.position, WAITS_AT), as_index(record.words[1])
        following = self._fetch(add(at, multiply(count, index(2))))
        if not self._layout.watchdog:
            self._frame.wait(at, count)
            return following
        kind, *others = following.words
        stopped = self._frame.wait_or_stop(at, count)
        return _Fetched(following.position, [arith.select(stopped, word(END), kind), *others])
