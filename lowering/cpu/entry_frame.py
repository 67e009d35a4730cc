"""Emits the code that all CPU entry functions share: context reads, waits and suspension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.cpu.runtime import WAIT
from rammer_mlir.lowering.llvm.builders import (
    Number,
    add,
    as_value,
    branch,
    branch_if,
    call,
    call_for,
    constant,
    define,
    element,
    i1,
    i64,
    is_less,
    load,
    load_element,
    multiply,
    pointer,
    store,
    store_release,
)
from rammer_mlir.programs.native_interface import CACHE_LINE, VEU, ContextWord
from rammer_mlir.programs.records import KernelSymbol

_POSITION: int = (VEU.fields or {})["position"][1]
"""Byte offset of the resume position in a vEU's state, whose layout is ``VEU``."""


@dataclass(frozen=True)
class Span:
    """Consecutive rTasks that a vEU executes, given by integer values of the IR.

    Attributes:
        first: index of the first rTask.
        limit: index of the last rTask, plus 1.
        done: value of the vEU's step counter before the first rTask.
    """

    first: ir.Value
    limit: ir.Value
    done: ir.Value


class EntryFrame:
    """The frame of an entry function ``(vEU, context, state) -> i1``: its first and last blocks.

    The function executes the vEU from the resume position in the state up to an unmet barrier or
    the vEU's end, and returns only in its last two blocks. The context is an array of 64-bit words,
    in the order of ``ContextWord``.

    Attributes:
        entry: the first block, which the frame leaves without a terminator.
        leave: the block that suspends the vEU: it stores the block argument as the resume position
            and returns 0.
        finish: the last block, which returns 1: the vEU has ended.
        veu: index of the vEU that the function executes.
        position: the resume position, an integer: 0 if the vEU has not begun, else the argument
            ``position`` of the ``wait`` that suspended the vEU.
        base: the vEU's step counter before this run.
        counter: address of the vEU's step counter.
        pointers: address of the table of the buffers' addresses.
    """

    def __init__(self, name: str) -> None:
        """Define the LLVM function ``name`` at the insertion point; emit reads of its context."""
        self.entry = define(name, i64(), pointer(), pointer(), result=i1())
        self.leave = self.entry.create_after(i64())
        self.finish = self.leave.create_after()
        self.veu, self._context, self._state = self.entry.arguments
        with ir.InsertionPoint(self.leave):
            store(self.leave.arguments[0], self._position_at())
            llvm.ReturnOp(arg=constant(0, i1()))
        with ir.InsertionPoint(self.finish):
            llvm.ReturnOp(arg=constant(1, i1()))
        with ir.InsertionPoint(self.entry):
            self.pointers = self.array(ContextWord.POINTERS)
            self._steps = self.array(ContextWord.STEPS)
            self._totals = self.array(ContextWord.TOTALS)
            self._run = load_element(self._context, ContextWord.RUN, i64())
            self._spins = load_element(self._context, ContextWord.SPINS, i64())
            self.base = self._before(self.veu)
            self.counter = self._counter_of(self.veu)
            self.position = load(i64(), self._position_at())

    def array(self, word: ContextWord) -> ir.Value:
        """Emit the load of an array's address from word ``word`` of the context."""
        address = element(self._context, word, i64())
        return llvm.LoadOp(self._context.type, address).result

    def block(self, *arguments: ir.Type) -> ir.Block:
        """Return a new block before the block ``leave``; its arguments have types ``arguments``."""
        return self.leave.create_before(*arguments)

    def buffer(self, slot: Number) -> ir.Value:
        """Emit the load of a buffer's address from the table of the buffers' addresses.

        ``slot`` is the buffer's index in this table.
        """
        return load_element(self.pointers, slot, self._context.type)

    def _before(self, veu: Number) -> ir.Value:
        """Emit the value that a vEU's step counter had before this run."""
        return multiply(load_element(self._totals, veu, i64()), self._run)

    def _counter_of(self, veu: Number) -> ir.Value:
        line = veu * CACHE_LINE if isinstance(veu, int) else multiply(veu, CACHE_LINE)
        return element(self._steps, line, _byte())

    def _position_at(self) -> ir.Value:
        return element(self._state, _POSITION, _byte())

    def done(self) -> ir.Value:
        """Emit the load of the current value of the executed vEU's step counter."""
        return load(i64(), self.counter)

    def wait(self, veu: Number, steps: ir.Value, following: ir.Block, position: Number) -> None:
        """Emit a wait until ``veu`` has completed ``steps`` rTasks of this run.

        After the wait, control continues in ``following``. If the wait exceeds the spin limit, the
        executed vEU is suspended, to resume at ``position``. The wait terminates the block under
        construction.
        """
        target = add(self._before(veu), steps)
        arguments = (self._counter_of(veu), target, self._spins, self._state)
        reached = call_for(i1(), WAIT, *arguments)
        llvm.CondBrOp(reached, [], [as_value(position)], following, self.leave)

    def run(
        self,
        kernel: KernelSymbol,
        buffers: Sequence[ir.Value],
        span: Span,
        following: ir.Block,
        *values: ir.Value,
    ) -> None:
        """Emit a loop that calls ``kernel`` for each rTask of ``span`` and counts the steps.

        After each call, the step counter is stored with release order. The loop terminates the
        block under construction. After the loop, control continues in ``following``, whose
        arguments are ``values`` and then the step counter. ``buffers`` are the addresses that the
        rKernel gets after the rTask's index.
        """
        run_tasks(kernel, buffers, span, self.counter, following, *values)


def run_tasks(
    kernel: KernelSymbol,
    buffers: Sequence[ir.Value],
    span: Span,
    counter: ir.Value,
    following: ir.Block,
    *values: ir.Value,
) -> None:
    """Emit a loop that calls ``kernel`` for each rTask of ``span`` and counts the steps.

    ``counter`` is the address of the step counter. The other arguments are those of
    ``EntryFrame.run``.
    """
    loop, body = following.create_before(i64(), i64()), following.create_before()
    task, done = loop.arguments
    branch(loop, span.first, span.done)
    with ir.InsertionPoint(loop):
        branch_if(is_less(task, span.limit), body, following, *values, done)
    with ir.InsertionPoint(body):
        call(kernel.name, task, *buffers)
        step = add(done, 1)
        store_release(step, counter)
        branch(loop, add(task, 1), step)


def _byte() -> ir.Type:
    return ir.IntegerType.get_signless(8)
