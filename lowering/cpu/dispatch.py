"""Emits code that executes vEUs: a dispatch loop over the task table, or straight-line code.

Both kinds of code call the same rKernels, use the same step counters, and read a context: an array
of 64-bit words in the order of ``ContextWord``. A vEU's step counter counts the rTasks that the vEU
has completed in all runs so far, so that no counter is cleared between runs. Only the vEU itself
writes its counter, with release stores; waiting vEUs poll it with acquire loads. The counter is
stored after every rTask, even if no vEU waits for it, because dispatch, call and store together
take only about 3 ns.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.cpu.entry_frame import EntryFrame, Span, run_tasks
from rammer_mlir.lowering.cpu.runtime import NANOSECONDS
from rammer_mlir.lowering.llvm.builders import (
    add,
    branch,
    branch_if,
    call_for,
    constant,
    define,
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
    select,
    store,
    switch,
)
from rammer_mlir.programs.cpu_table import BARRIER, END, RUN_WORDS
from rammer_mlir.programs.native_interface import ContextWord
from rammer_mlir.programs.records import BarrierRecord, KernelSymbol, Program, Record, RunRecord

STRAIGHT_LINE_LIMIT = 64
"""Largest number of records (rTask runs and barriers) of a program in straight-line code.

Measured: a record takes about 4 ms to compile and saves a few nanoseconds per run, so longer
programs would pay a second of compile time for a microsecond.
"""

_MOST_INLINE = 32
"""Largest number of rKernels whose loops over rTasks are in the dispatch loop itself.

LLVM's passes take time in proportion to the product of a function's size and its number of loops:
with 1,000 rKernels, half a minute. The loops of more rKernels are separate functions.
"""

_PLACE_BITS = 32
"""Number of low bits of a resume position: a record's first word among the vEU's words."""


def define_dispatch_loop(
    name: str, kernels: Sequence[KernelSymbol], runners: Sequence[str], *, traced: bool
) -> None:
    """Define the LLVM function ``name``: a loop that executes a vEU's records of the task table.

    A record is a run of consecutive rTasks of an rKernel, a barrier, or the end of the vEU's list.
    With ``traced``, the function writes the start and end time of every record, in nanoseconds, to
    the vEU's trace buffer. ``runners`` are the names of the functions that `define_runners` defined
    for the rKernels; if empty, the loop calls the rKernels itself.
    """
    _DispatchLoop(EntryFrame(name), kernels, runners, traced=traced).build()


def define_runners(kernels: Sequence[KernelSymbol]) -> list[str]:
    """Define for each rKernel an LLVM function that executes rTasks, and return their names.

    If there are few rKernels, the dispatch loop itself contains their loops over rTasks; then no
    function is defined, and the result is empty. A function returns the new value of the step
    counter, and has these arguments:

    - index of the first rTask
    - index of the last rTask, plus 1
    - value of the step counter
    - address of the step counter
    - address of the table of buffer addresses
    - address of an array of i32: for each buffer of the rKernel, its index in the table of buffer
      addresses
    """
    if len(kernels) <= _MOST_INLINE:
        return []
    names = [f"rammer_run_{number}" for number in range(len(kernels))]
    for name, kernel in zip(names, kernels, strict=True):
        arguments = (i64(), i64(), i64(), pointer(), pointer(), pointer())
        entry = define(name, *arguments, result=i64())
        function = entry.owner.operation
        function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        function.attributes["no_inline"] = ir.UnitAttr.get()
        first, limit, done, counter, pointers, numbers = entry.arguments
        leave = entry.create_after(i64())
        with ir.InsertionPoint(leave):
            llvm.ReturnOp(arg=leave.arguments[0])
        with ir.InsertionPoint(entry):
            slots = [number_at(numbers, n) for n in range(kernel.num_arguments)]
            buffers = [load_element(pointers, slot, pointer()) for slot in slots]
            run_tasks(kernel, buffers, Span(first, limit, done), counter, leave)
    return names


class _DispatchLoop:
    """The loop over a vEU's records (rTask runs, barriers) in the task table, up to its end record.

    The block ``fetch`` begins an iteration. Its arguments are the index of the next record's first
    word in the table, the vEU's step counter, and the count of records so far. The code of each
    record ends with a branch to the block ``next``, with the index of the following record and the
    new step counter.

    A suspended vEU resumes at ``fetch``. The low ``_PLACE_BITS`` bits of its resume position are
    the index of the barrier's record among the vEU's words in the table. The bits above are the
    count of records so far, which only a trace uses.
    """

    def __init__(
        self,
        frame: EntryFrame,
        kernels: Sequence[KernelSymbol],
        runners: Sequence[str],
        *,
        traced: bool,
    ) -> None:
        self._frame, self._kernels, self._runners = frame, kernels, runners
        with ir.InsertionPoint(frame.entry):
            self._records = frame.array(ContextWord.RECORDS)
            self._arguments = frame.array(ContextWord.ARGUMENTS)
            self._start = number_at(frame.array(ContextWord.STARTS), frame.veu)
            traces = frame.array(ContextWord.TRACES) if traced else None
            self._trace = traces and load_element(traces, frame.veu, pointer())
        self._fetch = frame.block(i64(), i64(), i64())
        self._begin, self._barrier = frame.block(), frame.block()
        self._pair, self._wait, self._met = frame.block(i64()), frame.block(), frame.block()
        self._awaited, self._run = frame.block(), frame.block()
        self._next = frame.block(i64(), i64())
        self._pc, self._done, self._number = self._fetch.arguments

    def build(self) -> None:
        """Emit the operations of all blocks of the loop."""
        with ir.InsertionPoint(self._frame.entry):
            position = self._frame.position
            place = llvm.AndOp(position, constant((1 << _PLACE_BITS) - 1)).result
            number = llvm.LShrOp(position, constant(_PLACE_BITS)).result
            is_begin = is_equal(position, constant(0))
            done = select(is_begin, self._frame.base, self._frame.done())
            branch(self._fetch, add(self._start, place), done, number)
        with ir.InsertionPoint(self._fetch):
            record = element(self._records, self._pc, i32())
            kind = load(i32(), record)
            branch_if(is_equal(kind, constant(END, i32())), self._frame.finish, self._begin)
        with ir.InsertionPoint(self._begin):
            self._store_time(0, is_first=True)
            is_barrier = is_equal(kind, constant(BARRIER, i32()))
            second = number_at(record, 1)
            branch_if(is_barrier, self._barrier, self._run)
        self._build_barrier(record, second)
        self._build_run(record, kind, second)
        with ir.InsertionPoint(self._next):
            self._store_time(1)
            branch(self._fetch, *self._next.arguments, add(self._number, 1))

    def _build_barrier(self, record: ir.Value, count: ir.Value) -> None:
        """Emit a barrier: a wait for each of the ``count`` pairs in the barrier's record.

        A pair is the index of a vEU, and the count of steps of the current run that this vEU must
        have completed when the wait ends. ``record`` is the address of the record.
        """
        with ir.InsertionPoint(self._barrier):
            pairs = element(record, 2, i32())
            branch(self._pair, constant(0))
        (number,) = self._pair.arguments
        with ir.InsertionPoint(self._pair):
            branch_if(is_less(number, count), self._wait, self._awaited)
        with ir.InsertionPoint(self._wait):
            pair = element(pairs, multiply(number, 2), i32())
            position = llvm.SubOp(self._pc, self._start, None).result
            if self._trace is not None:
                shifted = llvm.ShlOp(self._number, constant(_PLACE_BITS), None).result
                position = llvm.OrOp(position, shifted).result
            veu, steps = load_number(pair), number_at(pair, 1)
            self._frame.wait(veu, steps, self._met, position)
        with ir.InsertionPoint(self._met):
            branch(self._pair, add(number, 1))
        with ir.InsertionPoint(self._awaited):
            words = add(multiply(count, 2), 2)
            branch(self._next, add(self._pc, words), self._done)

    def _build_run(self, record: ir.Value, kind: ir.Value, first: ir.Value) -> None:
        """Emit the execution of a run record: consecutive rTasks of one rKernel.

        ``record`` is the record's address, ``kind`` the index of the rKernel, and ``first`` the
        index of the first rTask.
        """
        with ir.InsertionPoint(self._run):
            limit = add(first, number_at(record, 2))
            arguments = element(self._arguments, number_at(record, 3), i32())
            following = add(self._pc, RUN_WORDS)
        cases: list[ir.Block] = []
        for number, kernel in enumerate(self._kernels):
            cases.append(self._next.create_before())
            with ir.InsertionPoint(cases[-1]):
                if self._runners:
                    operands = (self._frame.counter, self._frame.pointers, arguments)
                    runner = self._runners[number]
                    done = call_for(i64(), runner, first, limit, self._done, *operands)
                    branch(self._next, following, done)
                else:
                    places = range(kernel.num_arguments)
                    buffers = [self._frame.buffer(number_at(arguments, n)) for n in places]
                    span = Span(first, limit, self._done)
                    self._frame.run(kernel, buffers, span, self._next, following)
        with ir.InsertionPoint(self._run):
            switch(kind, cases, self._frame.finish)

    def _store_time(self, word: int, *, is_first: bool = False) -> None:
        """Emit a store of the current time to the trace buffer, if there is a trace buffer.

        The buffer has a pair of times for each record; ``word`` is 0 for the record's start and 1
        for its end. With ``is_first``, a nonzero time in the buffer is kept, because a
        barrier at which the vEU was suspended began earlier.
        """
        if self._trace is None:
            return
        pair = element(self._trace, multiply(self._number, 2), i64())
        address = element(pair, 8 * word, ir.IntegerType.get_signless(8))
        now = call_for(i64(), NANOSECONDS)
        before = load(i64(), address)
        store(select(is_equal(before, constant(0)), now, before) if is_first else now, address)


def define_straight_line(name: str, program: Program) -> None:
    """Define the LLVM function ``name``, which executes the records of each vEU of ``program``.

    A record is a run of consecutive rTasks of an rKernel, or a barrier.
    Each vEU has separate straight-line code with constant operands, without a task table.
    """
    (launch,) = program.launches
    straight = _StraightLine(EntryFrame(name), program)
    straight.build([straight.build_veu(records) for records in launch.veus])


class _StraightLine:
    """Straight-line code for each vEU, in a function that branches to the code of its vEU.

    The code calls rKernels and waits at barriers, with constant operands. A suspended vEU resumes
    at the barrier that suspended it. The resume position is the index of this barrier among the
    vEU's barriers, counted from 1; 0 is the beginning.
    """

    def __init__(self, frame: EntryFrame, program: Program) -> None:
        self._frame, self._program = frame, program
        self._number = {slot: number for number, slot in enumerate(program.slots)}

    def build(self, veus: list[ir.Block]) -> None:
        """Emit the switch on the vEU's index; ``veus`` has the first block of each vEU's code."""
        with ir.InsertionPoint(self._frame.entry):
            switch(self._frame.veu, veus, self._frame.finish)

    def build_veu(self, records: Sequence[Record]) -> ir.Block:
        """Emit the code of a vEU's records; return its first block.

        The first block branches to the beginning or to the barrier at which the vEU was suspended.
        """
        first, block = self._frame.block(), self._frame.block()
        starts, steps = [block], 0
        for record in records:
            if isinstance(record, BarrierRecord):
                starts.append(self._frame.block())
                with ir.InsertionPoint(block):
                    branch(starts[-1])
                block = self._barrier(record, starts[-1], len(starts) - 1)
            else:
                block = self._run(record, block, steps)
                steps += record.count
        with ir.InsertionPoint(block):
            branch(self._frame.finish)
        with ir.InsertionPoint(first):
            switch(self._frame.position, starts, self._frame.finish)
        return first

    def _barrier(self, record: BarrierRecord, block: ir.Block, position: int) -> ir.Block:
        """Emit a wait for each pair (vEU, steps) of a barrier, beginning in ``block``.

        ``position`` is the resume position of the vEU if a wait suspends it. Return the block in
        which the code after the barrier continues.
        """
        for veu, steps in record.waits:
            following = self._frame.block()
            with ir.InsertionPoint(block):
                self._frame.wait(veu, constant(steps), following, position)
            block = following
        return block

    def _run(self, record: RunRecord, block: ir.Block, steps: int) -> ir.Block:
        """Emit the calls of a record's rTasks, beginning in ``block``.

        ``steps`` is the count of rTasks that the vEU has completed in this run before the record.
        Return the block in which the code after the calls continues.
        """
        slots = self._program.operators[record.operator].slots
        following = self._frame.block(i64())
        with ir.InsertionPoint(block):
            buffers = [self._frame.buffer(self._number[slot]) for slot in slots]
            first, limit = constant(record.first), constant(record.first + record.count)
            span = Span(first, limit, add(self._frame.base, steps))
            self._frame.run(self._program.kernel_of(record), buffers, span, following)
        return following
