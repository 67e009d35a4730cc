"""Lists the evaluators by the names of ONNX operators.

The tests compare the results of each evaluator, for many values of the operator's attributes, with
those of ONNX Runtime.
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
