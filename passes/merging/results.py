"""Merges the elementwise operations after merged contractions, and slices the results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.contractions.contraction import Contraction
from rammer_mlir.passes.ir.cloning import ValueMap, clone_into
from rammer_mlir.passes.ir.generics import generic
from rammer_mlir.passes.ir.structured import Structured, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.merged import WeightPart

CHANNELS = 1
"""The dimension along which the results of merged operators are concatenated."""


def finish_merging(group: Sequence[Contraction], merged: ir.Value, weights: DerivedWeights) -> None:
    """Merge the elementwise operations after merged contractions, and replace all results.

    Each contraction's final result is replaced by a slice of the merged final result, and the old
    operations are erased.

    Args:
        group: the contractions, each with its chain of elementwise operations; the chains differ in
            their weights only.
        merged: the result of the contraction that replaces them.
        weights: the module's weights.
    """
    for position in range(len(group[0].chain)):
        merged = _epilogue([m.chain[position] for m in group], merged, weights)
    _split(group, merged)
    for member in group:
        for op in reversed((member.op, *member.chain)):
            op.operation.erase()


def _epilogue(ops: Sequence[ir.OpView], source: ir.Value, weights: DerivedWeights) -> ir.Value:
    """Emit one elementwise operation on the merged value in place of ``ops``; return its result.

    Args:
        ops: the elementwise operation at the same position after each of the merged contractions;
            these operations differ in their weights only.
        source: the merged value to which the new operation is applied.
        weights: the module's weights; the per-channel weights of ``ops`` are concatenated.
    """
    readings = [Structured(op) for op in ops]
    first = readings[0]
    inputs: list[ir.Value] = []
    for position, value in enumerate(first.inputs):
        if value not in weights:
            inputs.append(source)
            continue
        parts = [reading.inputs[position] for reading in readings]
        inputs.append(
            weights.join([WeightPart(weights[p], shape_of(p), [0], shape_of(p)) for p in parts])
        )
    element = ir.RankedTensorType(ops[0].operation.results[0].type).element_type
    empty = tensor.EmptyOp(shape_of(source), element).result
    op = generic(inputs, empty, first.maps, first.parallel)
    old = ops[0].operation.regions[0].blocks[0]
    block = op.regions[0].blocks.append(*[argument.type for argument in old.arguments])
    mapping: ValueMap = dict(zip(old.arguments, block.arguments, strict=True))
    for inner in old.operations:
        clone_into(inner, mapping, ir.InsertionPoint(block))
    return op.results[0]


def _split(group: Sequence[Contraction], merged: ir.Value) -> None:
    """Replace the final result of each contraction's elementwise chain by a slice of ``merged``.

    A concatenation of exactly these results in order is replaced by ``merged`` itself.
    """
    results = [member.result for member in group]
    shapes = [shape_of(result) for result in results]
    offsets = [0, *accumulate(shape[CHANNELS] for shape in shapes)]
    for use in list(results[0].uses):
        joined = use.owner.operation
        operands = list(joined.operands)
        if joined.name == "tensor.concat" and operands == results and _axis(joined) == CHANNELS:
            joined.results[0].replace_all_uses_with(merged)
    for result, shape, offset in zip(results, shapes, offsets, strict=False):
        start = [offset if dim == CHANNELS else 0 for dim in range(len(shape))]
        cut = tensor.ExtractSliceOp(result.type, merged, [], [], [], start, shape, [1] * len(shape))
        result.replace_all_uses_with(cut.result)


def _axis(concat: ir.Operation) -> int:
    return ir.IntegerAttr(concat.attributes["dim"]).value
