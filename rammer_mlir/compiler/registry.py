"""Registers the passes that compile and run programs, and therefore need the compiler."""

from __future__ import annotations

from rammer_mlir.compiler.quantization.rtask_quantize_regions import QuantizeRegions
from rammer_mlir.passes.base import Pass

COMPILER_PASSES: tuple[type[Pass], ...] = (QuantizeRegions,)
