"""Emits barrier-rTasks with a timeout, to report a stuck wait instead of hanging the launch.

A waiting thread counts its polls (reads of the awaited step counter). The first thread of the
launch whose count reaches the limit writes a report to the watchdog's buffer. Then the other
waiting threads of the launch stop polling too, and each waiting block skips to the end of its vEU's
list, so that the kernel ends normally and the host reads the report.

All threads of a block must take the same decision. For this, the buffer has a word per vEU. A
thread that timed out sets the word before a block barrier; all threads of the block read the word
after that barrier and before a second barrier.

For the words of the buffer, see ``rammer_mlir.programs.native_interface``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import arith, func, gpu, ir, llvm, memref, scf
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.program.barriers import (
    AWAIT,
    AwaitedStep,
    awaited_step,
    fence,
    global_pointer,
    paused_after,
)
from rammer_mlir.lowering.gpu.program.builders import (
    add,
    as_word,
    compare,
    function,
    index,
    repeat,
    word,
)
from rammer_mlir.lowering.gpu.program.layout import KernelLayout
from rammer_mlir.lowering.llvm.builders import element, i64, load_acquire, store_release
from rammer_mlir.programs.native_interface import WATCH_HEADER, WatchWord


def define_watched_await(layout: KernelLayout) -> None:
    """Define ``AWAIT(counters, table, at, n, run, watch, own vEU)``, a wait that can time out.

    The task table has ``n`` pairs (vEU, steps) from position ``at`` on. The function returns when
    the vEU of each pair has completed ``steps`` steps of the current run, which has index ``run``,
    or when a thread of the launch has timed out. ``watch`` is the watchdog's buffer, ``own vEU`` is
    the index of the waiting vEU. The function returns an i1: whether the waiting vEU has to stop,
    because a thread timed out before the awaited steps were completed.
    """
    position = ir.IndexType.get()
    kinds = [
        layout.counters_type, layout.table_type, position, position, i64(), layout.watch_type,
        i64(),
    ]  # fmt: skip
    with function(AWAIT, kinds, [ir.IntegerType.get_signless(1)]) as arguments:
        counters, table, at, count, run, buffer, own = arguments
        thread = gpu.thread_id(gpu.Dimension.x)
        watch = _Watch(layout, buffer)
        mark = element(watch.claims, add(word(WATCH_HEADER), own), i64())
        with repeat(thread, count, index(layout.target.block_threads)) as pair:
            awaited = awaited_step(layout, counters, table, at, pair, run)
            watch.poll(awaited)
            watch.report_if_late(awaited, mark, _Waiter(own, at, run))
        gpu.barrier()
        fence(layout.target, "acquire")
        stopped = compare("ne", load_acquire(mark, layout.target.scope), word(0))
        gpu.barrier()
        func.ReturnOp([stopped])


@dataclass(frozen=True)
class _Waiter:
    """A waiting vEU.

    Attributes:
        veu: index of the vEU.
        position: position in the task table of the first pair of the vEU's barrier.
        run: index of the program's run, from 0.
    """

    veu: ir.Value
    position: ir.Value
    run: ir.Value


class _Watch:
    """Emits the code that accesses the watchdog's buffer.

    The first word of the buffer counts the threads that timed out.
    """

    def __init__(self, layout: KernelLayout, buffer: ir.Value) -> None:
        self._limit, self._scope = layout.watchdog, layout.target.scope
        self._buffer = buffer
        self.claims = global_pointer(buffer)

    def poll(self, awaited: AwaitedStep) -> None:
        """Emit a loop that reads a step counter until the awaited value or a timeout.

        The loop ends without the awaited value if this thread has reached the limit of polls, or
        another thread of the launch has timed out.
        """
        loop = scf.WhileOp([i64()], [word(0)])
        before, after = loop.before.blocks.append(i64()), loop.after.blocks.append(i64())
        with ir.InsertionPoint(before):
            (polls,) = before.arguments
            early = compare("slt", load_acquire(awaited.counter, self._scope), awaited.wanted)
            patient = compare("slt", polls, word(self._limit))
            running = compare("eq", load_acquire(self.claims, self._scope), word(0))
            scf.ConditionOp(arith.andi(arith.andi(early, patient), running), [polls])
        with ir.InsertionPoint(after):
            scf.YieldOp([paused_after(after.arguments[0])])

    def report_if_late(self, awaited: AwaitedStep, mark: ir.Value, waiter: _Waiter) -> None:
        """Emit code that stops the waiting vEU if the awaited value was not reached by the polls.

        The code sets the vEU's word in the watchdog's buffer, at address ``mark``, to 1. The first
        thread of the launch that times out also writes the watchdog's report.
        """
        seen = load_acquire(awaited.counter, self._scope)
        with when(compare("slt", seen, awaited.wanted)):
            ticket = self._claim()
            with when(compare("eq", ticket, word(0))):
                self._report(awaited, seen, waiter)
            store_release(word(1), mark, self._scope)

    def _claim(self) -> ir.Value:
        """Emit an atomic increment of the count of threads that timed out; return the old count."""
        add_one, order = llvm.AtomicBinOp.add, llvm.AtomicOrdering.monotonic
        return llvm.AtomicRMWOp(
            add_one, self.claims, word(1), order, syncscope=self._scope, alignment=8
        ).result

    def _report(self, awaited: AwaitedStep, seen: ir.Value, waiter: _Waiter) -> None:
        report = {
            WatchWord.VEU: waiter.veu,
            WatchWord.AWAITED: awaited.veu,
            WatchWord.EXPECTED: awaited.wanted,
            WatchWord.SEEN: seen,
            WatchWord.POSITION: as_word(waiter.position),
            WatchWord.RUN: waiter.run,
        }
        for place, value in report.items():
            memref.store(value, self._buffer, [index(place)])
