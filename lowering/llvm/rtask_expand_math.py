"""`rtask-expand-math`: expands transcendental functions on f32 into arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.llvm.expand_exponentials import expand_exponentials
from rammer_mlir.lowering.llvm.expand_libm_functions import expand_on_vectors
from rammer_mlir.passes.base import Pass


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expand transcendental functions on f32 into arithmetic.

    The functions are exp, exp2, expm1, log, log1p, tanh and erf, and on vectors also sin, cos,
    asin, acos, atan, atan2 and powf. A vector with an angle of 2**28 or more takes the results
    of libm. On f64, expm1 and log1p become arithmetic on exp and log.
    """

    name: ClassVar[str] = "rtask-expand-math"

    def run(self, module: ir.Module) -> None:
        """Expand the functions in the whole module, on scalars and on vectors."""
        with ir.Location.unknown(module.context):
            expand_exponentials(module)
            expand_on_vectors(module)
