"""Estimate the mean and variance of activations through a graph by simple rules.

The benchmark models have random weights. If the scale of the weights is wrong, the outputs of a
deep network are infinite or hardly depend on the inputs, and then wrong code can pass a comparison
of outputs. So each weight is scaled for the mean and variance of its operand, which these rules
estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# The logistic function of a normal variable, linearized at zero.
SIGMOID_SLOPE = 0.25

LEAKY_SLOPE = 0.1
"""Slope below zero of all models' leaky ReLUs."""


@dataclass(frozen=True)
class Moments:
    """Estimated mean and variance of the elements of a tensor."""

    mean: float = 0.0
    variance: float = 1.0

    @property
    def std(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)


STANDARD = Moments()

Rule = Callable[[Sequence[Moments]], Moments]


def relu(x: Moments) -> Moments:
    """Return the moments of ``max(x, 0)`` for a normally distributed x."""
    if x.variance == 0:
        return Moments(max(x.mean, 0.0), 0.0)
    ratio = x.mean / x.std
    density = math.exp(-ratio * ratio / 2) / math.sqrt(2 * math.pi)
    below = (1 + math.erf(ratio / math.sqrt(2))) / 2
    mean = x.mean * below + x.std * density
    square = (x.mean**2 + x.variance) * below + x.mean * x.std * density
    return Moments(mean, max(square - mean * mean, 0.0))


def leaky_relu(x: Moments) -> Moments:
    """Return the moments of ``max(x, LEAKY_SLOPE * x)`` for a normally distributed x."""
    above, below = relu(x), relu(Moments(-x.mean, x.variance))
    mean = above.mean - LEAKY_SLOPE * below.mean
    square = above.variance + above.mean**2
    square += LEAKY_SLOPE**2 * (below.variance + below.mean**2)
    return Moments(mean, square - mean * mean)


def sigmoid(x: Moments) -> Moments:
    """Return the estimated moments of ``sigmoid(x)``, the logistic function.

    The variance of x is multiplied by the squared slope at 0, and limited to 1/4, the largest
    variance of values in [0, 1].
    """
    linear = SIGMOID_SLOPE**2 * x.variance
    return Moments(1 / (1 + math.exp(-x.mean)), linear / (1 + 4 * linear))


def tanh(x: Moments) -> Moments:
    """Return the estimated moments of ``tanh(x)``.

    The slope at 0 is 1, so the variance is that of x, limited to 1, the largest variance of values
    in [-1, 1].
    """
    return Moments(math.tanh(x.mean), x.variance / (1 + x.variance))


def _sum(xs: Sequence[Moments]) -> Moments:
    return Moments(sum(x.mean for x in xs), sum(x.variance for x in xs))


def _product(xs: Sequence[Moments]) -> Moments:
    a, b = xs
    variance = a.variance * b.variance + a.mean**2 * b.variance + b.mean**2 * a.variance
    return Moments(a.mean * b.mean, variance)


def _mixture(xs: Sequence[Moments]) -> Moments:
    mean = sum(x.mean for x in xs) / len(xs)
    square = sum(x.variance + x.mean**2 for x in xs) / len(xs)
    return Moments(mean, square - mean * mean)


def _max_pool(xs: Sequence[Moments]) -> Moments:
    # The maximum of a few correlated neighbors: a higher mean, a smaller deviation.
    return Moments(xs[0].mean + xs[0].std, 0.6 * xs[0].variance)


RULES: dict[str, Rule] = {
    "Add": _sum,
    "Sum": _sum,
    "Sub": lambda xs: Moments(xs[0].mean - xs[1].mean, xs[0].variance + xs[1].variance),
    "Mul": _product,
    "Concat": _mixture,
    "Relu": lambda xs: relu(xs[0]),
    "Clip": lambda xs: relu(xs[0]),
    "LeakyRelu": lambda xs: leaky_relu(xs[0]),
    "Sigmoid": lambda xs: sigmoid(xs[0]),
    "Tanh": lambda xs: tanh(xs[0]),
    "MaxPool": _max_pool,
    "AveragePool": lambda xs: Moments(xs[0].mean, 0.5 * xs[0].variance),
    "GlobalAveragePool": lambda xs: Moments(xs[0].mean, 0.2 * xs[0].variance),
    "BatchNormalization": lambda _: STANDARD,
    "LayerNormalization": lambda _: STANDARD,
    "LSTM": lambda _: Moments(0.0, 0.1),
}
"""Propagation rule of each operator; other operators keep the moments of their first input."""


def contract(a: Moments, b: Moments, length: int, *, centered: bool) -> Moments:
    """Return the estimated moments of the results of a product or convolution of ``a`` and weights.

    ``b`` are the moments of the weights, whose mean is taken as 0. Each result is the sum of
    ``length`` products. If ``centered``, each filter of the weights sums to zero
    (``weights.is_centered``), so that the mean of ``a`` has no effect.
    """
    square = a.variance if centered else a.variance + a.mean**2
    return Moments(0.0, length * square * b.variance)


def propagate(op_type: str, inputs: Sequence[Moments]) -> Moments:
    """Return the moments of an operator's outputs, given the moments of its inputs.

    The outputs of an operator without a rule have the moments of its first input, or ``STANDARD``
    if it has no inputs. For products and convolutions, use ``contract`` instead.
    """
    rule = RULES.get(op_type)
    if rule is not None:
        return rule(inputs)
    return inputs[0] if inputs else STANDARD
