"""`rtask-block-reductions`: stores 8-bit factors of four terms of a sum in adjacent bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.contractions.byte_product import TERMS, ByteProduct, find_byte_product
from rammer_mlir.passes.ir.constant_pad import pad_with_zeros
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.generics import indexing_maps, iterator_types
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.weights.derived import DerivedWeights

_FEWEST = 8
"""Minimum number of terms and of columns: a shorter sum, or half a register, gains nothing."""


@dataclass(frozen=True)
class BlockReductions(Pass):
    """Store the 8-bit factors of four consecutive terms of a sum of products in adjacent bytes.

    Processors have instructions that multiply four unsigned by four signed bytes and add the
    products to an i32 (x86's VNNI). In a contraction of 8-bit operands, the reduction loop that
    indexes the data's innermost dimension is split by four. The new loop over four terms indexes a
    new innermost dimension of the data and of the weights; the layout of the weights changes at
    compile time. If four does not divide the reduction loop's extent, data and weights are padded
    with zeros.
    """

    name: ClassVar[str] = "rtask-block-reductions"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Split a reduction loop of each large 8-bit contraction into blocks of four iterations.

        The contractions are those of the entry function. Their data operands are reshaped, and the
        layout of their weights changes.
        """
        weights = DerivedWeights(module)
        for op in list(entry_block(module).operations):
            found = find_byte_product(Structured(op), weights) if is_generic(op) else None
            if found is not None and _is_large(found):
                with ir.InsertionPoint(op), op.operation.location:
                    _block(found, weights)
        weights.finish()


def _is_large(found: ByteProduct) -> bool:
    extents = found.op.extents
    return min(extents[found.inner], extents[found.lane]) >= _FEWEST


def _block(found: ByteProduct, weights: DerivedWeights) -> None:
    """Split the reduction loop of ``found`` that indexes the data operand's innermost dimension.

    Each block has four iterations. The loop within a block becomes the contraction's last loop.
    """
    op, operation = found.op, found.op.op.operation
    blocks = -(-op.extents[found.inner] // TERMS)
    operation.operands[found.data] = _blocked_data(op.inputs[found.data], blocks)
    weight, order = _blocked_weight(found, blocks, weights)
    operation.operands[found.weight] = weight
    loops = len(op.parallel)
    exprs = [list(map_.results) for map_ in op.maps]
    exprs[found.weight] = [ir.AffineExpr.get_dim(loop) for loop in order]
    exprs[found.data].append(ir.AffineExpr.get_dim(loops))
    maps = [ir.AffineMap.get(loops + 1, 0, each) for each in exprs]
    operation.attributes["indexing_maps"] = indexing_maps(maps)
    operation.attributes["iterator_types"] = iterator_types([*op.parallel, False])


def _blocked_data(value: ir.Value, blocks: int) -> ir.Value:
    """Reshape a contraction's data operand from ``[..., n]`` to ``[..., blocks, 4]``; return it.

    If n is less than ``4 * blocks``, the operand is padded with zeros first.
    """
    shape = shape_of(value)
    last = len(shape) - 1
    if shape[-1] % TERMS:
        high = [*[0] * last, blocks * TERMS - shape[-1]]
        value = pad_with_zeros(value, [0] * len(shape), high)
    split = [*shape[:-1], blocks, TERMS]
    kind = ir.RankedTensorType.get(split, ir.RankedTensorType(value.type).element_type)
    groups = [*([dim] for dim in range(last)), [last, last + 1]]
    return tensor.ExpandShapeOp(kind, value, groups, [], split).result


def _blocked_weight(
    found: ByteProduct, blocks: int, weights: DerivedWeights
) -> tuple[ir.Value, Sequence[int]]:
    """Split the reduction of a contraction's weight into ``blocks`` groups of four terms.

    The last three dimensions of the new weight are the groups, the output columns and the four
    terms of a group; the other dimensions keep their order. The weight is rearranged at compile
    time. Return the new weight and, for each of its dimensions, the index of the loop that indexes
    the dimension.
    """
    value = found.op.inputs[found.weight]
    loops, terms = list(found.loops), len(found.op.parallel)
    place = loops.index(found.inner)
    shape = shape_of(value)
    if shape[place] % TERMS:
        shape[place] = blocks * TERMS
        value = weights.pad(value, shape)
    split = [*loops[: place + 1], terms, *loops[place + 1 :]]
    sizes = [*shape[:place], blocks, TERMS, *shape[place + 1 :]]
    rest = [loop for loop in loops if loop not in (found.inner, found.lane)]
    order = [*rest, found.inner, found.lane, terms]
    return weights.transpose(value, [split.index(loop) for loop in order], sizes), order
