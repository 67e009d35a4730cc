"""Emits barrier-rTasks between vEUs inside a persistent kernel (RAMMER section 4.2).

A vEU's step counter counts the rTasks that the vEU has completed in all runs so far.

To publish a step counter, the block executes a block barrier, then one thread stores the counter
with release order. Each counter has a single writer, so no read-modify-write is needed.

To wait for other vEUs, the block uses one thread per awaited vEU, which polls: it reads that vEU's
step counter with acquire order until the awaited value is reached, at first without and then with
pauses. Then the block executes a block barrier.

The release and the acquire are at device scope. By causality order in PTX, the block barriers
extend the release to the writes of the block's other threads, and the acquire to their later reads.
Where the target requires it, each thread executes a fence as well.
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
    """Declare the function that a waiting thread calls between reads of a step counter."""
    func.FuncOp(PAUSE, ir.FunctionType.get([], []), visibility="private")


def define_await(layout: KernelLayout) -> None:
    """Define ``AWAIT(counters, table, at, n, run)``, by which a vEU waits for other vEUs.

    The task table has ``n`` pairs (vEU, steps) from position ``at`` on. The function returns when
    the vEU of each pair has completed ``steps`` steps of the current run, which has index ``run``.
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
    """Emit a loop that polls (reads) the awaited counter until it reaches the awaited value.

    The first polls follow each other without a pause: most waits are short, and a pause may last
    twice as long as requested.
    """
    loop = scf.WhileOp([i64()], [word(0)])
    before, after = (region.blocks.append(i64()) for region in (loop.before, loop.after))
    with ir.InsertionPoint(before):
        now = load_acquire(awaited.counter, target.scope)
        scf.ConditionOp(compare("slt", now, awaited.wanted), list(before.arguments))
    with ir.InsertionPoint(after):
        scf.YieldOp([paused_after(after.arguments[0])])


def paused_after(polls: ir.Value) -> ir.Value:
    """Emit the pause after a poll (a read of a step counter); return ``polls + 1``.

    ``polls`` is the index of the poll. The first ``_EAGER_POLLS`` polls have no pause.
    """
    with when(compare("sge", polls, word(_EAGER_POLLS))):
        call(PAUSE)
    return add(polls, word(1))


def define_publish(layout: KernelLayout) -> None:
    """Define the function ``PUBLISH(counters, vEU, done)``, which stores a step counter.

    The counter's new value ``done`` tells the other vEUs that this vEU has completed ``done``
    rTasks in all runs so far, and that they may read the results.
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

    Attributes:
        veu: index of the vEU whose counter is awaited.
        wanted: least value of the counter that ends the wait.
        counter: address of the counter.
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
        at: position of the barrier's first pair in the task table.
        pair: index of the pair among the barrier's pairs.
        run: index of the program's run, from 0.
    """
    position = add(at, multiply(pair, index(2)))
    steps_at = offset(position, 1)
    veu, steps = load_word(table, position), load_word(table, steps_at)
    total = load_word(table, add(index(layout.num_veus), as_index(veu)))
    wanted = add(multiply(total, run), steps)
    return AwaitedStep(veu, wanted, counter_pointer(counters, veu))


def counter_pointer(counters: ir.Value, veu: ir.Value) -> ir.Value:
    """Emit the address of a vEU's step counter, for atomic loads and stores.

    The memref dialect has no atomic loads and stores.
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
