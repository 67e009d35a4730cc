"""Map an rKernel's tile to the threads of one block.

An rKernel is executed by all threads of a block together: each ``linalg.generic`` is spread over
them, and a block barrier follows every operation that writes memory. Control flow and scalars
around it are uniform: every thread computes them, and a store outside of ``linalg`` is left to one.
"""

from __future__ import annotations

from typing import Any

from rammer_mlir.bindings import arith, gpu, ir, scf
from rammer_mlir.lowering.gpu.spread import Threads, spread
from rammer_mlir.lowering.ir_walk import walk

_WRITERS = frozenset(("memref.store", "memref.atomic_rmw", "memref.generic_atomic_rmw"))


def map_to_threads(kernel: Any, block_threads: int) -> None:
    """Rewrite the body of an rKernel (``func.func`` on memrefs, linalg generalised), in place.

    The result ends without a block barrier: its caller orders it against what comes after.
    """
    block = kernel.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        threads = Threads(gpu.thread_id(gpu.Dimension.x), block_threads)
    _map_block(block, threads)
    _drop_last_barrier(block)


def _map_block(block: Any, threads: Threads) -> None:
    for operation in [op.operation for op in block.operations]:
        if operation.name == "linalg.generic":
            with ir.InsertionPoint(operation), operation.location:
                spread(operation, threads)
                gpu.barrier()
            operation.erase()
        elif operation.name in _WRITERS:
            _by_one_thread(operation, threads)
        elif operation.name == "memref.load":
            _barrier_after(operation)
        elif len(operation.regions):
            _map_regions(operation, threads)


def _map_regions(operation: Any, threads: Threads) -> None:
    names = {nested.name for nested in walk(operation)}
    if not len(operation.results) and "linalg.generic" not in names and names & _WRITERS:
        _by_one_thread(operation, threads)
        return
    for region in operation.regions:
        for block in region.blocks:
            _map_block(block, threads)


def _by_one_thread(operation: Any, threads: Threads) -> None:
    """Let the first thread of the block execute an operation without results."""
    with ir.InsertionPoint(operation), operation.location:
        zero = arith.constant(ir.IndexType.get(), 0)
        is_first = arith.cmpi(arith.CmpIPredicate.eq, threads.number, zero)
        guard = scf.IfOp(is_first)
        with ir.InsertionPoint(guard.then_block):
            end = scf.YieldOp([])
        gpu.barrier()
    operation.move_before(end.operation)


def _barrier_after(operation: Any) -> None:
    """Keep a uniform load of all threads before any later store of one of them."""
    with ir.InsertionPoint.after(operation), operation.location:
        gpu.barrier()


def _drop_last_barrier(block: Any) -> None:
    operations = list(block.operations)
    if len(operations) > 1 and operations[-2].operation.name == "gpu.barrier":
        operations[-2].operation.erase()
