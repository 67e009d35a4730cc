"""Folds a ``linalg.fill`` into the reduction that follows, as the accumulators' initial value."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.kernels.buffers import is_without_access, root
from rammer_mlir.passes.ir.structured import Structured, is_buffer


def known_fills(operation: ir.Operation) -> list[ir.Operation | None]:
    """Return, for each output of a ``linalg.generic``, the fill that initializes it, or None.

    A fill counts only under these conditions:

    - The generic is a reduction, and writes every element of the output.
    - No other operand of the generic is a view of the output's buffer.
    - The operations between the fill and the generic access no memory, or fill other buffers.
    """
    generic = Structured(operation.opview)
    if generic.is_elementwise:
        return [None] * generic.num_outputs
    fills = _fills_before(operation)
    first = len(generic.maps) - generic.num_outputs
    return [_known_fill(generic, fills, k) for k in range(first, len(generic.maps))]


def _known_fill(
    generic: Structured, fills: Sequence[ir.Operation], number: int
) -> ir.Operation | None:
    """Return the fill that determines the old content of operand ``number`` of a generic, or None.

    ``fills`` are the fills before the generic, the nearest first.
    """
    operands = generic.operands
    target = operands[number]
    others = [value for k, value in enumerate(operands) if k != number]
    if not _writes_all(generic, number) or not _apart(target, others):
        return None
    for fill in fills:
        if root(_filled(fill)) == root(target):
            return fill if _filled(fill) == target else None
    return None


def fill_scalar(fill: ir.Operation) -> ir.Value:
    """Return the scalar that a fill writes."""
    return fill.operands[0] if len(fill.operands) == 2 else Structured(fill.opview).yielded[0]


def _filled(fill: ir.Operation) -> ir.Value:
    """Return the memref that a fill writes."""
    return fill.operands[len(fill.operands) - 1]


def _fills_before(operation: ir.Operation) -> list[ir.Operation]:
    """Return the fills before an operation, the nearest first.

    The search ends at the nearest operation that accesses memory and is not a fill.
    """
    before: list[ir.Operation] = []
    for other in (o.operation for o in operation.block.operations):
        if other == operation:
            break
        before.append(other)
    fills: list[ir.Operation] = []
    for other in reversed(before):
        if is_fill(other):
            fills.append(other)
        elif not is_without_access(other):
            break
    return fills


def is_fill(operation: ir.Operation) -> bool:
    """Return whether an operation is a generic that writes the same scalar to every element.

    The scalar is the generic's only input, or a captured value that its body yields.
    """
    if operation.name != "linalg.generic" or len(operation.operands) > 2:
        return False
    generic = Structured(operation.opview)
    if generic.body or generic.num_outputs != 1:
        return False
    if not _writes_all(generic, len(generic.maps) - 1):
        return False
    (value,) = generic.yielded
    if not generic.inputs:
        return value.owner != generic.block
    return not is_buffer(generic.inputs[0]) and value == generic.arguments[0]


def _writes_all(generic: Structured, number: int) -> bool:
    dims = generic.operand_dims(number)
    return dims is not None and len(set(dims)) == len(dims)


def _apart(target: ir.Value, others: Sequence[ir.Value]) -> bool:
    return all(root(other) != root(target) for other in others)
