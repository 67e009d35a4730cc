"""Predicates the spare threads of blocks that have more threads than a kernel was launched with.

Spare threads have to reach every block barrier, so they follow the kernel's control flow around
barriers. They access memory only for reads that decide this control flow; all other accesses are
left to the kernel's own threads, and so is all that must not run on the zeros that spare threads
have instead of values from memory: divisions, branches and loops. All threads execute the other
operations. Spare threads use the ids of thread 0, so that no index is out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, scf
from rammer_mlir.lowering.from_gpu.memory_operations import COLLECTIVES, MEMORY_OPERATIONS
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.program.task_graph import root_of

_DIVISIONS = frozenset(
    (*(f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui")),
     *(f"arith.{name}" for name in ("ceildivsi", "ceildivui", "floordivsi")),
     *(f"index.{name}" for name in ("divs", "divu", "rems", "remu")),
     *(f"index.{name}" for name in ("ceildivs", "ceildivu", "floordivs")))
)  # fmt: skip
"""Operations that are undefined for a zero divisor."""


_THREAD_DEPENDENT = COLLECTIVES | {"gpu.thread_id", "gpu.lane_id"}
"""Operations whose results may differ between the threads of a block."""


@dataclass(frozen=True)
class OwnThreads:
    """The threads of a launched block within a larger block, and the buffers that they access.

    Attributes:
        is_own: an ``i1`` value that tells whether a thread is one of the kernel's own.
        count: count of the kernel's own threads.
        buffers: maps each memref argument of the rKernel to its first argument in the same buffer.
    """

    is_own: ir.Value
    count: int
    buffers: Mapping[ir.Value, ir.Value]

    def root(self, value: ir.Value) -> ir.Value:
        """Return the allocation or the rKernel's first argument of which ``value`` is a view."""
        root = root_of(value)
        return self.buffers.get(root, root)


def guard(block: ir.Block, own: OwnThreads, start: ir.Operation) -> None:
    """Move operations that depend on memory into ``scf.if``s for the kernel's own threads.

    These are memory accesses, divisions, and branches and loops without a barrier. Operations on
    which the control flow around a block barrier depends are not moved.

    Args:
        block: the body of the rKernel.
        own: the kernel's own threads.
        start: the first operation of ``block`` to consider.

    Raises:
        OperationError: if the control flow around a barrier depends on a write, or on a read that
            no barrier need separate from the kernel's writes, or if a result that is used outside
            of an ``scf.if`` is neither a number nor a vector or tensor.
    """
    body = _from(block, start)
    uniform = _control_flow_operations(body, own)
    _guard(body, own.is_own, uniform)


def _from(block: ir.Block, start: ir.Operation) -> list[ir.Operation]:
    operations = [operation.operation for operation in block.operations]
    return operations[operations.index(start) :]


def _guard(operations: list[ir.Operation], is_own: ir.Value, uniform: set[ir.Operation]) -> None:
    run: list[ir.Operation] = []
    for operation in operations:
        if _needs_own_values(operation) and not _has_collective(operation):
            if operation not in uniform:
                run.append(operation)
                continue
        _wrap(run, is_own)
        run = []
        if operation.name in COLLECTIVES or not _has_collective(operation):
            continue
        for region in operation.regions:
            for block in region.blocks:
                _guard([inner.operation for inner in block.operations], is_own, uniform)
    _wrap(run, is_own)


def _nested(operation: ir.Operation) -> Iterator[ir.Operation]:
    yield operation
    yield from walk(operation)


def _needs_own_values(operation: ir.Operation) -> bool:
    """Whether an operation accesses memory, or may trap or never end on zeros."""
    name = operation.name
    return len(operation.regions) > 0 or name in MEMORY_OPERATIONS or name in _DIVISIONS


def _has_collective(operation: ir.Operation) -> bool:
    return any(nested.name in COLLECTIVES for nested in _nested(operation))


def _wrap(run: list[ir.Operation], is_own: ir.Value) -> None:
    """Move the consecutive operations ``run`` into an ``scf.if`` on ``is_own``.

    Later operations that use a result of ``run`` get zeros in spare threads.
    """
    if not run:
        return
    inside = set(run)
    used = [
        result for operation in run for result in operation.results
        if any(not _is_within(use.owner.operation, inside) for use in result.uses)
    ]  # fmt: skip
    kinds = [result.type for result in used]
    with ir.InsertionPoint(run[0]), run[0].location:
        condition = scf.IfOp(is_own, kinds, has_else=bool(used))
        with ir.InsertionPoint(condition.then_block):
            end: ir.OpView = scf.YieldOp(used)
        if used:
            with ir.InsertionPoint(condition.else_block):
                scf.YieldOp([_zero(kind, run[0]) for kind in kinds])
    for operation in run:
        operation.move_before(end.operation)
    inside.add(end.operation)
    for result, value in zip(used, condition.results, strict=True):
        for use in list(result.uses):
            user = use.owner.operation
            if not _is_within(user, inside):
                user.operands[use.operand_number] = value


def _is_within(operation: ir.Operation, holders: set[ir.Operation]) -> bool:
    while operation.name != "func.func":
        if operation in holders:
            return True
        assert operation.parent is not None  # an rKernel is a function
        operation = operation.parent.operation
    return False


def _zero(kind: ir.Type, user: ir.Operation) -> ir.Value:
    if isinstance(kind, ir.VectorType | ir.RankedTensorType):
        element = kind.element_type
        splat = ir.DenseElementsAttr.get_splat(kind, _zero_attribute(element))
        return arith.ConstantOp(kind, splat).result
    if isinstance(kind, ir.FloatType | ir.IntegerType | ir.IndexType):
        return arith.ConstantOp(kind, _zero_attribute(kind)).result
    raise OperationError(
        user, f"expected numbers and vectors as results around a block barrier, found {kind}; "
        "launch with blocks of one size"
    )  # fmt: skip


def _zero_attribute(kind: ir.Type) -> ir.Attribute:
    if isinstance(kind, ir.FloatType):
        return ir.FloatAttr.get(kind, 0.0)
    return ir.IntegerAttr.get(kind, 0)


def _control_flow_operations(operations: list[ir.Operation], own: OwnThreads) -> set[ir.Operation]:
    """Return the operations that decide control flow around collectives, such as block barriers.

    All threads have to reach a collective, so all threads must compute the same conditions and
    bounds of the control flow around it. The returned operations compute these conditions and
    bounds. Therefore they are not predicated: spare threads execute them too, with the ids of
    thread 0, and may read the memory that thread 0 reads, unless thread 0 might write it meanwhile.
    """
    found: set[ir.Operation] = set()
    written = _written(operations, own)
    deciding = [
        value for operation in operations for nested in _nested(operation)
        if nested.name not in COLLECTIVES and _has_collective(nested)
        for value in _deciding(nested)
    ]  # fmt: skip
    for operation in _computing(deciding):
        if not _has_collective(operation):
            _check_accesses(operation, written, own)
            found.add(operation)
    return found


def _computing(values: Iterable[ir.Value]) -> Iterator[ir.Operation]:
    """Yield the operations that compute ``values``, directly or not, also around loops."""
    pending, seen = list(values), set[ir.Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            pending.extend(_carried(ir.BlockArgument(value)))
            continue
        operation = value.owner.operation
        yield operation
        if _has_collective(operation):
            pending.extend([*operation.operands, *_yielded(operation)])
        else:
            pending.extend(operand for nested in _nested(operation) for operand in nested.operands)


def _written(operations: list[ir.Operation], own: OwnThreads) -> set[ir.Value]:
    """Return the buffers that operations, or operations in their regions, write."""
    return {
        own.root(nested.operands[effect.buffer])
        for operation in operations
        for nested in _nested(operation)
        for effect in MEMORY_OPERATIONS.get(nested.name, ())
        if effect.writes
    }


def _check_accesses(operation: ir.Operation, written: set[ir.Value], own: OwnThreads) -> None:
    """Check the memory accesses of an operation that decides control flow around a barrier.

    Spare threads execute the operation too. It may read a buffer of ``written`` if several own
    threads read the same element: the kernel's barriers then separate this read from all writes of
    the element.

    Raises:
        OperationError: if the operation writes a buffer, or if spare threads might read an element
            before or after thread 0 writes it.
    """
    for nested in _nested(operation):
        for effect in MEMORY_OPERATIONS.get(nested.name, ()):
            is_shared = nested == operation and own.count > 1 and not _varies(nested.operands)
            is_written = own.root(nested.operands[effect.buffer]) in written
            if effect.writes or (is_written and not is_shared):
                raise OperationError(
                    nested, "expected control flow around a block barrier that depends on elements "
                    "that all threads read, found it to depend on memory that a thread may write "
                    "meanwhile; launch with blocks of one size"
                )  # fmt: skip


def _varies(values: Iterable[ir.Value]) -> bool:
    """Whether any of ``values`` may differ between the threads of a block."""
    return any(
        nested.name in _THREAD_DEPENDENT
        for operation in _computing(values)
        for nested in _nested(operation)
    )


def _deciding(operation: ir.Operation) -> list[ir.Value]:
    """Return the operands that decide an operation's control flow.

    These are the bounds and step of an ``scf.for``, the condition of an ``scf.while``, and all
    operands of any other operation.
    """
    if operation.name == "scf.for":
        return list(operation.operands)[:3]
    if operation.name == "scf.while":
        return [list(operation.regions[0].blocks[0].operations)[-1].operation.operands[0]]
    return list(operation.operands)


def _carried(argument: ir.BlockArgument) -> list[ir.Value]:
    """Return the values on which a block argument of control flow may depend.

    These are all operands and yielded values of the operation that contains the block. The result
    is empty for an argument of a function.
    """
    holder = argument.owner.owner.operation
    if holder.name == "func.func":
        return []
    return [*holder.operands, *_yielded(holder)]


def _yielded(operation: ir.Operation) -> list[ir.Value]:
    return [
        value for region in operation.regions for block in region.blocks
        for value in list(block.operations)[-1].operation.operands
    ]  # fmt: skip
