"""Activation functions on scalars, with the parameters that ONNX gives them."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.scalar import Scalar, literal


def sigmoid(x: Scalar) -> Scalar:
    """Return ``1 / (1 + exp(-x))``."""
    return literal(1, x.dtype) / ((-x).apply(math.ExpOp) + 1)


def softplus(x: Scalar) -> Scalar:
    """Return ``log(1 + exp(x))``, without an exponential that overflows."""
    return x.maximum(0) + (-x.apply(math.AbsFOp)).apply(math.ExpOp).apply(math.Log1pOp)


def _exponential_linear(x: Scalar, alpha: float) -> Scalar:
    return x.compare("lt", 0).select(x.apply(math.ExpM1Op) * alpha, x)


def _celu(x: Scalar, alpha: float) -> Scalar:
    return x.maximum(0) + ((x / alpha).apply(math.ExpM1Op) * alpha).minimum(0)


def _selu(x: Scalar, alpha: float, gamma: float) -> Scalar:
    return _exponential_linear(x, alpha) * gamma


def _hard_sigmoid(x: Scalar, alpha: float, beta: float) -> Scalar:
    return (x * alpha + beta).clamp(0, 1)


def _gelu(x: Scalar, approximate: Any) -> Scalar:
    """Return the Gaussian error linear unit, exact or by a hyperbolic tangent."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
        return x * 0.5 * (inner.apply(math.TanhOp) + 1)
    return x * 0.5 * ((x * sqrt(0.5)).apply(math.ErfOp) + 1)


ACTIVATIONS: dict[str, tuple[Callable[..., Scalar], dict[str, Any]]] = {
    "Celu": (_celu, {"alpha": 1.0}),
    "Elu": (_exponential_linear, {"alpha": 1.0}),
    "Gelu": (_gelu, {"approximate": "none"}),
    "HardSigmoid": (_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": (lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5), {}),
    "Mish": (lambda x: x * softplus(x).apply(math.TanhOp), {}),
    "Selu": (_selu, {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}),
    "Sigmoid": (sigmoid, {}),
    "Softplus": (softplus, {}),
    "Softsign": (lambda x: x / (x.apply(math.AbsFOp) + 1), {}),
    "Swish": (lambda x, alpha: x * sigmoid(x * alpha), {"alpha": 1.0}),
    "ThresholdedRelu": (
        lambda x, alpha: x.compare("gt", alpha).select(x, literal(0, x.dtype)),
        {"alpha": 1.0},
    ),
}
"""By operator: the function, and its parameters with their defaults (ONNX operator schemas)."""
