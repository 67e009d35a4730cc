"""List the tests of ONNX's backend suite that are excluded, with the reasons.

These tests are out of scope for an inference compiler of numeric tensors.
"""

from __future__ import annotations

from collections.abc import Mapping

from rammer_mlir.benchmarks.onnx_suite.cases import Case

_DOMAINS: Mapping[str, str] = {
    "ai.onnx.preview.training": "training: gradients and optimizers",
    "ai.onnx.preview": "preview operators",
}

_OPERATORS: Mapping[str, str] = {
    "Bernoulli": "random results",
    "RandomUniformLike": "random results",
    "ImageDecoder": "encoded images",
}


def exclusion(case: Case) -> str | None:
    """Return the reason why a test is excluded, or None for a test that should pass."""
    for operator in case.operators:
        if operator in _OPERATORS:
            return _OPERATORS[operator]
    return _DOMAINS.get(case.domain)
