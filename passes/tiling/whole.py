"""Builds the function of an rKernel that has only one rTask."""

from __future__ import annotations

from rammer_mlir.bindings import func, ir
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.loop_states import REGION, initial_operand
from rammer_mlir.passes.ir.structured import is_generic
from rammer_mlir.passes.tiling.builder import arguments, copy_into, declare
from rammer_mlir.passes.tiling.kernel import Computation


def build_whole(computation: Computation, name: str) -> ir.OpView:
    """Emit and return the function ``name`` of an rKernel that has only one rTask.

    The function performs the whole computation and copies the results into the outputs. Exception:
    a loop that updates a tensor element by element, beginning with an input of the function or
    with a new tensor, updates the output in place, without a copy of its result.
    """
    function, block = declare(computation, name)
    ip = ir.InsertionPoint(block)
    inputs, outputs = arguments(computation, block)
    mapping: ValueMap = dict(zip(computation.block.arguments, inputs, strict=True))
    for op in computation.operations:
        _clone_inlined(op, mapping, ip)
    with ip, ir.Location.unknown():
        results = [
            mapping[value]
            if _is_updated_in_place(out, mapping[value]) or _is_inserted(out, mapping[value])
            else copy_into(mapping[value], out)
            for value, out in zip(computation.returned, outputs, strict=True)
        ]
        func.ReturnOp(results)
    return function


def _clone_inlined(op: ir.OpView, mapping: ValueMap, ip: ir.InsertionPoint) -> None:
    """Clone an operation; replace an ``scf.execute_region`` of one block by the block's operations.

    A loop in such a region can then work in a buffer of the function.
    """
    if op.operation.name != REGION or len(op.regions[0].blocks) != 1:
        clone_into(op, mapping, ip)
        return
    *inner, last = op.regions[0].blocks[0].operations
    for each in inner:
        clone_into(each, mapping, ip)
    pairs = zip(op.results, last.operands, strict=True)
    mapping.update((result, mapping.get(value, value)) for result, value in pairs)


def _is_updated_in_place(out: ir.Value, value: ir.Value) -> bool:
    """Make the loop that computes ``value`` update ``out`` in place; return True on success.

    The loop must be an ``scf.for`` or ``scf.while`` that carries a tensor. There are two
    possibilities:

    - The tensor's initial value is an argument of the function. The argument is copied into
      ``out``, and the copy becomes the initial value.
    - The initial value is the result of a linalg operation that writes a new tensor for this loop
      alone. The operation then writes ``out`` instead.

    Otherwise, change nothing and return False.
    """
    found = initial_operand(value)
    if found is None:
        return False
    loop, number = found
    start = loop.operands[number]
    if isinstance(start.owner, ir.Block):
        if start == out:
            return False
        with ir.InsertionPoint(loop):
            loop.operands[number] = copy_into(start, out)
        return True
    return _is_written_to(out, start)


def _is_written_to(out: ir.Value, start: ir.Value) -> bool:
    """Make a linalg operation write ``out`` instead of a new tensor; return True on success.

    ``start`` is the operation's result. Return False if ``start`` has several users.
    """
    assert not isinstance(start.owner, ir.Block), "arguments are no results"
    owner = start.owner.operation
    if not is_generic(owner.opview) or len(list(start.uses)) != 1:
        return False
    target = len(owner.operands) - len(owner.results) + ir.OpResult(start).result_number
    place = owner.operands[target].owner
    if isinstance(place, ir.Block) or place.name != "tensor.empty":
        return False
    owner.operands[target] = out
    return True


def _is_inserted(out: ir.Value, value: ir.Value) -> bool:
    """Replace a tensor into which slices are inserted by ``out``; return True on success.

    ``value`` is the result of the last insertion. Return False unless a linalg operation
    initializes the tensor, and only the insertions use the initial value.
    """
    inserted = value
    while not isinstance(inserted.owner, ir.Block) and inserted.owner.name == "tensor.insert_slice":
        inserted = inserted.owner.operands[1]
    is_result = inserted != value and not isinstance(inserted.owner, ir.Block)
    return is_result and _is_written_to(out, inserted)
