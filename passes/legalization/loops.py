"""Unrolls short loops, and lowers StableHLO's control flow to ``scf``."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir, scf, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.traversal import (
    constant_integer,
    operations_named,
    replace,
)
from rammer_mlir.passes.legalization.elementwise import index

_MOST_STEPS = 64
"""Maximum trip count of an unrolled loop; each iteration becomes separate rOperators."""

_MOST_OPERATIONS = 2048
"""Maximum number of operations that unrolling a loop may make."""

STAYS_SEQUENTIAL = "rtask.stays_sequential"
"""Unit attribute of loops that ``unroll_loops`` must not unroll, whatever their trip counts.

Each iteration changes a few elements of a large tensor, which separate rOperators would copy.
"""


def unroll_loops(module: ir.Module) -> None:
    """Unroll ``scf.for`` loops with small constant trip counts, outer loops first.

    A loop is unrolled if it has at most 64 iterations, and unrolling it and the loops within it
    makes at most 2048 operations, unless it has the attribute ``STAYS_SEQUENTIAL``. At the end,
    this attribute is removed.
    """
    while True:
        found = [op for op in operations_named(module.operation, "scf.for") if _is_short(op)]
        if not found:
            break
        _unroll(found[0])
    for op in operations_named(module.operation, "scf.for"):
        if STAYS_SEQUENTIAL in op.attributes:
            del op.attributes[STAYS_SEQUENTIAL]


def _range(op: ir.Operation) -> range | None:
    bounds = [constant_integer(value) for value in list(op.operands)[:3]]
    start, end, step = bounds
    if start is None or end is None or step is None or step <= 0:
        return None
    return range(start, end, step)


def _is_short(op: ir.Operation) -> bool:
    steps = _range(op)
    if steps is None or len(steps) > _MOST_STEPS or STAYS_SEQUENTIAL in op.attributes:
        return False
    return _unrolled_size(op) <= _MOST_OPERATIONS


def _unrolled_size(op: ir.Operation) -> int:
    """Return how many operations an operation becomes when its loops are unrolled."""
    inner = (each.operation for region in op.regions for block in region for each in block)
    size = sum(_unrolled_size(each) for each in inner)
    steps = _range(op) if op.name == "scf.for" else None
    return 1 + size if steps is None or len(steps) > _MOST_STEPS else len(steps) * size


def _unroll(op: ir.Operation) -> None:
    steps = _range(op)
    assert steps is not None
    block = op.regions[0].blocks[0]
    counter, *states = block.arguments
    values: list[ir.Value] = list(op.operands)[3:]
    kind = counter.type
    for number in steps:
        with ir.InsertionPoint(op), op.location:
            mapping: ValueMap = {counter: arith.ConstantOp(kind, number).result}
            mapping.update(zip(states, values, strict=True))
            values = _cloned(block, mapping)
    replace(op, values)


def _cloned(block: ir.Block, mapping: ValueMap) -> list[ir.Value]:
    """Clone a block's operations, without the terminator, at the insertion point.

    Return the new values of the terminator's operands. ``mapping`` maps old to new values; the
    results of the clones are added to it.
    """
    *inner, last = block.operations
    ip = ir.InsertionPoint.current
    for each in inner:
        clone_into(each, mapping, ip)
    return [mapping.get(value, value) for value in last.operation.operands]


def lower_stablehlo_control_flow(module: ir.Module) -> None:
    """Lower ``stablehlo.while``, ``if`` and ``case`` to ``scf``, inner before outer operations."""
    names = ("stablehlo.while", "stablehlo.if", "stablehlo.case")
    for op in reversed(list(operations_named(module.operation, *names))):
        with ir.InsertionPoint(op), op.location:
            if op.name == "stablehlo.while":
                replace(op, _while(op))
            elif op.name == "stablehlo.if":
                condition = tensor.extract(op.operands[0], [])
                replace(op, _choice(condition, op.regions[0], op.regions[1], op))
            else:
                _case(op)


def _while(op: ir.Operation) -> list[ir.Value]:
    kinds = [value.type for value in op.results]
    loop = scf.WhileOp(kinds, list(op.operands))
    before, after = (region.blocks.append(*kinds) for region in loop.regions)
    for block, old in zip((before, after), op.regions, strict=True):
        mapping: ValueMap = dict(zip(old.blocks[0].arguments, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            values = _cloned(old.blocks[0], mapping)
            if block == before:
                scf.ConditionOp(tensor.extract(values[0], []), list(block.arguments))
            else:
                scf.YieldOp(values)
    return list(loop.results)


def _choice(
    condition: ir.Value, first: ir.Region, second: ir.Region, op: ir.Operation
) -> list[ir.Value]:
    """Emit an ``scf.if`` with clones of two regions as branches, and return its results.

    ``first`` is the branch for a true ``condition``, ``second`` the branch for a false one. ``op``
    is the operation of StableHLO whose result types the ``scf.if`` gets.
    """
    chosen = scf.IfOp(condition, [value.type for value in op.results], has_else=True)
    for region, block in ((first, chosen.then_block), (second, chosen.else_block)):
        with ir.InsertionPoint(block):
            scf.YieldOp(_cloned(region.blocks[0], {}))
    return list(chosen.results)


def _case(op: ir.Operation) -> None:
    """Replace a ``stablehlo.case`` by nested ``scf.if``, one for each branch but the last."""
    number = arith.index_cast(ir.IndexType.get(), tensor.extract(op.operands[0], []))
    replace(op, _branches(number, list(op.regions), 0, op))


def _branches(
    number: ir.Value, regions: Sequence[ir.Region], first: int, op: ir.Operation
) -> list[ir.Value]:
    if first == len(regions) - 1:  # also for numbers out of range, as StableHLO says
        return _cloned(regions[first].blocks[0], {})
    condition = arith.cmpi(arith.CmpIPredicate.eq, number, index(first))
    chosen = scf.IfOp(condition, [value.type for value in op.results], has_else=True)
    with ir.InsertionPoint(chosen.then_block):
        scf.YieldOp(_cloned(regions[first].blocks[0], {}))
    with ir.InsertionPoint(chosen.else_block):
        scf.YieldOp(_branches(number, regions, first + 1, op))
    return list(chosen.results)
