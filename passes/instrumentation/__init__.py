"""Instruments a running pipeline: prints IR, measures time and writes reproducers."""

from __future__ import annotations

from rammer_mlir.passes.instrumentation.base import Instrumentation
from rammer_mlir.passes.instrumentation.ir_printing import IrPrinting
from rammer_mlir.passes.instrumentation.reproducer import Reproducer, read_reproducer
from rammer_mlir.passes.instrumentation.timing import Timing

__all__ = ["Instrumentation", "IrPrinting", "Reproducer", "Timing", "read_reproducer"]
