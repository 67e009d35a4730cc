"""Lowers tensor allocations to empty tensors, and parallel loops to sequential loops."""

from __future__ import annotations

from rammer_mlir.bindings import ir, scf, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import index

_DYNAMIC = ir.ShapedType.get_dynamic_size()

_BOUNDS = ("staticLowerBound", "staticUpperBound", "staticStep")
_SLICE = ("static_offsets", "static_sizes", "static_strides", "operandSegmentSizes")


def lower_destinations(module: ir.Module) -> None:
    """Lower ``bufferization.alloc_tensor`` and ``scf.forall``.

    An allocation becomes a ``tensor.empty`` or the tensor that it copies. An ``scf.forall`` with
    constant bounds that only inserts slices becomes nested ``scf.for`` loops.
    ``bufferization.materialize_in_destination`` becomes its source.
    """
    for op in list(operations_named(module.operation, "bufferization.alloc_tensor")):
        with ir.InsertionPoint(op), op.location:
            replace(op, [_allocated(op)])
    for op in list(operations_named(module.operation, "bufferization.materialize_in_destination")):
        if op.results:
            replace(op, [op.operands[0]])
    # Inner loops first.
    for op in reversed(list(operations_named(module.operation, "scf.forall"))):
        if _has_simple_bounds(op):
            with ir.InsertionPoint(op), op.location:
                replace(op, _loops(op, [], list(op.operands)))


def _allocated(op: ir.Operation) -> ir.Value:
    """Return the tensor that replaces a ``bufferization.alloc_tensor``.

    This is the tensor that the allocation copies, or a new ``tensor.empty`` if it copies none.
    """
    sizes, copied, _ = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    if copied:
        return op.operands[sizes]
    kind = ir.RankedTensorType(op.results[0].type)
    dynamic = iter(list(op.operands)[:sizes])
    shape = [next(dynamic) if kind.is_dynamic_dim(n) else kind.shape[n] for n in range(kind.rank)]
    return tensor.EmptyOp(shape, kind.element_type).result


def _bounds(op: ir.Operation) -> list[tuple[int, ...]]:
    """Return the static begin, end and step of each loop of an ``scf.forall``."""
    return list(zip(*(ir.DenseI64ArrayAttr(op.attributes[n]) for n in _BOUNDS), strict=True))


def _has_simple_bounds(op: ir.Operation) -> bool:
    """Whether an ``scf.forall`` has constant bounds, and its terminator only inserts slices."""
    *_, last = op.regions[0].blocks[0].operations
    joined = last.operation.regions[0].blocks[0].operations
    return not any(_DYNAMIC in each for each in _bounds(op)) and all(
        each.operation.name == "tensor.parallel_insert_slice" for each in joined
    )


def _loops(op: ir.Operation, counters: list[ir.Value], shared: list[ir.Value]) -> list[ir.Value]:
    """Emit the ``scf.for`` loops of an ``scf.forall`` that are not yet emitted, and their body.

    Each call emits one loop and calls itself for the next inner loop. Return the values of the
    shared outputs after the loops.

    Args:
        op: the ``scf.forall``.
        counters: the induction variables of the outer loops that are already emitted.
        shared: the current values of the ``shared_outs`` of ``op``, which the loops carry.
    """
    bounds = _bounds(op)
    if len(counters) == len(bounds):
        return _thread(op.regions[0].blocks[0], counters, shared)
    loop = scf.ForOp(*map(index, bounds[len(counters)]), shared)
    with ir.InsertionPoint(loop.body):
        arguments = list(loop.inner_iter_args)
        scf.YieldOp(_loops(op, [*counters, loop.induction_variable], arguments))
    return list(loop.results)


def _thread(block: ir.Block, counters: list[ir.Value], shared: list[ir.Value]) -> list[ir.Value]:
    """Emit an iteration of an ``scf.forall``; return the shared outputs with the slices inserted.

    ``block`` is the loop's body, ``counters`` are the induction variables, and ``shared`` are the
    values of the loop's ``shared_outs`` before the iteration.
    """
    mapping: ValueMap = dict(zip(block.arguments, [*counters, *shared], strict=True))
    *inner, last = block.operations
    for each in inner:
        clone_into(each, mapping, ir.InsertionPoint.current)
    for insertion in last.operation.regions[0].blocks[0].operations:
        old = insertion.operation
        operands = [mapping.get(value, value) for value in old.operands]
        attributes = {name: old.attributes[name] for name in _SLICE}
        made = ir.Operation.create("tensor.insert_slice", [operands[1].type], operands, attributes)
        mapping[old.operands[1]] = made.results[0]
    return [mapping[value] for value in list(block.arguments)[len(counters) :]]
