"""Emits ONNX nodes for the activation functions that LSTM, GRU and RNN name in ``activations``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.node_writer import NodeWriter

_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, None),
    "Elu": (1.0, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "Affine": (1.0, 0.0),
}
"""Default alpha and beta of the activations that have them; None for a missing parameter."""

_PLAIN = ("Sigmoid", "Tanh", "Relu", "Softplus", "Softsign")

_SPELLINGS = {name.lower(): name for name in (*_PLAIN, *_DEFAULTS)}
"""ONNX's spelling of each name; ONNX Runtime also takes names in lower case."""


@dataclass(frozen=True)
class Activation:
    """An activation function of a recurrent operator: its ONNX name and its parameters.

    ``alpha`` and ``beta`` are the given or default values; None for a parameter that the function
    does not have.
    """

    name: str
    alpha: float | None
    beta: float | None

    def apply(self, write: NodeWriter, value: str, dtype: np.dtype[np.generic]) -> str:
        """Emit nodes that apply the activation to the value named ``value``.

        Returns the name of the result. ``dtype`` is the element type of the value and of the
        result.
        """
        if self.name in _PLAIN:
            return write.node(self.name, [value])
        if self.name == "HardSigmoid":
            return write.node(self.name, [value], alpha=self.alpha, beta=self.beta)
        if self.name in ("LeakyRelu", "Elu", "ThresholdedRelu"):
            return write.node(self.name, [value], alpha=self.alpha)
        alpha = write.constant(np.array(self.alpha, dtype))
        beta = write.constant(np.array(self.beta, dtype))
        if self.name == "Affine":
            return write.node("Add", [write.node("Mul", [value, alpha]), beta])
        tanh = write.node("Tanh", [write.node("Mul", [value, beta])])
        return write.node("Mul", [tanh, alpha])


def resolve(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], node: str
) -> list[Activation]:
    """Return the activation functions of the given names, with their parameters.

    Args:
        names: names of the activation functions, in upper or lower case.
        alphas: values of alpha for the functions that have this parameter, in order. Functions
            after the end of the list have the default.
        betas: values of beta, given in the same way.
        node: text that identifies the node in error messages.

    Raises:
        UnsupportedError: if a name is unknown.
    """
    alpha, beta = iter(alphas), iter(betas)
    found: list[Activation] = []
    for given in names:
        name = _SPELLINGS.get(given.lower(), given)
        if name in _PLAIN:
            found.append(Activation(name, None, None))
            continue
        if name not in _DEFAULTS:
            known = ", ".join((*_PLAIN, *_DEFAULTS))
            raise UnsupportedError(f"{node}: unknown activation '{name}': expected one of {known}")
        default_alpha, default_beta = _DEFAULTS[name]
        found.append(Activation(name, _taken(alpha, default_alpha), _taken(beta, default_beta)))
    return found


def _taken(given: Iterator[float], default: float | None) -> float | None:
    return None if default is None else next(given, default)
