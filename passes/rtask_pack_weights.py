"""`rtask-pack-weights`: stores weights in the layout that rKernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.contractions.byte_product import adds_adjacent_terms
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.structured import (
    Structured,
    is_generic,
    plain_dim,
)
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.folded import fold_views

_FEWEST_LANES = 8
"""Minimum number of output channels; vectors along fewer channels would be mostly empty."""


@dataclass(frozen=True)
class PackWeights(Pass):
    """Reshape and transpose weights at compile time; put output channels innermost.

    A contraction then multiplies a vector of weights by a broadcast input element, whatever the
    strides, the window and the size of the image.
    """

    name: ClassVar[str] = "rtask-pack-weights"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Fold views and transposes of constant weights; permute the weights of contractions."""
        packer = _Packer(module)
        for op in list(entry_block(module).operations):
            if is_generic(op):
                packer.pack_contraction(Structured(op))
        packer.finish()


class _Packer:
    def __init__(self, module: ir.Module) -> None:
        self._weights = DerivedWeights(module)
        fold_views(entry_block(module), self._weights)

    def pack_contraction(self, op: Structured) -> None:
        """Transpose the weight of a contraction so that output channels are innermost."""
        if not op.is_contraction or adds_adjacent_terms(op):
            return
        for position, value in enumerate(op.inputs):
            order = _channels_last(op, position) if value in self._weights else None
            if order is None:
                continue
            old = op.maps[position]
            packed = self._weights.transpose(value, order)
            op.op.operation.operands[position] = packed
            exprs = [old.results[dim] for dim in order]
            maps = list(ir.ArrayAttr(op.op.operation.attributes["indexing_maps"]))
            maps[position] = ir.AffineMapAttr.get(ir.AffineMap.get(old.n_dims, 0, exprs))
            op.op.operation.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)
            return

    def finish(self) -> None:
        """Update the entry function's signature to the types of the changed weights."""
        self._weights.finish()


def _channels_last(op: Structured, position: int) -> list[int] | None:
    """Return the permutation of operand ``position`` that puts its output channels innermost.

    The output channels are the operand's last parallel loop that indexes no other input. The
    permuted order is: all other parallel loops, the reduction loops, the output channels. Return
    None in these cases:

    - The operand already has this order.
    - The operand has fewer than ``_FEWEST_LANES`` output channels.
    - A dimension is not indexed by a single loop, or two dimensions are indexed by the same loop.
    """
    dims = [plain_dim(expr) for expr in op.maps[position].results]
    if None in dims or len(set(dims)) != len(dims):
        return None
    loops = [dim for dim in dims if dim is not None]
    others = {
        dim
        for other, map_ in enumerate(op.maps[: len(op.inputs)])
        if other != position
        for expr in map_.results
        for dim in loops_in(expr)
    }
    own = [dim for dim in loops if op.parallel[dim] and dim not in others]
    if not own or op.extents[own[-1]] < _FEWEST_LANES:
        return None
    lane = own[-1]
    shared = [dim for dim in loops if op.parallel[dim] and dim != lane]
    reduced = [dim for dim in loops if not op.parallel[dim]]
    order = [loops.index(dim) for dim in [*shared, *reduced, lane]]
    return None if order == list(range(len(loops))) else order
