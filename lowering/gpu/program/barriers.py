"""Emits barrier-rTasks between vEUs inside a persistent kernel (RAMMER section 4.2).

A vEU's step counter counts the rTasks that it has completed in all runs so far. To publish: a block
barrier, then a release store by one thread; each counter has a single writer, so no
read-modify-write is needed. To wait: one thread for each awaited vEU polls with acquire loads,
backing off; then a block barrier. Both orders are at device scope. The block barrier extends the
release to the writes, and the acquire to the later reads, of the block's other threads, by
causality order in PTX; where the target requires it, each thread executes a fence as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rammer_mlir.bindings import func, gpu, ir, llvm, memref, scf
from rammer_mlir.lowering.gpu.guards import when
from rammer_mlir.lowering.gpu.program.builders import (
    add,
    as_index,
    as_word,
    call,
    compare,
    function,
    index,
    load_word,
    multiply,
    offset,
    repeat,
    word,
)
from rammer_mlir.lowering.gpu.program.layout import KernelLayout
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.builders import element, i64, load_acquire, store_release
from rammer_mlir.programs.native_interface import COUNTER_WORDS

PAUSE = "rammer_pause"
"""Name of the function that a polling thread calls between polls.

Each target defines it by an instruction.
"""

_EAGER_POLLS = 64
"""Number of polls without a pause, each of them an access to the second-level cache."""

AWAIT, PUBLISH = "rammer_await", "rammer_publish"

_GLOBAL = 1
"""Number of LLVM's address space for device memory, on all targets."""


def declare_pause() -> None:
    """Declare the function that a polling thread calls between polls."""
    func.FuncOp(PAUSE, ir.FunctionType.get([], []), visibility="private")


def define_await(layout: KernelLayout) -> None:
    """Define the function ``AWAIT(counters, table, at, n, run)``, which awaits step counters.

    The function waits for the n pairs (vEU, steps) of the task table from position ``at`` on.
    """
    position = ir.IndexType.get()
    kinds = [layout.counters_type, layout.table_type, position, position, i64()]
    with function(AWAIT, kinds) as (counters, table, at, count, run):
        thread = gpu.thread_id(gpu.Dimension.x)
        with repeat(thread, count, index(layout.target.block_threads)) as pair:
            awaited = awaited_step(layout, counters, table, at, pair, run)
            _poll(layout.target, awaited)
        gpu.barrier()
        fence(layout.target, "acquire")
        func.ReturnOp([])


def _poll(target: GpuTarget, awaited: AwaitedStep) -> None:
    """Emit a loop that polls until the counter has the awaited value.

    The first polls follow each other at once: most waits are short, and a pause may last twice its
    time.
    """
    loop = scf.WhileOp([i64()], [word(0)])
    before, after = (region.blocks.append(i64()) for region in (loop.before, loop.after))
    with ir.InsertionPoint(before):
        now = load_acquire(awaited.counter, target.scope)
        scf.ConditionOp(compare("slt", now, awaited.wanted), list(before.arguments))
    with ir.InsertionPoint(after):
        scf.YieldOp([paused_after(after.arguments[0])])


def paused_after(polls: ir.Value) -> ir.Value:
    """Emit the pause after poll number ``polls``, if any; return the number of the next poll.

    The first ``_EAGER_POLLS`` polls have no pause.
    """
    with when(compare("sge", polls, word(_EAGER_POLLS))):
        call(PAUSE)
    return add(polls, word(1))


def define_publish(layout: KernelLayout) -> None:
    """Define the function ``PUBLISH(counters, vEU, done)``, which publishes a step counter.

    It tells the other vEUs that this vEU has completed ``done`` rTasks in all runs so far.
    """
    with function(PUBLISH, [layout.counters_type, i64(), i64()]) as (counters, veu, done):
        fence(layout.target, "release")
        gpu.barrier()
        with when(compare("eq", gpu.thread_id(gpu.Dimension.x), index(0))):
            store_release(done, counter_pointer(counters, veu), layout.target.scope)
        func.ReturnOp([])


@dataclass(frozen=True)
class AwaitedStep:
    """A step counter that a thread awaits.

    The fields are the number of the counter's vEU, the least value for which the thread waits, and
    the address of the counter.
    """

    veu: ir.Value
    wanted: ir.Value
    counter: ir.Value


def awaited_step(
    layout: KernelLayout,
    counters: ir.Value,
    table: ir.Value,
    at: ir.Value,
    pair: ir.Value,
    run: ir.Value,
) -> AwaitedStep:
    """Emit the load of a pair (vEU, steps) of a barrier; return the awaited counter and value.

    Args:
        layout: the layout of the kernel.
        counters: all step counters.
        table: the task table.
        at: position of a barrier's pairs in the table.
        pair: the pair's number in the barrier.
        run: the number of the run, from 0.
    """
    position = add(at, multiply(pair, index(2)))
    steps_at = offset(position, 1)
    veu, steps = load_word(table, position), load_word(table, steps_at)
    total = load_word(table, add(index(layout.num_veus), as_index(veu)))
    wanted = add(multiply(total, run), steps)
    return AwaitedStep(veu, wanted, counter_pointer(counters, veu))


def counter_pointer(counters: ir.Value, veu: ir.Value) -> ir.Value:
    """Emit the address of a vEU's step counter, for atomic loads.

    The memref dialect has no atomic loads.
    """
    place = multiply(veu, word(COUNTER_WORDS))
    return element(global_pointer(counters), place, i64())


def global_pointer(buffer: ir.Value) -> ir.Value:
    """Emit the address of a buffer as an LLVM pointer to device memory."""
    address = memref.extract_aligned_pointer_as_index(buffer)
    return llvm.inttoptr(llvm.PointerType.get(_GLOBAL), as_word(address))


def fence(target: GpuTarget, order: Literal["acquire", "release"]) -> None:
    """Emit a fence of device scope with the memory order ``order``, if the target requires it."""
    if target.fences:
        llvm.FenceOp(getattr(llvm.AtomicOrdering, order), syncscope=target.scope)
