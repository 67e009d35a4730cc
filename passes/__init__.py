"""Contains the passes from the `linalg` to the `program` stage, and runs pipelines of passes."""

from __future__ import annotations

from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.instrumentation import Timing
from rammer_mlir.passes.manager import (
    add_pipeline,
    check_pipeline,
    run_pipeline,
    run_without_threads,
)
from rammer_mlir.passes.registry import PASSES

__all__ = [
    "PASSES",
    "OperationError",
    "Pass",
    "Timing",
    "add_pipeline",
    "check_pipeline",
    "run_pipeline",
    "run_without_threads",
]
