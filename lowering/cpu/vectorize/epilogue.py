"""Fuses epilogues, elementwise operations on a reduction's result, into the reduction."""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.body import Body
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.buffers import ALLOCATIONS, is_without_access, root
from rammer_mlir.passes.ir.structured import Structured, is_buffer


@dataclass(frozen=True)
class Epilogue:
    """An elementwise ``linalg.generic`` that reads the result of a reduction.

    Attributes:
        operation: the elementwise operation.
        argument: the index of its operand that is the result of the reduction.
        dims: for each dimension of the epilogue, the corresponding dimension of the reduction.
        keeps: whether the reduction's result must be stored in addition to the epilogue's output,
            because other operations read the result.
    """

    operation: ir.Operation
    argument: int
    dims: tuple[int, ...]
    keeps: bool


def find_epilogue(operation: ir.Operation) -> tuple[ir.Operation, Epilogue] | None:
    """Return the reduction into which ``operation`` can be fused, and ``operation`` as an epilogue.

    The result is None unless all of these conditions hold:

    - No operation between the reduction and ``operation`` accesses memory.
    - ``operation`` is elementwise, and exactly one of its inputs is the reduction's result.
    - ``operation`` has exactly one iteration for each element of the reduction's result.
    - All operands of both operations have the same element type.
    - The output of ``operation`` does not alias an operand that the fused loops still have to read.
    """
    before = _generic_before(operation)
    if before is None:
        return None
    reduction, generic = Structured(before.opview), Structured(operation.opview)
    if not _is_reduction(reduction) or not _is_elementwise(generic):
        return None
    result = reduction.operands[-1]
    *inputs, output = generic.operands
    places = [number for number, value in enumerate(inputs) if value == result]
    if len(places) != 1 or not _aliasing_permits_fusion(reduction, generic, places[0]):
        return None
    dims = _matching_dims(reduction, generic, places[0])
    if dims is None or not _one_width(reduction, generic):
        return None
    keeps = output != result and not _only_used_by(result, (before, operation))
    return before, Epilogue(operation, places[0], dims, keeps)


def _generic_before(operation: ir.Operation) -> ir.Operation | None:
    """Return the nearest ``linalg.generic`` before ``operation``, in the same block.

    The result is None if ``operation`` is not a generic, if no generic precedes it, or if an
    operation between the nearest generic and ``operation`` accesses memory.
    """
    if operation.name != "linalg.generic":
        return None
    before: list[ir.Operation] = []
    for other in (o.operation for o in operation.block.operations):
        if other == operation:
            break
        before.append(other)
    for other in reversed(before):
        if other.name == "linalg.generic":
            return other
        if not is_without_access(other):
            return None
    return None


def _is_reduction(generic: Structured) -> bool:
    return generic.num_outputs == 1 and not generic.is_elementwise


def _is_elementwise(generic: Structured) -> bool:
    """Return whether a generic is elementwise arithmetic that never reads its single output."""
    if generic.num_outputs != 1 or not generic.is_elementwise or generic.uses_index:
        return False
    if any(generic.operand_dims(number) is None for number in range(len(generic.maps))):
        return False
    body = Body(generic, contract=False)
    return not generic.reads_output(0) and body.vectorizable and not body.gathers


def _aliasing_permits_fusion(reduction: Structured, generic: Structured, argument: int) -> bool:
    """Return whether the aliasing of operands permits fusing an epilogue into its reduction.

    ``generic`` is the epilogue, which reads the reduction's result as operand ``argument``. None of
    the epilogue's other inputs may alias that result, and the epilogue's output may not alias an
    input of the reduction. The epilogue's output may alias an input of the epilogue, such as the
    reduction's result, only if output and input are the same memref with the same indexing map.
    """
    *inputs, output = generic.operands
    *sources, result = reduction.operands
    maps = generic.maps
    others = [
        (v, m) for n, (v, m) in enumerate(zip(inputs, maps[:-1], strict=True)) if n != argument
    ]
    if any(root(value) == root(result) for value, _ in others):
        return False
    if any(root(value) == root(output) and (value, m) != (output, maps[-1]) for value, m in others):
        return False
    if any(root(value) == root(output) for value in sources):
        return False
    same = output == result and maps[argument] == maps[-1]
    return same or root(output) != root(result)


def _matching_dims(
    reduction: Structured, generic: Structured, argument: int
) -> tuple[int, ...] | None:
    """Return, for each dimension of the epilogue, the corresponding dimension of the reduction.

    ``generic`` is the epilogue, which reads the reduction's result as operand ``argument``. The
    result is None unless each parallel loop of the reduction indexes its result exactly once, and
    each loop of the epilogue indexes the operand exactly once.
    """
    produced, read = reduction.result_dims(0), generic.operand_dims(argument)
    if produced is None or read is None or tuple(sorted(produced)) != reduction.parallel_loops:
        return None
    if sorted(read) != list(range(len(generic.parallel))):
        return None
    pairs = dict(zip(read, produced, strict=True))
    return tuple(pairs[dim] for dim in range(len(pairs)))


def _one_width(reduction: Structured, generic: Structured) -> bool:
    elements = [*reduction.arguments, *generic.arguments]
    return len({str(element.type) for element in elements}) == 1


def _only_used_by(value: ir.Value, operations: tuple[ir.Operation, ir.Operation]) -> bool:
    """Return whether no operation other than ``operations`` reads the buffer of ``value``.

    Other operations may write the buffer. The result is False if the buffer is not allocated in the
    function that contains ``operations``.
    """
    owner = root(value).owner
    if isinstance(owner, ir.Block) or owner.name not in ALLOCATIONS:
        return False
    readers = [
        other
        for other in walk(_function(operations[0]))
        if other not in operations
        and not is_without_access(other)
        and any(is_buffer(v) and root(v) == root(value) for v in other.operands)
    ]
    return all(_only_writes(other, value) for other in readers)


def _function(operation: ir.Operation) -> ir.Operation:
    """Return the function that contains an operation."""
    while operation.name != "func.func":
        parent = operation.parent
        assert parent is not None, "an rKernel is a function"
        operation = parent.operation
    return operation


def _only_writes(operation: ir.Operation, value: ir.Value) -> bool:
    """Return whether an operation is a generic that uses the buffer of ``value`` only as output.

    A body that reads the output's previous elements counts as a read of the buffer.
    """
    if operation.name != "linalg.generic":
        return False
    generic = Structured(operation.opview)
    num_inputs = len(generic.maps) - generic.num_outputs
    return all(
        number >= num_inputs and not generic.reads_input(number)
        for number, operand in enumerate(generic.operands)
        if is_buffer(operand) and root(operand) == root(value)
    )
