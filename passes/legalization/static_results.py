"""Results of functions whose shapes became static."""

from __future__ import annotations

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.function_type import update_function_type


def return_static_shapes(function: ir.OpView) -> None:
    """Return the values of static shapes in place of their casts to dynamic ones."""
    block = function.operation.regions[0].blocks[0]
    last = list(block.operations)[-1].operation
    for number, value in enumerate(list(last.operands)):
        owner = value.owner
        while not isinstance(owner, ir.Block) and owner.name == "tensor.cast":
            value = owner.operands[0]
            owner = value.owner
        kind = value.type
        if isinstance(kind, ir.RankedTensorType) and kind.has_static_shape:
            last.operands[number] = value
    update_function_type(function.operation)
