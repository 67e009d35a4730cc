"""Turns the destinations that element-wise loop nests read into inputs of the nests.

MLIR's fusion of element-wise operations would fuse such a nest into a reader that has additional
loops. Each iteration of these loops would then read the values that the previous iteration has
written.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.structured import Structured, is_generic
from rammer_mlir.passes.ir.traversal import replace


def read_destinations(function: ir.OpView) -> None:
    """Turn each destination that an element-wise ``linalg.generic`` reads into an input of it.

    The results are computed in new tensors. Nests with dynamic shapes or reductions, and nests
    inside of loops, are unchanged.
    """
    for op in list(function.operation.regions[0].blocks[0].operations):
        if is_generic(op):
            nest = Structured(op)
            read = _read_outputs(nest)
            if read and all(nest.parallel):
                _rewrite(nest, read)


def _read_outputs(nest: Structured) -> list[int]:
    """Return the numbers of the outputs that the body reads and that the nest writes completely.

    Other outputs are left out, because their unwritten elements keep their values. Outputs of
    dynamic shape are left out too.
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
    """Clone the body of ``op`` to ``made``, which reads the outputs numbered ``read`` as inputs.

    These are the last inputs of ``made``, after the ``num_inputs`` inputs of ``op``.
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
