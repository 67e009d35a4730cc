"""The frame of a CPU's entry function: reading the context, waiting, suspending, publishing."""

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
"""Byte offset of the position in a vEU's state."""


@dataclass(frozen=True)
class Span:
    """Consecutive rTasks: the first, the end (exclusive), and the step counter before them."""

    first: ir.Value
    limit: ir.Value
    done: ir.Value


class EntryFrame:
    """An entry function ``(vEU, context, state) -> i1`` that returns from its last two blocks.

    It runs the vEU from the position in the state on, up to an unmet barrier or the end.

    Attributes:
        entry: the first block, which the frame leaves without a terminator.
        leave: suspends the vEU: stores the position that it gets, and returns 0.
        finish: the last block, which returns 1: the vEU has ended.
        veu: the vEU that the function executes.
        position: where the vEU resumes, 0 at its begin. The user of the frame encodes positions.
        base: the vEU's step counter before this run.
    """

    def __init__(self, name: str) -> None:
        """Define the function at the current insertion point, and read the context."""
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
            self._pointers = self.array(ContextWord.POINTERS)
            self._steps = self.array(ContextWord.STEPS)
            self._totals = self.array(ContextWord.TOTALS)
            self._run = load_element(self._context, ContextWord.RUN, i64())
            self._spins = load_element(self._context, ContextWord.SPINS, i64())
            self.base = self._before(self.veu)
            self._counter = self._counter_of(self.veu)
            self.position = load(i64(), self._position_at())

    def array(self, word: ContextWord) -> ir.Value:
        """Load the address of an array from its word of the context."""
        address = element(self._context, word, i64())
        return llvm.LoadOp(self._context.type, address).result

    def block(self, *arguments: ir.Type) -> ir.Block:
        """Append a block before the last two blocks."""
        return self.leave.create_before(*arguments)

    def buffer(self, slot: Number) -> ir.Value:
        """Load the address of the buffer with number ``slot`` from the pointer table."""
        return load_element(self._pointers, slot, self._context.type)

    def _before(self, veu: Number) -> ir.Value:
        """Return a vEU's step counter before this run."""
        return multiply(load_element(self._totals, veu, i64()), self._run)

    def _counter_of(self, veu: Number) -> ir.Value:
        line = veu * CACHE_LINE if isinstance(veu, int) else multiply(veu, CACHE_LINE)
        return element(self._steps, line, _byte())

    def _position_at(self) -> ir.Value:
        return element(self._state, _POSITION, _byte())

    def done(self) -> ir.Value:
        """Return the vEU's step counter as of its suspension."""
        return load(i64(), self._counter)

    def wait(self, veu: Number, steps: ir.Value, following: ir.Block, position: Number) -> None:
        """Emit a wait, and a branch to ``following`` if a vEU has completed ``steps`` of this run.

        If the wait exceeds the spin limit, the waiting vEU is suspended, to resume at ``position``.
        Terminates the block under construction.
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
        """Emit a loop that runs an rKernel's rTasks and publishes each; terminate its block.

        The loop continues in ``following``, whose arguments are ``values`` and the step counter.
        """
        loop, body = following.create_before(i64(), i64()), following.create_before()
        task, done = loop.arguments
        branch(loop, span.first, span.done)
        with ir.InsertionPoint(loop):
            branch_if(is_less(task, span.limit), body, following, *values, done)
        with ir.InsertionPoint(body):
            call(kernel.name, task, *buffers)
            step = add(done, 1)
            store_release(step, self._counter)
            branch(loop, add(task, 1), step)


def _byte() -> ir.Type:
    return ir.IntegerType.get_signless(8)
