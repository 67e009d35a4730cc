"""Builds the rKernel of a GPU kernel launch: each rTask computes one block of the launch.

An rKernel runs in a persistent block, which is one-dimensional (RAMMER section 4.1). The block ids
of the launch are computed from the rTask's id, and the thread ids from the index of a thread in the
persistent block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rammer_mlir.bindings import arith, func, gpu, ir, memref, scf
from rammer_mlir.lowering.from_gpu.index_range import Dim3
from rammer_mlir.lowering.from_gpu.index_ranges import axis_of
from rammer_mlir.lowering.from_gpu.launches import Launch
from rammer_mlir.lowering.from_gpu.memory_operations import COLLECTIVES, SUBGROUP_OPERATIONS
from rammer_mlir.lowering.from_gpu.spare_threads import OwnThreads, guard
from rammer_mlir.lowering.from_gpu.subgroup_reductions import expand_subgroup_reduction
from rammer_mlir.lowering.gpu.iteration_space import unflatten
from rammer_mlir.lowering.gpu.kernels import BLOCK_THREADS, SUBGROUP
from rammer_mlir.lowering.gpu.temporaries import PRIVATE, in_space, propagate_space
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.affine import as_value, constant


def block_function(
    launch: Launch, name: str, block_threads: int, subgroup: int, ip: ir.InsertionPoint
) -> ir.Operation:
    """Emit and return the rKernel of a launch, a private ``func.func (rTask id, memrefs...)``.

    Args:
        launch: the launch; it is not modified.
        name: the function's symbol.
        block_threads: count of threads of the persistent block, not less than in a launched block.
        subgroup: lanes of a subgroup; 0 if the kernel uses no operations that depend on it.
        ip: where to insert the function.
    """
    copy = launch.kernel.clone(ip=ip).operation
    source = copy.regions[0].blocks[0]
    buffers = [source.arguments[number].type for number in launch.memrefs]
    with ip, launch.kernel.location:
        function = func.FuncOp(name, ([ir.IndexType.get(), *buffers], []), visibility="private")
    function.operation.attributes[BLOCK_THREADS] = _integer(block_threads)
    if subgroup:
        function.operation.attributes[SUBGROUP] = _integer(subgroup)
    block = function.add_entry_block()
    kernel_operations = [operation.operation for operation in source.operations]
    with ir.InsertionPoint(block), launch.kernel.location:
        _replace_arguments(launch, source, list(block.arguments)[1:])
        number = gpu.thread_id(gpu.Dimension.x)
        is_own, thread = _own_thread(number, launch.num_threads, block_threads)
        ids = _Ids(
            _unpacked(block.arguments[0], launch.grid), _unpacked(thread, launch.block),
            launch.grid, launch.block, thread, subgroup,
        )  # fmt: skip
        end = func.ReturnOp([])
    for operation in kernel_operations[:-1]:
        operation.move_before(end.operation)
    copy.erase()
    for operation in kernel_operations[:-1]:
        _rewrite(operation, ids, block)
    if is_own is not None:
        _guard_body(block, end, OwnThreads(is_own, launch.num_threads, _buffers(launch, block)))
    return function.operation


def _integer(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _replace_arguments(launch: Launch, source: ir.Block, buffers: Sequence[ir.Value]) -> None:
    """Replace the arguments of a kernel whose body is ``source``.

    ``buffers`` replace the memrefs, and constants replace the scalars. An argument for shared
    memory becomes an allocation for the whole block, an argument for private memory an allocation
    for each thread.
    """
    arguments = list(source.arguments)
    for number, buffer in zip(launch.memrefs, buffers, strict=True):
        arguments[number].replace_all_uses_with(buffer)
    for number, value in launch.scalars.items():
        constant_value = arith.ConstantOp(arguments[number].type, value).result
        arguments[number].replace_all_uses_with(constant_value)
    attributes = launch.kernel.attributes
    first = len(launch.scalars) + len(launch.memrefs)
    shared = 0
    if "workgroup_attributions" in attributes:
        shared = ir.IntegerAttr(attributes["workgroup_attributions"]).value
    for number, argument in enumerate(arguments[first:]):
        if number < shared:
            kind = in_space(ir.MemRefType(argument.type), None)
            temporary: ir.Value = memref.AllocOp(kind, [], []).result
            argument.replace_all_uses_with(temporary)
            propagate_space(temporary, None)
        else:
            argument.replace_all_uses_with(_private(ir.MemRefType(argument.type)))


def _private(kind: ir.MemRefType) -> ir.Value:
    """Emit an allocation of type ``kind`` in a thread's private memory."""
    return memref.AllocaOp(in_space(kind, ir.Attribute.parse(PRIVATE)), [], []).result


def _own_thread(
    number: ir.Value, threads: int, block_threads: int
) -> tuple[ir.Value | None, ir.Value]:
    """Emit an i1 that tells whether a thread is in the launched block, and the thread's index.

    ``number`` is the thread's index in the persistent block of ``block_threads`` threads. The first
    ``threads`` threads of the persistent block belong to the launched block; all other threads are
    spare and get the index 0. The i1 is None if there are no spare threads.
    """
    if threads == block_threads:
        return None, number
    is_own = arith.cmpi(arith.CmpIPredicate.ult, number, constant(threads))
    return is_own, arith.select(is_own, number, constant(0))


def _unpacked(number: ir.Value, sizes: Dim3) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Emit the x, y and z indices for a linear index in a grid of ``sizes``; x varies fastest."""
    wide = [axis for axis in reversed(range(3)) if sizes[axis] > 1]
    found: list[ir.Value] = [constant(0)] * 3
    for axis, value in zip(wide, unflatten(number, [sizes[axis] for axis in wide]), strict=True):
        found[axis] = as_value(value)
    return found[0], found[1], found[2]


class _Ids:
    """Values that replace the ``gpu`` dialect's reads of ids and sizes of blocks and threads."""

    def __init__(
        self, block: Sequence[ir.Value], thread: Sequence[ir.Value], grid: Dim3, threads: Dim3,
        number: ir.Value, subgroup: int,
    ) -> None:  # fmt: skip
        """Store the ids of the block and the thread, and the sizes of the grid and the block.

        ``number`` is the thread's linear index in the launched block, and ``subgroup`` the count of
        lanes of a subgroup.
        """
        self._block, self._thread, self._grid, self._threads = block, thread, grid, threads
        self._number, self._subgroup = number, subgroup

    def value(self, operation: ir.Operation) -> ir.Value | None:
        """Emit the value that replaces the result of an operation.

        The result is None if the operation does not read an id or a size.
        """
        name = operation.name
        if name in SUBGROUP_OPERATIONS:
            return self._of_subgroup(operation)
        if "dimension" not in operation.attributes:
            return None
        axis = axis_of(operation)
        if name == "gpu.global_id":
            before = arith.muli(self._block[axis], constant(self._threads[axis]))
            return arith.addi(before, self._thread[axis])
        if name == "gpu.block_id":
            return self._block[axis]
        if name == "gpu.thread_id":
            return self._thread[axis]
        sizes = self._grid if name == "gpu.grid_dim" else self._threads
        return constant(sizes[axis])

    def _of_subgroup(self, operation: ir.Operation) -> ir.Value | None:
        match operation.name:
            case "gpu.subgroup_size":
                return constant(self._subgroup)
            case "gpu.num_subgroups":
                return constant(-(-prod(self._threads) // self._subgroup))
            case "gpu.subgroup_id":
                return arith.divui(self._number, constant(self._subgroup))
            case "gpu.subgroup_reduce":
                return expand_subgroup_reduction(operation, self._subgroup)
            case _:
                return None


def _rewrite(operation: ir.Operation, ids: _Ids, block: ir.Block) -> None:
    """Replace reads of ids and sizes, and casts of memory spaces, in ``operation`` and its regions.

    Ids and sizes become the values of ``ids``; a cast becomes its source. Allocations of private
    memory move to the beginning of ``block``, the function's entry.
    """
    for nested in [operation, *walk(operation)]:
        if nested.name.startswith("gpu."):
            with ir.InsertionPoint(nested), nested.location:
                value = ids.value(nested)
            if value is not None:
                nested.results[0].replace_all_uses_with(value)
                nested.erase()
        elif nested.name == "memref.memory_space_cast":
            source = nested.operands[0]
            nested.results[0].replace_all_uses_with(source)
            propagate_space(source, ir.MemRefType(source.type).memory_space)
            nested.erase()
        elif nested.name == "memref.alloca":
            _make_private(nested, block)


def _make_private(allocation: ir.Operation, block: ir.Block) -> None:
    """Move an allocation to the beginning of ``block``, and give it the private memory space."""
    kind = ir.MemRefType(allocation.result.type)
    if str(kind.memory_space) == PRIVATE:
        return
    with ir.InsertionPoint.at_block_begin(block), allocation.location:
        memory = _private(kind)
    allocation.result.replace_all_uses_with(memory)
    propagate_space(memory, ir.MemRefType(memory.type).memory_space)
    allocation.erase()


def _buffers(launch: Launch, block: ir.Block) -> dict[ir.Value, ir.Value]:
    """Return, for each memref argument of an rKernel, its first argument in the same buffer."""
    arguments = list(block.arguments)[1:]
    return {argument: arguments[launch.aliases[n]] for n, argument in enumerate(arguments)}


def _guard_body(block: ir.Block, end: ir.OpView, own: OwnThreads) -> None:
    is_own = own.is_own
    first = ir.OpResult(is_own).owner.operation
    operations = [operation.operation for operation in block.operations]
    names = {nested.name for operation in operations for nested in [operation, *walk(operation)]}
    if names & COLLECTIVES:
        guard(block, own, operations[operations.index(first) + 1])
        return
    body = operations[operations.index(first) + 1 : -1]
    with ir.InsertionPoint(end.operation), end.operation.location:
        condition = scf.IfOp(is_own)
        with ir.InsertionPoint(condition.then_block):
            inner: ir.OpView = scf.YieldOp([])
    for operation in body:
        operation.move_before(inner.operation)
