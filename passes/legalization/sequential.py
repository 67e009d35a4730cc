"""Turns loops and branches that are not unrolled into rOperators with a single rTask."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import bufferization, ir, scf, tensor
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.loop_states import initial_operand
from rammer_mlir.passes.ir.structured import captured_values
from rammer_mlir.passes.ir.traversal import constant_integer, nested_operations, operations_named

CONTROL_FLOW = ("scf.for", "scf.while", "scf.if", "scf.index_switch")

_INSERTIONS = ("tensor.insert", "tensor.insert_slice")
"""Operations that change a part of their second operand."""

MATERIALIZE = "bufferization.materialize_in_destination"
"""The operation that keeps the state of a loop in a fixed buffer."""

ALLOCATION = "bufferization.alloc_tensor"
"""The operation that copies a state of a loop before another one gets its value."""


def is_control_flow(op: ir.OpView) -> bool:
    """Whether an operation is a loop or a branch, which becomes a single rTask."""
    return op.operation.name in CONTROL_FLOW


def wrap(op: ir.Operation, tensors: dict[ir.Value, ir.Value]) -> None:
    """Wrap a loop or branch into an ``scf.execute_region`` that uses and returns only tensors.

    Args:
        op: the loop or branch, a top-level operation of a function.
        tensors: a map from each computed scalar to the 0-D tensor that holds the scalar. Scalar
            results of ``op`` are added to the map.
    """
    kinds = [_tensor_type(value.type) for value in op.results]
    with ir.InsertionPoint(op), op.location:
        region = scf.ExecuteRegionOp(kinds, no_inline=True)
        with ir.InsertionPoint(region.regions[0].blocks.append()):
            mapping: ValueMap = {
                value: tensor.extract(tensors[value], [])
                for value in (*op.operands, *captured_values(op.opview))
                if value in tensors
            }
            inner = clone_into(op.opview, mapping, ir.InsertionPoint.current)
            keep_states_in_place(inner)
            scf.YieldOp([_as_tensor(value) for value in inner.results])
    for old, new in zip(op.results, region.results, strict=True):
        if isinstance(old.type, ir.RankedTensorType):
            old.replace_all_uses_with(new)
        else:
            tensors[old] = new


def keep_states_in_place(root: ir.Operation) -> None:
    """Make each iteration of the loops in ``root`` update the loop-carried tensors in place."""
    for op in (root, *nested_operations(root)):
        if op.name == "scf.for":
            block = op.regions[0].blocks[0]
            _keep(block, list(block.arguments)[1:], skipped=0)
        elif op.name == "scf.while":
            before, after = (region.blocks[0] for region in op.regions)
            _keep(before, list(before.arguments), skipped=1)
            _keep(after, list(after.arguments), skipped=0)


def _keep(block: ir.Block, states: Sequence[ir.Value], *, skipped: int) -> None:
    """Copy the values that a block yields into the buffers of the loop-carried values.

    If a yielded value is stored in the buffer of another loop-carried value, it is copied twice:
    first to a new buffer, because that buffer may be overwritten earlier.

    Args:
        block: the block of a loop.
        states: the loop-carried values, arguments of the block.
        skipped: number of operands of the block's terminator before the first loop-carried value.
    """
    last = list(block.operations)[-1].operation
    others = {state for state in states if isinstance(state.type, ir.RankedTensorType)}
    with ir.InsertionPoint(last), last.location:
        for number, state in enumerate(states):
            value = last.operands[number + skipped]
            if state in others and _buffer_of(value) in others - {state}:
                copied = bufferization.AllocTensorOp(state.type, [], copy=value)
                last.operands[number + skipped] = copied.result
        for number, state in enumerate(states):
            value = last.operands[number + skipped]
            if state in others and not _is_state_of(value, state):
                last.operands[number + skipped] = _copy(value, state)


def _copy(value: ir.Value, place: ir.Value) -> ir.Value:
    made = bufferization.MaterializeInDestinationOp(place.type, value, place)
    return made.operation.results[0]


def _buffer_of(value: ir.Value) -> ir.Value:
    """Return the value that owns the buffer in which ``value`` is stored.

    Insertions and loops store their results in the buffer of an operand. The function follows a
    chain of insertions and loops from ``value`` to the operand at its start. If no insertion or
    loop computes ``value``, return ``value`` itself.
    """
    while True:
        owner = value.owner
        if found := initial_operand(value):
            loop, number = found
            value = loop.operands[number]
        elif not isinstance(owner, ir.Block) and owner.name in _INSERTIONS:
            value = owner.operands[1]
        else:
            return value


def _is_state_of(value: ir.Value, state: ir.Value) -> bool:
    """Whether ``value`` is ``state``, or the result of a loop with the initial value ``state``.

    The loop may be a chain of loops. It updates the buffer of ``state`` in place. A copy of the
    result into this buffer would be a conflict of reads and writes, for which MLIR's bufferization
    refuses nested loops.
    """
    while value != state:
        found = initial_operand(value)
        if found is None:
            return False
        loop, number = found
        value = loop.operands[number]
    return True


def loop_problems(root: ir.Operation) -> list[OperationError]:
    """Return the errors about loops in ``root``, each at the location of its loop.

    The operands of an ``scf.while`` must have the same types as its results, because otherwise the
    loop-carried values cannot be updated in place. The constant step of an ``scf.for`` has to be
    positive, because otherwise the loop would never end.
    """
    endless = [
        OperationError(op, f"expected a positive step, found {step}; count upwards")
        for op in operations_named(root, "scf.for")
        if (step := constant_integer(op.operands[2])) is not None and step <= 0
    ]
    return endless + [
        OperationError(
            op,
            "expected equal states in front of the condition and behind it, found "
            f"{_types(op.operands)} and {_types(op.results)}; carry the same values through both",
        )
        for op in operations_named(root, "scf.while")
        if _types(op.operands) != _types(op.results)
    ]


def _types(values: Sequence[ir.Value]) -> str:
    return ", ".join(str(value.type) for value in values) or "none"


def _tensor_type(kind: ir.Type) -> ir.Type:
    return kind if isinstance(kind, ir.RankedTensorType) else ir.RankedTensorType.get([], kind)


def _as_tensor(value: ir.Value) -> ir.Value:
    if isinstance(value.type, ir.RankedTensorType):
        return value
    return tensor.FromElementsOp(_tensor_type(value.type), [value]).result
