"""Gives a new destination to each elementwise loop nest that reads its destination.

The old destination becomes an input of the nest. Otherwise MLIR's elementwise fusion could fuse the
nest into a consumer with additional loops, and each iteration of the additional loops would read
the values that the previous iteration has written.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.structured import Structured, is_generic
from rammer_mlir.passes.ir.traversal import replace


def read_destinations(function: ir.OpView) -> None:
    """If an elementwise ``linalg.generic`` reads its destination, make the destination an input.

    The results are computed in new tensors. A ``linalg.generic`` inside a loop or branch remains
    unchanged; so do generics with reductions, and destinations with dynamic shapes.
    """
    for op in list(function.operation.regions[0].blocks[0].operations):
        if is_generic(op):
            nest = Structured(op)
            read = _read_outputs(nest)
            if read and all(nest.parallel):
                _rewrite(nest, read)


def _read_outputs(nest: Structured) -> list[int]:
    """Return the indices of the outputs that the nest both reads and overwrites completely.

    An output of which the nest writes only some elements is excluded, because its other elements
    must keep their old values. Outputs of dynamic shape are excluded too.
    """
    return [
        number
        for number, value in enumerate(nest.outputs)
        if nest.reads_output(number)
        and ir.ShapedType(value.type).has_static_shape
        and nest.output_maps[number].is_permutation
    ]


def _rewrite(nest: Structured, read: Sequence[int]) -> None:
    op, inputs, outputs = nest.op.operation, nest.inputs, nest.outputs
    moved = [outputs[number] for number in read]
    maps = [*nest.maps[: len(inputs)], *(nest.output_maps[n] for n in read), *nest.output_maps]
    attributes = {name: op.attributes[name] for name in op.attributes}
    with ir.InsertionPoint(op), op.location:
        for number in read:
            kind = ir.RankedTensorType(outputs[number].type)
            outputs[number] = tensor.EmptyOp(kind.shape, kind.element_type).result
        attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
        sizes = [len(inputs) + len(moved), len(outputs)]
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes)
        made = ir.Operation.create(
            op.name,
            results=[result.type for result in op.results],
            operands=[*inputs, *moved, *outputs],
            attributes=attributes,
            regions=1,
        )
        _move_body(op, made, len(inputs), read)
    replace(op, list(made.results))


def _move_body(op: ir.Operation, made: ir.Operation, num_inputs: int, read: Sequence[int]) -> None:
    """Clone the body of ``op`` into ``made``, which reads some outputs of ``op`` as inputs.

    ``made`` has the ``num_inputs`` inputs of ``op``, followed by one input for each output of
    ``op`` whose index is in ``read``.
    """
    old = op.regions[0].blocks[0]
    arguments = list(old.arguments)
    outs = arguments[num_inputs:]
    kinds = [value.type for value in (*arguments[:num_inputs], *(outs[n] for n in read), *outs)]
    block = made.regions[0].blocks.append(*kinds)
    new = list(block.arguments)
    mapping: ValueMap = dict(zip(arguments[:num_inputs], new, strict=False))
    mapping |= dict(zip(outs, new[num_inputs + len(read) :], strict=True))
    mapping |= {outs[n]: new[num_inputs + at] for at, n in enumerate(read)}
    ip = ir.InsertionPoint(block)
    for each in old.operations:
        clone_into(each, mapping, ip)
