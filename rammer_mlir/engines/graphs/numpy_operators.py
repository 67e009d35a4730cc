"""Defines NumPy evaluators of ONNX operators for the engine ``numpy``.

The engine also uses the evaluators of constant folding. If both have an operator, the evaluator of
this module is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rammer_mlir.evaluators.operation import Evaluator, Operation, single

Array = NDArray[Any]


def _windows(op: Operation, x: Array, kernel: Sequence[int], border: float) -> Array:
    """Return all sliding windows of image ``x``, padded with ``border``, in a single array.

    The shape is [N, C, *positions, *kernel]: a window of shape ``kernel`` for each output position.
    ``op`` has the padding, strides and dilations.
    """
    rank = len(kernel)
    pads: Sequence[int] = op.attribute("pads", [0] * 2 * rank)
    dilations: Sequence[int] = op.attribute("dilations", [1] * rank)
    strides: Sequence[int] = op.attribute("strides", [1] * rank)
    widths = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    padded = np.pad(x, widths, constant_values=border)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    found = sliding_window_view(padded, extents, tuple(range(2, 2 + rank)))
    steps = [slice(None)] * 2 + [slice(None, None, s) for s in strides]
    inner = [slice(None, None, d) for d in dilations]
    return found[(*steps, *inner)]


def _conv(op: Operation) -> Array:
    x, w = op.input(0), op.input(1)
    groups: int = op.attribute("group", 1)
    rank = w.ndim - 2
    found = _windows(op, x, w.shape[2:], 0)
    letters = "uvw"[:rank], "xyz"[:rank]
    parts = [
        np.einsum(f"nc{letters[0]}{letters[1]},fc{letters[1]}->nf{letters[0]}", image, kernel,
                  optimize=True)
        for image, kernel in zip(np.split(found, groups, 1), np.split(w, groups, 0), strict=True)
    ]  # fmt: skip
    return np.concatenate(parts, 1)


def _conv_integer(op: Operation) -> Array:
    inputs = [op.input(number).astype(np.int32) for number in range(2)]
    return _conv(Operation(op.kind, op.attributes, inputs))


def _matmul_integer(op: Operation) -> Array:
    return np.matmul(op.input(0).astype(np.int32), op.input(1).astype(np.int32))


def _quantize(op: Operation) -> Array:
    """Divide input 0 by the scale, round half to even, add the zero point, and saturate.

    Return the result, which has the element type of the zero point. Inputs 1 and 2 are the scale
    and the zero point.
    """
    zero = op.input(2)
    limits = np.iinfo(zero.dtype)
    moved = np.rint(op.input(0) / op.input(1)) + zero.astype(np.float32)
    return np.clip(moved, limits.min, limits.max).astype(zero.dtype)


_CASTS = {1: np.float32, 3: np.int8, 6: np.int32, 10: np.float16}
"""NumPy types, by ONNX's number of the type (``TensorProto.DataType``)."""


def _cast(op: Operation) -> Array:
    return op.input(0).astype(_CASTS[op.attribute("to")])


def _max_pool(op: Operation) -> Array:
    kernel: Sequence[int] = op.attribute("kernel_shape")
    found = _windows(op, op.input(0), kernel, -math.inf)
    return found.max(axis=tuple(range(-len(kernel), 0)))


def _average_pool(op: Operation) -> Array:
    kernel: Sequence[int] = op.attribute("kernel_shape")
    axes = tuple(range(-len(kernel), 0))
    x = op.input(0)
    total = _windows(op, x, kernel, 0).sum(axis=axes, dtype=x.dtype)
    border = 1 if op.attribute("count_include_pad", 0) else 0
    return total / _windows(op, np.ones_like(x), kernel, border).sum(axis=axes, dtype=x.dtype)


def _softmax(op: Operation) -> Array:
    x, axis = op.input(0), op.attribute("axis", -1)
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(op: Operation) -> Array:
    x = op.input(0)
    return (x * 0.5 * (1 + _erf(x * math.sqrt(0.5)))).astype(x.dtype)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)


def _hard_swish(x: Array) -> Array:
    return x * _hard_sigmoid(x, 1 / 6, 0.5)


def _leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, x.dtype.type(alpha) * np.expm1(x), x)


def _function(compute: Callable[..., Array], *names: str) -> Evaluator:
    """Return an evaluator that calls ``compute`` with an operator's first operand and attributes.

    ``names`` are the names of the attributes to pass, in the order of the parameters of
    ``compute``.
    """

    def evaluate(op: Operation) -> Array:
        return compute(op.input(0), *(op.attribute(name) for name in names))

    return single(evaluate)


OPERATORS: dict[str, Evaluator] = {
    "Cast": single(_cast),
    "Conv": single(_conv),
    "ConvInteger": single(_conv_integer),
    "MatMulInteger": single(_matmul_integer),
    "QuantizeLinear": single(_quantize),
    "MaxPool": single(_max_pool),
    "AveragePool": single(_average_pool),
    "Softmax": single(_softmax),
    "Gelu": single(_gelu),
    "HardSigmoid": _function(_hard_sigmoid, "alpha", "beta"),
    "HardSwish": _function(_hard_swish),
    "LeakyRelu": _function(_leaky_relu, "alpha"),
    "Elu": _function(_elu, "alpha"),
    "Softplus": _function(_softplus),
    "Mish": _function(_mish),
    "Softsign": _function(_softsign),
}
"""Evaluators by operator."""
