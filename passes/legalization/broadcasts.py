"""Lets elementwise operations read the sources of broadcasts and fills.

StableHLO broadcasts every operand to the shape of the result. As separate operations, a bias or the
zero of a maximum would take as much memory as the result.
"""

from __future__ import annotations

from rammer_mlir.bindings import ir, linalg
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.structured import Structured
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import cloned_body

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape")


def fold_broadcasts(module: ir.Module) -> None:
    """Make elementwise operations read the sources of broadcast, transposed or filled operands.

    The operations index the source of a broadcast or transposition, and use the scalar of a fill.
    Broadcasts of computed values, such as the maximum of each row, remain. Without the broadcast,
    the reduction that computes such a value would be fused with operations on long rows, in rTasks
    whose temporaries exceed the stack of a thread.
    """
    for op in list(operations_named(module.operation, "linalg.generic")):
        nest = Structured(op.opview)
        if _is_elementwise(nest):
            _fold(nest)


def _is_elementwise(nest: Structured) -> bool:
    """Whether all loops are parallel, and the operation has one result."""
    return nest.num_outputs == 1 and all(nest.parallel)


def _fold(nest: Structured) -> None:
    *reads, written = nest.maps
    inputs: list[ir.Value] = []
    maps: list[ir.AffineMap] = []
    scalars: dict[int, ir.Value] = {}
    for number, (value, read) in enumerate(zip(nest.inputs, reads, strict=True)):
        source, index, scalar = _source(value, read)
        if scalar is not None:
            scalars[number] = scalar
        else:
            inputs.append(source)
            maps.append(index)
    if inputs == nest.inputs:
        return
    op = nest.op.operation
    with ir.InsertionPoint(op), op.location:
        (output,) = nest.outputs
        made = generic(inputs, output, [*maps, written], nest.parallel)
        kinds = [ir.RankedTensorType(value.type).element_type for value in (*inputs, output)]
        block = made.regions[0].blocks.append(*kinds)
        rest = iter(block.arguments)
        values = [scalars.get(number) or next(rest) for number in range(len(reads) + 1)]
        with ir.InsertionPoint(block):
            linalg.YieldOp([cloned_body(nest.block, values)])
    replace(op, list(made.results))


def _source(value: ir.Value, read: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap, ir.Value | None]:
    """Return the tensor that ``value`` repeats or transposes, and the indexing map to read it.

    ``read`` is the indexing map by which an operation reads ``value``. The tensor has to be an
    argument or a constant, or to repeat or reshape one; if there is no such tensor, ``value`` and
    ``read`` are returned. The third result is the scalar that fills ``value``; None if ``value`` is
    no fill.
    """
    while (nest := _elementwise_producer(value)) is not None:
        (yielded,) = nest.yielded
        if not nest.inputs and not nest.body and yielded not in nest.arguments:
            return value, read, yielded
        if not _copies_input(nest) or not _is_given(nest.inputs[0]):
            break
        results = [expr.compose(read) for expr in nest.maps[0].results]
        value, read = nest.inputs[0], ir.AffineMap.get(read.n_dims, 0, results)
    return value, read, None


def _elementwise_producer(value: ir.Value) -> Structured | None:
    """Return the elementwise ``linalg.generic`` that computes ``value``; None if there is none.

    The output map has to be the identity.
    """
    if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic":
        return None
    nest = Structured(value.owner.operation.opview)
    written = nest.maps[-1]
    is_identity = written == ir.AffineMap.get_identity(written.n_dims)
    return nest if _is_elementwise(nest) and is_identity else None


def _copies_input(nest: Structured) -> bool:
    """Whether an elementwise operation only copies elements of its only input."""
    return len(nest.inputs) == 1 and nest.yielded == nest.arguments[:1]


def _is_given(value: ir.Value) -> bool:
    """Whether ``value`` is an argument or a constant, or repeats or reshapes one."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "arith.constant":
            return True
        nest = _elementwise_producer(value)
        if op.name not in _VIEWS and (nest is None or not _copies_input(nest)):
            return False
        value = op.operands[0]
    return True
