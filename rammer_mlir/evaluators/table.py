"""Table of the operators that have an evaluator.

The tests compare each with ONNX Runtime over its attributes.
"""

from __future__ import annotations

from rammer_mlir.evaluators import elementwise, indexing, movement, reductions
from rammer_mlir.evaluators.operation import Evaluator

EVALUATORS: dict[str, Evaluator] = {
    **elementwise.EVALUATORS,
    **indexing.EVALUATORS,
    **movement.EVALUATORS,
    **reductions.EVALUATORS,
}
