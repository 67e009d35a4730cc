"""`rtask-externalize-constants`: dense constants become arguments of the entry function."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.constants import CONSTANT, VALUE, ArgumentList
from rammer_mlir.passes.ir.entry import entry_block, entry_function

_LARGE_SPLAT = 1024
"""Maximum number of elements of a splat that stays in the code, where it folds into arithmetic."""


@dataclass(frozen=True)
class ExternalizeConstants(Pass):
    """Turn dense constants into arguments, so that operators with unequal constants share code."""

    name: ClassVar[str] = "rtask-externalize-constants"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Replace each tensor constant, except small splats, by an argument with the same value."""
        arguments = ArgumentList(entry_function(module))
        constants = [op for op in entry_block(module).operations if _is_dense_constant(op)]
        for number, op in enumerate(constants):
            result = op.operation.results[0]
            attributes = {
                CONSTANT: ir.StringAttr.get(f"__constant_{number}"),
                VALUE: op.operation.attributes["value"],
            }
            result.replace_all_uses_with(arguments.add(result.type, attributes))
            op.operation.erase()
        arguments.finish()


def _is_dense_constant(op: ir.OpView) -> bool:
    """Whether an operation is a tensor constant with a NumPy element type, except a small splat."""
    if op.operation.name != "arith.constant":
        return False
    value = op.operation.attributes["value"]
    kind = op.operation.results[0].type
    if not isinstance(kind, ir.RankedTensorType):
        return False
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        return prod(kind.shape) > _LARGE_SPLAT
    element = kind.element_type
    return isinstance(element, ir.IntegerType | ir.F16Type | ir.F32Type | ir.F64Type)
