"""Map an rKernel's tile to the threads of one block.

An rKernel is executed by all threads of a block together. Each ``linalg.generic`` spreads its
parallel iterations over the threads at a stride of the block's size, the innermost loop fastest,
so that neighbouring lanes touch neighbouring elements; its reductions stay in a thread. A block
barrier follows every operation that writes memory. Control flow and scalars around it are uniform:
every thread computes them, and a store outside of ``linalg`` is one thread's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rammer_mlir.bindings import arith, gpu, ir, memref, scf
from rammer_mlir.lowering.cpu.vectorize_affine import as_value, evaluate
from rammer_mlir.lowering.gpu.iteration_space import loop_bounds, product, unflatten
from rammer_mlir.lowering.ir_walk import walk

_WRITERS = frozenset(("memref.store", "memref.atomic_rmw", "memref.generic_atomic_rmw"))


@dataclass(frozen=True)
class Threads:
    """A thread's number in its block, and the block's size, as ``index`` values."""

    number: Any
    count: Any


def map_to_threads(kernel: Any) -> None:
    """Rewrite the body of an rKernel (``func.func`` on memrefs, linalg generalised), in place.

    The result ends without a block barrier: its caller orders it against what comes after.
    """
    block = kernel.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        threads = Threads(gpu.thread_id(gpu.Dimension.x), gpu.block_dim(gpu.Dimension.x))
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


def spread(generic: Any, threads: Threads) -> None:
    """Emit a ``linalg.generic`` as a loop over the parallel iterations of one thread."""
    bounds = loop_bounds(generic)
    kinds = [str(kind) for kind in generic.attributes["iterator_types"]]
    parallel = [n for n, kind in enumerate(kinds) if "parallel" in kind]
    reduced = [n for n, kind in enumerate(kinds) if "parallel" not in kind]
    sizes = [bounds[n] for n in parallel]
    loop = scf.ForOp(threads.number, as_value(product(sizes)), threads.count)
    with ir.InsertionPoint(loop.body):
        indices: list[Any] = [None] * len(kinds)
        for n, index in zip(parallel, unflatten(loop.induction_variable, sizes), strict=True):
            indices[n] = index
        _iterate(generic, indices, bounds, reduced)
        scf.YieldOp([])


def _iterate(
    generic: Any, indices: list[Any], bounds: Sequence[Any], reduced: Sequence[int]
) -> None:
    """Emit one point of the parallel space: its reduction loops, and the stores of its results."""
    body = generic.regions[0].blocks[0]
    num_outputs = len(body.operations[len(body.operations) - 1].operands)
    first_output = len(generic.operands) - num_outputs
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    point = [0 if index is None else index for index in indices]
    outputs = [
        (generic.operands[n], [as_value(evaluate(r, point)) for r in maps[n].results])
        for n in range(first_output, len(maps))
    ]
    initial = [
        memref.load(buffer, at) if reduced or list(body.arguments[first_output + n].uses) else None
        for n, (buffer, at) in enumerate(outputs)
    ]
    if reduced:
        results = _reduce(generic, indices, bounds, reduced, initial)
    else:
        results = inline_body(generic, indices, initial)
    for value, (buffer, at) in zip(results, outputs, strict=True):
        memref.store(value, buffer, at)


def _reduce(
    generic: Any,
    indices: list[Any],
    bounds: Sequence[Any],
    reduced: Sequence[int],
    carried: Sequence[Any],
) -> list[Any]:
    """Emit the nest of reduction loops, accumulators in registers."""
    if not reduced:
        return inline_body(generic, indices, carried)
    zero, one = (arith.constant(ir.IndexType.get(), n) for n in (0, 1))
    loop = scf.ForOp(zero, as_value(bounds[reduced[0]]), one, list(carried))
    with ir.InsertionPoint(loop.body):
        inner = list(indices)
        inner[reduced[0]] = loop.induction_variable
        accumulators = list(loop.inner_iter_args)
        scf.YieldOp(_reduce(generic, inner, bounds, reduced[1:], accumulators))
    return list(loop.results)


def inline_body(generic: Any, indices: Sequence[Any], carried: Sequence[Any]) -> list[Any]:
    """Move the body of a ``linalg.generic`` here, at one point of the iteration space.

    ``carried`` are the values of the outputs before this point, None where they are not read.
    """
    body = generic.regions[0].blocks[0]
    maps = [attribute.value for attribute in generic.attributes["indexing_maps"]]
    first_output = len(generic.operands) - len(carried)
    for n, argument in enumerate(body.arguments):
        if n >= first_output:
            value = carried[n - first_output]
        else:
            value = _read(generic.operands[n], maps[n], argument, indices)
        if value is not None:
            argument.replace_all_uses_with(value)
    place = ir.InsertionPoint.current
    terminator = body.operations[len(body.operations) - 1].operation
    for nested in walk(generic):
        if nested.name == "linalg.index":
            index = as_value(indices[nested.attributes["dim"].value])
            nested.result.replace_all_uses_with(index)
            nested.erase()
    for operation in [op.operation for op in body.operations][:-1]:
        operation.detach_from_parent()
        place.insert(operation)
    return list(terminator.operands)


def _read(operand: Any, access: Any, argument: Any, indices: Sequence[Any]) -> Any:
    """Emit the value of an input at a point; None where the body does not use it."""
    if not list(argument.uses):
        return None
    if not isinstance(operand.type, ir.MemRefType):
        return operand
    return memref.load(operand, [as_value(evaluate(r, indices)) for r in access.results])
