"""The frame of a CPU's entry function: what its code reads, how it waits and publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.lowering.cpu.runtime import WAIT
from rammer_mlir.lowering.llvm.builders import (
    Number,
    add,
    branch,
    branch_if,
    call,
    define,
    element,
    i64,
    is_less,
    load_element,
    multiply,
    pointer,
    store_release,
)
from rammer_mlir.programs.native_interface import CACHE_LINE, ContextWord
from rammer_mlir.programs.records import KernelSymbol


@dataclass(frozen=True)
class Span:
    """Consecutive rTasks: the first one, the one after the last, and the step counter so far."""

    first: ir.Value
    limit: ir.Value
    done: ir.Value


class EntryFrame:
    """An entry function ``(vEU, context)`` that returns from its last block.

    Attributes:
        entry: the first block, which the frame leaves open.
        finish: the last block.
        veu: the vEU that the function executes.
        base: the vEU's step counter before this run.
    """

    def __init__(self, name: str, wait: str = WAIT) -> None:
        """Define the function at the current insertion point, and read the context.

        Args:
            name: of the function.
            wait: the runtime's function that waits.
        """
        self._wait = wait
        self.entry = define(name, i64(), pointer())
        self.finish = self.entry.create_after()
        self.veu, self._context = self.entry.arguments
        with ir.InsertionPoint(self.finish):
            llvm.ReturnOp()
        with ir.InsertionPoint(self.entry):
            self._pointers = self.array(ContextWord.POINTERS)
            self._steps = self.array(ContextWord.STEPS)
            self._totals = self.array(ContextWord.TOTALS)
            self._run = load_element(self._context, ContextWord.RUN, i64())
            self._spins = load_element(self._context, ContextWord.SPINS, i64())
            self.base = self._before(self.veu)
            self._counter = self._counter_of(self.veu)

    def array(self, word: ContextWord) -> ir.Value:
        """Return the address of an array that the context has."""
        address = element(self._context, word, i64())
        return llvm.LoadOp(self._context.type, address).result

    def block(self, *arguments: ir.Type) -> ir.Block:
        """Append a block before the last one."""
        return self.finish.create_before(*arguments)

    def buffer(self, slot: Number) -> ir.Value:
        """Return an entry of the pointer table."""
        return load_element(self._pointers, slot, self._context.type)

    def _before(self, veu: Number) -> ir.Value:
        """Return a vEU's step counter before this run."""
        return multiply(load_element(self._totals, veu, i64()), self._run)

    def _counter_of(self, veu: Number) -> ir.Value:
        line = veu * CACHE_LINE if isinstance(veu, int) else multiply(veu, CACHE_LINE)
        return element(self._steps, line, ir.IntegerType.get_signless(8))

    def wait(self, veu: Number, steps: ir.Value) -> None:
        """Wait until a vEU has completed so many steps of this run."""
        target = add(self._before(veu), steps)
        call(self._wait, self._counter_of(veu), target, self._spins)

    def run(
        self,
        kernel: KernelSymbol,
        buffers: Sequence[ir.Value],
        span: Span,
        following: ir.Block,
        *values: ir.Value,
    ) -> None:
        """Run an rKernel's rTasks and publish each; end the block that is being built.

        The block ``following``, which comes next, gets the values and the step counter.
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
