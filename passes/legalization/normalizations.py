"""Lowers ``stablehlo.batch_norm_inference`` to elementwise arithmetic.

Specification: https://openxla.org/stablehlo/spec#batch_norm_inference.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir, math, stablehlo
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import Values, per_element


def lower_normalizations(module: ir.Module) -> None:
    """Replace each ``stablehlo.batch_norm_inference`` of static shape by elementwise arithmetic."""
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.batch_norm_inference")):
        kind = ir.RankedTensorType(op.results[0].type)
        if kind.has_static_shape and isinstance(kind.element_type, ir.FloatType):
            with ir.InsertionPoint(op), op.location:
                replace(op, [_normalized(op, kind)])


def _normalized(op: ir.Operation, kind: ir.RankedTensorType) -> ir.Value:
    given, *features = op.operands
    epsilon = ir.FloatAttr(op.attributes["epsilon"]).value
    feature = ir.AffineDimExpr.get(ir.IntegerAttr(op.attributes["feature_index"]).value)
    of_feature = ir.AffineMap.get(kind.rank, 0, [feature])

    def body(elements: Values, _indices: Values) -> ir.Value:
        x, scale, offset, mean, variance = elements
        above_zero = arith.addf(variance, arith.constant(kind.element_type, epsilon))
        centered = arith.divf(arith.subf(x, mean), math.sqrt(above_zero))
        return arith.addf(arith.mulf(centered, scale), offset)

    inputs = [(given, ir.AffineMap.get_identity(kind.rank))]
    inputs += [(value, of_feature) for value in features]
    return per_element(kind.shape, kind.element_type, inputs, body)
