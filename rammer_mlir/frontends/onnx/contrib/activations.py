"""Expands ONNX Runtime's Gelu operators, and the activations fused into other operators."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule


def _gelu_of(call: Call, x: str) -> str:
    """Emit 0.5 x (1 + erf(x / sqrt(2))), the exact Gelu of ``x``; return the result's name."""
    erf = call.op("Erf", call.op("Mul", x, call.scalar(sqrt(0.5))))
    factor = call.op("Add", erf, call.scalar(1))
    return call.op("Mul", call.op("Mul", x, call.scalar(0.5)), factor)


def _gelu(call: Call) -> None:
    call.finish(_gelu_of(call, call.find(0)))


def _bias_gelu(call: Call) -> None:
    call.finish(_gelu_of(call, call.sum(call.find(0), call.find(1))))


def _fast_gelu(call: Call) -> None:
    """Emit FastGelu: 0.5 y (1 + tanh(sqrt(2 / pi) (y + 0.044715 y^3))), y = X + bias."""
    x = call.sum(call.find(0), call.find(1))
    cube = call.op("Mul", call.op("Mul", x, x), x)
    inner = call.op("Add", x, call.op("Mul", cube, call.scalar(0.044715)))
    tanh = call.op("Tanh", call.op("Mul", inner, call.scalar(sqrt(2 / pi))))
    factor = call.op("Add", tanh, call.scalar(1))
    call.finish(call.op("Mul", call.op("Mul", x, call.scalar(0.5)), factor))


def _quick_gelu(call: Call) -> None:
    """Emit QuickGelu: x times the sigmoid of alpha x."""
    x = call.find(0)
    scaled = call.op("Mul", x, call.scalar(call.attribute("alpha", 1.702)))
    call.finish(call.op("Mul", x, call.op("Sigmoid", scaled)))


_PARAMETERS: dict[str, tuple[tuple[str, float], ...]] = {
    "": (),
    "Clip": (("min", -np.inf), ("max", np.inf)),
    "Elu": (("alpha", 1.0),),
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": (("alpha", 0.01),),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (("alpha", 1.0),),
}
"""Names and defaults of each activation's parameters, in the order of ``activation_params``."""


def activated(call: Call, x: str, given: list[float]) -> str:
    """Emit the activation function of a fused operator on value ``x``; return the result's name.

    The attribute ``activation`` of the node names the function; without it, ``x`` is returned.

    Args:
        call: a node of an operator that contains an activation.
        x: name of the function's input.
        given: the function's parameters in order; missing parameters have their defaults.

    Raises:
        UnsupportedError: if the function is unknown.
    """
    kind = call.attribute("activation", "")
    if kind not in _PARAMETERS:
        known = ", ".join(filter(None, _PARAMETERS))
        raise call.refusal(f"attribute 'activation': expected one of {known}, found '{kind}'")
    if not kind:
        return x
    pairs = [(n, given[i] if i < len(given) else d) for i, (n, d) in enumerate(_PARAMETERS[kind])]
    if kind == "Clip":
        return call.op("Clip", x, *(call.scalar(value) for _, value in pairs))
    return call.op(kind, x, **dict(pairs))


RULES = {
    "BiasGelu": Rule(_bias_gelu, "A B", "C"),
    "FastGelu": Rule(_fast_gelu, "X bias?", "Y"),
    "Gelu": Rule(_gelu, "X", "Y"),
    "QuickGelu": Rule(_quick_gelu, "X", "Y", "alpha"),
}
