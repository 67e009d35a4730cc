"""Code that executes vEUs: a dispatch loop over the task table, or straight-line code.

Both forms call the same rKernels and use the same step counters. The context that they get is an
array of 64-bit words, in the order of ``ContextWord``. A vEU's counter holds the rTasks that it has
completed in all runs so far, so nothing is cleared between runs; its only writer publishes with
release stores, and waiting vEUs poll with acquire loads. It publishes every rTask, awaited or not,
because dispatch, call and store together take some 3 ns.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.entry_frame import EntryFrame, Span
from rammer_mlir.lowering.cpu.runtime import NANOSECONDS, WAIT
from rammer_mlir.lowering.llvm.builders import (
    add,
    branch,
    branch_if,
    call_for,
    constant,
    element,
    i32,
    i64,
    is_equal,
    is_less,
    load,
    load_element,
    load_number,
    multiply,
    number_at,
    pointer,
    store,
    switch,
)
from rammer_mlir.programs.cpu_table import BARRIER, END, RUN_WORDS
from rammer_mlir.programs.native_interface import ContextWord
from rammer_mlir.programs.records import BarrierRecord, KernelSymbol, Program, Record, RunRecord

STRAIGHT_LINE_LIMIT = 64
"""Records up to which a program becomes straight-line code.

Measured: a record takes some 4 ms to compile and saves a few nanoseconds of each run, so longer
programs would pay a second of compile time for a microsecond.
"""


def define_dispatch_loop(
    name: str, kernels: Sequence[KernelSymbol], *, traced: bool, wait: str = WAIT
) -> None:
    """Define the function that executes one vEU's records of the task table.

    With ``traced``, it writes the start and end of every record, in nanoseconds. ``wait`` is the
    runtime's function that waits.
    """
    _DispatchLoop(EntryFrame(name, wait), kernels, traced=traced).build()


class _DispatchLoop:
    """The loop over one vEU's records, up to the record that ends them.

    Its blocks: ``fetch`` gets where the next record begins, the value of the step counter, and the
    number of the record; ``next`` the same but the last, from the code of each record.
    """

    def __init__(self, frame: EntryFrame, kernels: Sequence[KernelSymbol], *, traced: bool) -> None:
        self._frame, self._kernels = frame, kernels
        with ir.InsertionPoint(frame.entry):
            self._records = frame.array(ContextWord.RECORDS)
            self._arguments = frame.array(ContextWord.ARGUMENTS)
            self._starts = frame.array(ContextWord.STARTS)
            traces = frame.array(ContextWord.TRACES) if traced else None
            self._trace = traces and load_element(traces, frame.veu, pointer())
        self._fetch = frame.block(i64(), i64(), i64())
        self._begin, self._barrier = frame.block(), frame.block()
        self._pair, self._wait = frame.block(i64()), frame.block()
        self._awaited, self._run = frame.block(), frame.block()
        self._next = frame.block(i64(), i64())
        self._pc, self._done, self._number = self._fetch.arguments

    def build(self) -> None:
        """Fill all blocks."""
        with ir.InsertionPoint(self._frame.entry):
            start = number_at(self._starts, self._frame.veu)
            branch(self._fetch, start, self._frame.base, constant(0))
        with ir.InsertionPoint(self._fetch):
            record = element(self._records, self._pc, i32())
            kind = load(i32(), record)
            branch_if(is_equal(kind, constant(END, i32())), self._frame.finish, self._begin)
        with ir.InsertionPoint(self._begin):
            self._stamp(0)
            is_barrier = is_equal(kind, constant(BARRIER, i32()))
            second = number_at(record, 1)
            branch_if(is_barrier, self._barrier, self._run)
        self._build_barrier(record, second)
        self._build_run(record, kind, second)
        with ir.InsertionPoint(self._next):
            self._stamp(1)
            branch(self._fetch, *self._next.arguments, add(self._number, 1))

    def _build_barrier(self, record: ir.Value, count: ir.Value) -> None:
        """Wait for ``count`` pairs of a vEU and its steps."""
        with ir.InsertionPoint(self._barrier):
            pairs = element(record, 2, i32())
            branch(self._pair, constant(0))
        (number,) = self._pair.arguments
        with ir.InsertionPoint(self._pair):
            branch_if(is_less(number, count), self._wait, self._awaited)
        with ir.InsertionPoint(self._wait):
            pair = element(pairs, multiply(number, 2), i32())
            self._frame.wait(load_number(pair), number_at(pair, 1))
            branch(self._pair, add(number, 1))
        with ir.InsertionPoint(self._awaited):
            words = add(multiply(count, 2), 2)
            branch(self._next, add(self._pc, words), self._done)

    def _build_run(self, record: ir.Value, kind: ir.Value, first: ir.Value) -> None:
        """Run rTasks of the rKernel whose number is the record's kind."""
        with ir.InsertionPoint(self._run):
            limit = add(first, number_at(record, 2))
            arguments = element(self._arguments, number_at(record, 3), i32())
            following = add(self._pc, RUN_WORDS)
        cases: list[ir.Block] = []
        for kernel in self._kernels:
            cases.append(self._next.create_before())
            with ir.InsertionPoint(cases[-1]):
                places = range(kernel.num_arguments)
                buffers = [self._frame.buffer(number_at(arguments, n)) for n in places]
                span = Span(first, limit, self._done)
                self._frame.run(kernel, buffers, span, self._next, following)
        with ir.InsertionPoint(self._run):
            switch(kind, cases, self._frame.finish)

    def _stamp(self, word: int) -> None:
        """Write the time to a word of the record's pair in the trace buffer, if there is one."""
        if self._trace is not None:
            pair = element(self._trace, multiply(self._number, 2), i64())
            address = element(pair, 8 * word, ir.IntegerType.get_signless(8))
            store(call_for(i64(), NANOSECONDS), address)


def define_straight_line(name: str, program: Program, *, wait: str = WAIT) -> None:
    """Define the function that executes each vEU by code of its own, with constant operands.

    ``wait`` is the runtime's function that waits.
    """
    (launch,) = program.launches
    straight = _StraightLine(EntryFrame(name, wait), program)
    straight.build([straight.build_veu(records) for records in launch.veus])


class _StraightLine:
    """Code for each vEU, chosen by its number: runs and barriers with constants for operands."""

    def __init__(self, frame: EntryFrame, program: Program) -> None:
        self._frame, self._program = frame, program
        self._number = {slot: number for number, slot in enumerate(program.slots)}

    def build(self, veus: list[ir.Block]) -> None:
        """Begin with the block of the vEU that is executed."""
        with ir.InsertionPoint(self._frame.entry):
            switch(self._frame.veu, veus, self._frame.finish)

    def build_veu(self, records: Sequence[Record]) -> ir.Block:
        """Return the first block of a vEU's code."""
        first = block = self._frame.block()
        done = self._frame.base
        for record in records:
            with ir.InsertionPoint(block):
                if isinstance(record, BarrierRecord):
                    for veu, steps in record.waits:
                        self._frame.wait(veu, constant(steps))
                else:
                    block = self._run(record, done)
                    (done,) = block.arguments
        with ir.InsertionPoint(block):
            branch(self._frame.finish)
        return first

    def _run(self, record: RunRecord, done: ir.Value) -> ir.Block:
        """Run a record's rTasks; return the next block, which gets the step counter."""
        slots = self._program.operators[record.operator].slots
        buffers = [self._frame.buffer(self._number[slot]) for slot in slots]
        span = Span(constant(record.first), constant(record.first + record.count), done)
        following = self._frame.block(i64())
        self._frame.run(self._program.kernel_of(record), buffers, span, following)
        return following
