"""Which operators are evaluated at compile time, and how.

Each is compared with ONNX Runtime over its attributes in the tests. All others stay in the graph.
"""

from __future__ import annotations

from rammer_mlir.frontends.onnx.folding import elementwise, indexing, movement, reductions
from rammer_mlir.frontends.onnx.folding.operation import Evaluator

EVALUATORS: dict[str, Evaluator] = {
    **elementwise.EVALUATORS,
    **indexing.EVALUATORS,
    **movement.EVALUATORS,
    **reductions.EVALUATORS,
}
