"""Makes gathers read a computed tensor directly, not a reshape of it, to permit fusion."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, ir
from rammer_mlir.passes.ir.gathers import Gather, gathers_of
from rammer_mlir.passes.ir.reshapes import RESHAPES, reassociation
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of


def fold_views_of_gathers(block: ir.Block) -> None:
    """Replace gathers from a reshape of a computed tensor by gathers from the reshape's operand.

    The reshape may only add or drop dimensions of size 1.
    """
    for op in block.operations:
        for gather in gathers_of(Structured(op)) if is_generic(op) else ():
            _fold(gather)


def _fold(gather: Gather) -> None:
    value, indices = gather.value, list(gather.op.operands)[1:]
    while _is_foldable(value):
        view = ir.OpResult(value).owner.operation
        with ir.InsertionPoint(gather.op), gather.op.location:
            indices = _source_indices(view, indices)
        value = view.operands[0]
    if value != gather.value:
        with ir.InsertionPoint(gather.op), gather.op.location:
            kind = ir.RankedTensorType(value.type).element_type
            fresh = ir.Operation.create(gather.op.name, [kind], [value, *indices])
        gather.op.results[0].replace_all_uses_with(fresh.results[0])
        gather.op.erase()


def _is_foldable(value: ir.Value) -> bool:
    """Whether a reshape computes a value by only adding or dropping dimensions of size 1.

    The reshape's operand has to be computed too: it is no block argument.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in RESHAPES:
        return False
    source = owner.operation.operands[0]
    sizes = max(shape_of(source), shape_of(value), key=len)
    return not isinstance(source.owner, ir.Block) and all(
        sum(sizes[dim] != 1 for dim in group) <= 1 for group in reassociation(owner.operation)
    )


def _source_indices(view: ir.Operation, indices: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the indices of an element in the operand of the reshape ``view``.

    ``indices`` are the indices of the same element in the reshape's result. The reshape only adds
    or drops dimensions of size 1.
    """
    source, result = shape_of(view.operands[0]), shape_of(view.results[0])
    zero = arith.constant(ir.IndexType.get(), 0)
    found = [zero] * len(source)
    if view.name == "tensor.collapse_shape":
        for index, group in zip(indices, reassociation(view), strict=True):
            found[_main_dim(group, source)] = index
        return found
    for number, group in enumerate(reassociation(view)):
        found[number] = indices[_main_dim(group, result)]
    return found


def _main_dim(group: Sequence[int], shape: Sequence[int]) -> int:
    """Return the dimension in ``group`` whose size is not 1, or the first one if all sizes are 1.

    ``group`` lists dimensions of a tensor of shape ``shape``; at most one has a size other than 1.
    """
    return next((dim for dim in group if shape[dim] != 1), group[0])
