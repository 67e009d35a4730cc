"""The passes from the `linalg` to the `program` stage, and pipelines that mix them with MLIR's."""

from __future__ import annotations

from rammer_mlir.passes.base import OperationError, Pass
from rammer_mlir.passes.manager import check_pipeline, run_pipeline
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.passes.timing import Timing

__all__ = ["PASSES", "OperationError", "Pass", "Timing", "check_pipeline", "run_pipeline"]
