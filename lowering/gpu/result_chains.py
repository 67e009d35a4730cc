"""Finds chains of operations on the same results: initial value, reduction, epilogues.

An rKernel initializes its accumulators by an element-wise operation, reduces into them, and applies
element-wise operations to the results, such as an activation. If each operation were computed
separately, each result would be stored three times and loaded twice, with a barrier of the block
after each operation. The threads that compute a reduction's results therefore also compute the
results' initial values and epilogues in registers, and store each result once (``results.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.contractions.transposed_operands import find_transposition
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.buffers import ALLOCATIONS, VIEWS, is_without_access, root
from rammer_mlir.passes.ir.structured import Structured, is_buffer, plain_dim, shape_of

INITIAL = "rtask.initial_value"
"""Attribute of an operation that only computes the initial values of the next reduction."""

EPILOGUE = "rtask.epilogue"
"""Attribute of an operation that only continues with the results of the operation before it."""

IN_REGISTERS = "rtask.in_registers"
"""Attribute of an allocation whose elements are only in registers."""


@dataclass(frozen=True)
class ResultChain:
    """A reduction with the operations that its threads compute in registers.

    Attributes:
        initial: for each output of the reduction, the element-wise operation that computes its
            initial value; None if the reduction loads it.
        reduction: the reduction; in a chain of a single operation, an operation of any kind.
        epilogues: element-wise operations; each reads the result of the previous operation.
    """

    initial: tuple[Structured | None, ...]
    reduction: Structured
    epilogues: tuple[Structured, ...]

    @staticmethod
    def of(operations: Sequence[ir.Operation]) -> ResultChain:
        """Return a reduction with its initial values and epilogues, which ``operations`` lists.

        ``operations`` is one of the lists that ``marked_chains`` yields.
        """
        generics = [Structured(operation.opview) for operation in operations]
        first = next(n for n, op in enumerate(operations) if INITIAL not in op.attributes)
        reduction = generics[first]
        writers = {generic.outputs[0]: generic for generic in generics[:first]}
        return ResultChain(
            tuple(writers.get(output) for output in reduction.outputs),
            reduction,
            tuple(generics[first + 1 :]),
        )


def marked_chains(operations: Sequence[ir.Operation]) -> Iterator[list[ir.Operation]]:
    """Yield the chains of ``linalg.generic`` operations of a block in order, each as a list.

    ``operations`` are all operations of the block, in order. The chains follow from the attributes
    that ``mark_chains`` sets. A generic that belongs to no chain is yielded as a list of one.
    """
    chain: list[ir.Operation] = []
    for operation in operations:
        if operation.name != "linalg.generic":
            continue
        begun = not chain or INITIAL in chain[-1].attributes
        if not begun and EPILOGUE not in operation.attributes:
            yield chain
            chain = []
        chain.append(operation)
    if chain:
        yield chain


def mark_chains(kernel: ir.Operation) -> None:
    """Set attributes on the operations of an rKernel's chains, to be read by ``marked_chains``.

    Allocations whose elements the chains keep in registers get the attribute ``IN_REGISTERS``.

    Args:
        kernel: a function of ``linalg.generic`` operations on memrefs. A size of a view that is
            known at compile time must be static in the type of the view.
    """
    reductions = [
        operation
        for operation in walk(kernel)
        if operation.name == "linalg.generic" and Structured(operation.opview).reduction_loops
    ]
    for operation in reductions:
        _mark_chain(operation)


def _mark_chain(operation: ir.Operation) -> None:
    before, after = _neighbors(operation)
    reduction = Structured(operation.opview)
    if _reads_memory_itself(reduction):
        return
    initial = _initial_values(reduction, before)
    epilogues = _epilogues(reduction, initial, after)
    for generic in initial:
        generic.op.operation.attributes[INITIAL] = ir.UnitAttr.get()
    for generic in epilogues:
        generic.op.operation.attributes[EPILOGUE] = ir.UnitAttr.get()
    if len(initial) == reduction.num_outputs:
        chain = {g.op.operation for g in (*initial, reduction, *epilogues)}
        steps = (reduction, *epilogues)
        target = steps[-1].outputs[0]
        for value in (step.outputs[0] for step in steps if step.outputs[0] != target):
            owner = value.owner
            if not isinstance(owner, ir.Block) and _has_only(owner.operation, chain):
                owner.operation.attributes[IN_REGISTERS] = ir.UnitAttr.get()


def _has_only(allocation: ir.Operation, users: Collection[ir.Operation]) -> bool:
    """Return whether an operation is an allocation that no operation outside of ``users`` uses.

    A ``memref.dealloc`` does not count as a use.
    """
    return allocation.name in ALLOCATIONS and all(
        use.owner.operation in users or use.owner.operation.name == "memref.dealloc"
        for use in allocation.result.uses
    )


def _neighbors(operation: ir.Operation) -> tuple[list[ir.Operation], list[ir.Operation]]:
    """Return the generics before and the generics after an operation of a block, nearest first.

    Each list ends before the first generic that is already marked as a part of a chain, or before
    the first operation that accesses memory and is not a generic.
    """
    operations = [other.operation for other in operation.block.operations]
    place = operations.index(operation)
    before, after = reversed(operations[:place]), operations[place + 1 :]
    return _adjacent(before), _adjacent(after)


def _adjacent(operations: Iterator[ir.Operation] | Sequence[ir.Operation]) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    for operation in operations:
        if operation.name == "linalg.generic":
            if INITIAL in operation.attributes or EPILOGUE in operation.attributes:
                break
            found.append(operation)
        elif operation.name != "memref.dealloc" and not is_without_access(operation):
            break
    return found


def _reads_memory_itself(generic: Structured) -> bool:
    """Return whether an operation's body refers to memrefs that are not the operation's operands.

    The body may load elements from these memrefs.
    """
    return any(is_buffer(value) for value in generic.captures)


def _initial_values(reduction: Structured, before: Sequence[ir.Operation]) -> list[Structured]:
    """Return the operations that only compute initial values of a reduction's outputs.

    ``before`` are the operations before the reduction, nearest first.
    """
    found: list[Structured] = []
    left = list(reduction.outputs)
    for operation in before:
        generic = Structured(operation.opview)
        if not _is_step(generic) or generic.reads_output(0) or generic.outputs[0] not in left:
            break
        output = reduction.outputs.index(generic.outputs[0])
        if not (
            _covers(reduction.output_maps[output], reduction.outputs[output])
            and _covers(generic.output_maps[0], generic.outputs[0])
            and _has_all_loops(generic.output_maps[0], generic)
        ):
            break
        # Elements are read later than they were: after stores of other threads to the outputs.
        written = {root(value) for value in reduction.outputs}
        read = {root(value) for value in _buffers(generic.inputs)}
        if written & read or not all(map(_is_memory_of_its_own, written | read)):
            break
        left.remove(generic.outputs[0])
        found.append(generic)
    return found


def _epilogues(
    reduction: Structured, initial: Sequence[Structured], after: Sequence[ir.Operation]
) -> list[Structured]:
    """Return the epilogues that a reduction's threads may compute in registers.

    ``after`` are the operations after the reduction, nearest first. ``initial`` are the operations
    that compute the reduction's initial values.
    """
    if reduction.num_outputs != 1 or not _covers(reduction.output_maps[0], reduction.outputs[0]):
        return []
    found: list[Structured] = []
    result = reduction.outputs[0]
    # Other threads may still read these when a thread stores its first results.
    read = {root(value) for generic in (*initial, reduction) for value in _buffers(generic.inputs)}
    for operation in after:
        generic = Structured(operation.opview)
        if not _is_step(generic) or not _continues(generic, result):
            break
        target = root(generic.outputs[0])
        if target in read or not all(map(_is_memory_of_its_own, (target, *read))):
            break
        if not (result == generic.outputs[0] or _is_unused_after(result, operation)):
            break
        found.append(generic)
        if not _covers(generic.output_maps[0], generic.outputs[0]):
            break  # the next operation may read elements that this one does not write
        read |= {root(value) for value in _buffers(generic.inputs) if value != result}
        result = generic.outputs[0]
    return found


def _is_step(generic: Structured) -> bool:
    """Return whether an operation can be computed on values in registers, one element at a time.

    The operation must be element-wise and have one output. Its body must not load elements, and it
    must not need a transposition of an operand.
    """
    return (
        generic.is_elementwise
        and generic.num_outputs == 1
        and not _reads_memory_itself(generic)
        and find_transposition(generic, 1 << 30) is None
    )


def _continues(generic: Structured, result: ir.Value) -> bool:
    """Return whether an element-wise operation can take the elements of ``result`` from registers.

    Each iteration must read a single element of ``result``, which no other iteration reads. No
    other input may be a view of the buffer of ``result``.
    """
    pairs = zip(generic.maps, generic.operands, strict=True)
    readings = [map_ for map_, value in pairs if value == result]
    if result not in generic.inputs:
        return False
    if not all(_covers(map_, result) and map_ == readings[0] for map_ in readings):
        return False
    if not _has_all_loops(readings[0], generic):
        return False
    others = [value for value in _buffers(generic.inputs) if value != result]
    return all(root(value) != root(result) for value in others)


def _has_all_loops(map_: ir.AffineMap, generic: Structured) -> bool:
    """Return whether each loop of an operation is by itself a result of the index map ``map_``."""
    return {plain_dim(expr) for expr in map_.results} >= set(range(len(generic.parallel)))


def _covers(map_: ir.AffineMap, buffer: ir.Value) -> bool:
    """Return whether an indexing map reaches every element of a buffer.

    Each result of the map must be a different loop, except along dimensions of size 1. Two
    iterations then reach the same element only if they have equal indices in all loops that occur
    in the map.
    """
    dims = [plain_dim(expr) for expr in map_.results]
    plain = [dim for dim in dims if dim is not None]
    sizes = shape_of(buffer)
    return len(set(plain)) == len(plain) and all(
        size == 1 for dim, size in zip(dims, sizes, strict=True) if dim is None
    )


def _buffers(values: Sequence[ir.Value]) -> list[ir.Value]:
    return [value for value in values if is_buffer(value)]


def _is_memory_of_its_own(base: ir.Value) -> bool:
    """Return whether a memref shares memory only with its own views.

    This is False for a memref that ``scf.if`` or ``arith.select`` chooses, for example.
    """
    owner = base.owner
    if isinstance(owner, ir.Block):
        return owner.owner.operation.name == "func.func"
    return owner.operation.name in (*ALLOCATIONS, "memref.get_global")


def _is_unused_after(buffer: ir.Value, operation: ir.Operation) -> bool:
    """Return whether ``operation`` is the last use of ``buffer``, a temporary of the same block.

    The result is False if the buffer is not allocated in the block of ``operation``.
    """
    owner = root(buffer).owner
    if isinstance(owner, ir.Block) or owner.operation.name not in ALLOCATIONS:
        return False
    if owner.operation.block != operation.block:
        return False
    operations = [other.operation for other in operation.block.operations]
    last = operations.index(operation)
    return all(
        operations.index(_ancestor(user, operation.block)) <= last
        for user in _accesses(owner.operation)
    )


def _ancestor(operation: ir.Operation, block: ir.Block) -> ir.Operation:
    while operation.block != block:
        outer = operation.parent
        assert outer is not None, "the user of a block's allocation is inside the block"
        operation = outer.operation
    return operation


def _accesses(allocation: ir.Operation) -> set[ir.Operation]:
    """Return the operations that access an allocation, directly or by a view."""
    found: set[ir.Operation] = set()
    for use in allocation.result.uses:
        user = use.owner.operation
        if user.name in VIEWS:
            found |= _accesses(user)
        elif user.name != "memref.dealloc":
            found.add(user)
    return found
