"""Lowers maxima whose result for NaN is unspecified to a comparison and a selection.

x86 has one instruction that computes ``a > b ? a : b``. ``arith.maximumf`` needs three more
instructions, to propagate a NaN.
"""

from __future__ import annotations

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.passes.ir.scalar import UNSPECIFIED_NAN


def expand_maxima(module: ir.Module) -> None:
    """Replace each ``arith.maximumf`` with attribute ``UNSPECIFIED_NAN`` by ``a > b ? a : b``."""
    for operation in walk(module.operation):
        if operation.name != "arith.maximumf" or UNSPECIFIED_NAN not in operation.attributes:
            continue
        left, right = operation.operands
        with ir.InsertionPoint(operation), operation.location:
            larger = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, left, right), left, right)
        operation.result.replace_all_uses_with(larger)
        operation.erase()
