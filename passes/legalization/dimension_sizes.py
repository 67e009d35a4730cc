"""Lowers ``stablehlo.get_dimension_size`` to a constant, or ``tensor.dim`` for a dynamic size.

Specification: https://openxla.org/stablehlo/spec#get_dimension_size.
"""

from __future__ import annotations

import numpy as np

from rammer_mlir.bindings import arith, ir, stablehlo, tensor
from rammer_mlir.passes.ir.dense_values import dense_attribute
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import index


def lower_dimension_sizes(module: ir.Module) -> None:
    """Replace each ``stablehlo.get_dimension_size`` by the size, a tensor of rank 0 and type i32.

    Operations whose result has another type, such as ui32, remain unchanged.
    """
    if stablehlo is None:
        return
    element = ir.IntegerType.get_signless(32, module.context)
    for op in list(operations_named(module.operation, "stablehlo.get_dimension_size")):
        if ir.RankedTensorType(op.results[0].type).element_type == element:
            dim = ir.IntegerAttr(op.attributes["dimension"]).value
            with ir.InsertionPoint(op), op.location:
                replace(op, [_size(op.operands[0], dim)])


def _size(value: ir.Value, dim: int) -> ir.Value:
    """Return the size of dimension ``dim`` of a tensor, as a tensor of rank 0."""
    kind, element = ir.RankedTensorType(value.type), ir.IntegerType.get_signless(32)
    result = ir.RankedTensorType.get([], element)
    if not kind.is_dynamic_dim(dim):
        size = np.array(kind.get_dim_size(dim), np.int32)
        return arith.ConstantOp(result, dense_attribute(size, element)).result
    size = arith.index_cast(element, tensor.dim(value, index(dim)))
    return tensor.from_elements(result, [size])
