"""Evaluates operators that only the host runs: on sequences, or with data-dependent shapes."""

from __future__ import annotations

from collections.abc import Mapping

from rammer_mlir.evaluators.indexing import EVALUATORS as INDEXING
from rammer_mlir.evaluators.sequences import SEQUENCE_EVALUATORS, HostEvaluator
from rammer_mlir.evaluators.suppression import non_max_suppression
from rammer_mlir.evaluators.table import EVALUATORS

HOST_EVALUATORS: Mapping[str, HostEvaluator] = {
    **SEQUENCE_EVALUATORS,
    **{name: INDEXING[name] for name in ("Compress", "NonZero", "Unique")},
    "NonMaxSuppression": non_max_suppression,
}
"""Evaluators of the operators that no program with static shapes computes, by operator name."""

ALL_EVALUATORS: Mapping[str, HostEvaluator] = {
    **EVALUATORS,
    **HOST_EVALUATORS,
    "Identity": lambda operation: [operation.inputs[0]],  # accepts any value, including a sequence
}
"""Evaluators of all operators that the host can evaluate, by operator name."""
