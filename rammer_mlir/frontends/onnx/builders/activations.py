"""Emits activation functions of scalars, with ONNX's parameters such as ``alpha``."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from rammer_mlir.bindings import arith, ir, math
from rammer_mlir.passes.ir.scalar import Scalar, literal

_SIXTH = 0.16666667163372
"""The slope of HardSwish, rounded to float32 as in ONNX's definition, also for float64."""


def approximate_exp(x: ir.Value) -> ir.OpView:
    """Emit an approximate exponential of ``x``: the result may be 0 where exp(x) is subnormal."""
    return math.ExpOp(x, fastmath=arith.FastMathFlags.afn)


def sigmoid(x: Scalar) -> Scalar:
    """Emit the logistic function ``1 / (1 + exp(-x))``."""
    # Adding 1 loses exponentials that are too small for normal numbers.
    return literal(1, x.dtype) / ((-x).apply(approximate_exp) + 1)


def softplus(x: Scalar) -> Scalar:
    """Emit ``log(1 + exp(x))`` without overflow of the exponential."""
    return x.maximum(0) + (-x.apply(math.AbsFOp)).apply(math.ExpOp).apply(math.Log1pOp)


def _exponential_linear(x: Scalar, alpha: float) -> Scalar:
    return x.compare("lt", 0).select(x.apply(math.ExpM1Op) * alpha, x)


def _celu(x: Scalar, alpha: float) -> Scalar:
    return x.maximum(0) + ((x / alpha).apply(math.ExpM1Op) * alpha).minimum(0)


def _selu(x: Scalar, alpha: float, gamma: float) -> Scalar:
    return _exponential_linear(x, alpha) * gamma


def _hard_sigmoid(x: Scalar, alpha: float, beta: float) -> Scalar:
    return (x * alpha + beta).clamp(0, 1)


def _gelu(x: Scalar, approximate: str) -> Scalar:
    """Emit the Gaussian error linear unit: exact, or with tanh if ``approximate`` is "tanh"."""
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * sqrt(2 / pi)
        return x * 0.5 * (inner.apply(math.TanhOp) + 1)
    return x * 0.5 * ((x * sqrt(0.5)).apply(math.ErfOp) + 1)


def _hard_swish(x: Scalar) -> Scalar:
    return x * _hard_sigmoid(x, _SIXTH, 0.5)


def _mish(x: Scalar) -> Scalar:
    return x * softplus(x).apply(math.TanhOp)


def _softsign(x: Scalar) -> Scalar:
    return x / (x.apply(math.AbsFOp) + 1)


def _swish(x: Scalar, alpha: float) -> Scalar:
    return x * sigmoid(x * alpha if alpha != 1 else x)


def _thresholded(x: Scalar, alpha: float) -> Scalar:
    return x.compare("gt", alpha).select(x, literal(0, x.dtype))


ACTIVATIONS: dict[str, tuple[Callable[..., Scalar], dict[str, float | str]]] = {
    "Celu": (_celu, {"alpha": 1.0}),
    "Elu": (_exponential_linear, {"alpha": 1.0}),
    "Gelu": (_gelu, {"approximate": "none"}),
    "HardSigmoid": (_hard_sigmoid, {"alpha": 0.20000000298023224, "beta": 0.5}),
    "HardSwish": (_hard_swish, {}),
    "Mish": (_mish, {}),
    "Selu": (_selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Sigmoid": (sigmoid, {}),
    "Softplus": (softplus, {}),
    "Softsign": (_softsign, {}),
    "Swish": (_swish, {"alpha": 1.0}),
    "ThresholdedRelu": (_thresholded, {"alpha": 1.0}),
}
"""For each activation operator: its function, and the defaults of its parameters by name.

ONNX's operator schemas store defaults as float32; defaults that float32 rounds are written in
rounded form.
"""
