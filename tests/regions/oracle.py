"""The results that readings of operations describe, computed by NumPy in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.passes.regions.expressions import Apply, Constant, Expression, Input
from rammer_mlir.passes.regions.reading import Reading

Array = NDArray[Any]

erf = np.vectorize(math.erf)


def rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "neg": np.negative, "abs": np.abs,
    "pow": np.power, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "sqrt": np.sqrt, "tanh": np.tanh, "erf": erf, "floor": np.floor, "ceil": np.ceil,
    "sin": np.sin, "cos": np.cos, "select": np.where, "rsqrt": rsqrt,
    "olt": np.less, "ogt": np.greater, "ole": np.less_equal, "oge": np.greater_equal,
    "oeq": np.equal,
}  # fmt: skip


def compute(reading: Reading, inputs: Sequence[Array]) -> Array:
    """Return the result of an operation, which NumPy computes from the operation's reading alone.

    ``inputs`` has an array for each input of the reading.
    """
    kind = reading.kind
    wide = [np.asarray(array, np.float64) for array in inputs]
    if "expression" in reading.attributes:
        return _elementwise(reading, wide)
    if "conv" in kind:
        return _convolution(reading, *wide)
    if kind.endswith("_pool"):
        return _pool(reading, wide[0])
    if kind.startswith("reduce_"):
        return _reduction(kind, wide[0], reading.attributes["axes"])
    return _OTHERS[kind](reading, wide)


def _elementwise(reading: Reading, inputs: list[Array]) -> Array:
    indexing: Any = reading.attributes["indexing"]
    shape = reading.output.shape
    tensors = [
        _follow(array, dims, shape)
        for array, dims, operand in zip(inputs, indexing, reading.inputs, strict=True)
        if operand.shape or not operand.is_constant
    ]
    expression: Any = reading.attributes["expression"]
    return np.broadcast_to(evaluate(expression, tensors), shape)


def _follow(array: Array, dims: Sequence[int], shape: Sequence[int]) -> Array:
    """Return the elements of an array that correspond to the elements of a result of ``shape``.

    ``dims`` has for each dimension of the array the result's dimension that indexes it, or -1 for
    index 0.
    """
    grid = np.indices(shape)
    return array[tuple(np.zeros(shape, int) if dim < 0 else grid[dim] for dim in dims)]


def evaluate(expression: Expression, inputs: Sequence[Array]) -> Array:
    """Return the value of an expression for the given inputs."""
    if isinstance(expression, Input):
        return inputs[expression.number]
    if isinstance(expression, Constant):
        return np.asarray(expression.value)
    assert isinstance(expression, Apply)
    operands = [evaluate(operand, inputs) for operand in expression.operands]
    with np.errstate(all="ignore"):
        return FUNCTIONS[expression.function](*operands)


def _padded(reading: Reading, image: Array, border: float) -> tuple[Array, list[int]]:
    """Return an image padded with ``border``, and the indices of its spatial dimensions."""
    layout: Any = reading.attributes["layout"]
    pads: Any = reading.attributes["pads"]
    spatial = [layout.index(letter) for letter in "DHW" if letter in layout]
    widths = [(0, 0)] * image.ndim
    for number, dim in enumerate(spatial):
        widths[dim] = pads[number], pads[number + len(spatial)]
    return np.pad(image, widths, constant_values=border), spatial


def _windows(reading: Reading, image: Array, border: float, out: Mapping[str, int]) -> list[Any]:
    """Return pairs: a position in the window, and the elements that are at that position.

    There is a pair for each position; the elements are an array with one element for each window.
    ``border`` is the value of the padding; ``out`` has the sizes of the result, by the letters of
    its layout.
    """
    padded, spatial = _padded(reading, image, border)
    layout: Any = reading.attributes["layout"]
    given: Any = [reading.attributes[name] for name in ("kernel", "strides", "dilations")]
    found: list[Any] = []
    for place in itertools.product(*map(range, given[0])):
        index: list[Any] = [slice(None)] * image.ndim
        for number, dim in enumerate(spatial):
            begin = place[number] * given[2][number]
            index[dim] = begin + np.arange(out[layout[dim]]) * given[1][number]
            assert index[dim][-1] < padded.shape[dim]
        part = padded
        for dim in spatial:
            part = np.take(part, index[dim], axis=dim)
        found.append((place, part))
    return found


def _convolution(reading: Reading, image: Array, kernel: Array) -> Array:
    a = reading.attributes
    layout, weights, result = (str(a[k]) for k in ("layout", "weight_layout", "output_layout"))
    sizes = dict(zip(result, reading.output.shape, strict=True))
    groups: Any = a["groups"]
    spatial = [letter for letter in "DHW" if letter in layout]
    total: Any = 0.0
    for place, part in _windows(reading, image, 0.0, sizes):
        index = tuple(
            place[spatial.index(letter)] if letter in spatial else slice(None) for letter in weights
        )
        rest = "".join(letter for letter in weights if letter not in spatial)
        part, names = _grouped(part, layout, groups if "G" in weights else 1)
        total = total + np.einsum(f"{names},{rest}->{_named(result, rest)}", part, kernel[index])
    return total.reshape(reading.output.shape)


def _grouped(part: Array, layout: str, groups: int) -> tuple[Array, str]:
    """Split the channels of an image into groups; return the image and its new layout.

    A layout has a letter for each dimension: "C" becomes "GC". An image with a single group, or
    with a dimension G, is returned as it is.
    """
    if groups == 1 or "G" in layout:
        return part, layout
    dim = layout.index("C")
    shape = (*part.shape[:dim], groups, part.shape[dim] // groups, *part.shape[dim + 1 :])
    return part.reshape(shape), layout.replace("C", "GC")


def _named(result: str, weights: str) -> str:
    """Return the layout of a result, with a dimension G for the groups if the weights have one.

    A layout has a letter for each dimension. The filters F of the result become "GF", or "G" if the
    weights have no dimension F.
    """
    if "G" not in weights or "G" in result:
        return result
    return result.replace("F", "GF" if "F" in weights else "G")


def _pool(reading: Reading, image: Array) -> Array:
    layout: Any = reading.attributes["layout"]
    out = dict(zip(layout, reading.output.shape, strict=True))
    if reading.kind == "max_pool":
        return np.max([part for _, part in _windows(reading, image, -np.inf, out)], axis=0)
    total = np.sum([part for _, part in _windows(reading, image, 0.0, out)], axis=0)
    if reading.kind == "sum_pool":
        return total
    ones = np.ones_like(image)
    border = 1.0 if reading.attributes["count_include_pad"] else 0.0
    return total / np.sum([part for _, part in _windows(reading, ones, border, out)], axis=0)


def _reduction(kind: str, x: Array, axes: Any) -> Array:
    functions: Mapping[str, Callable[..., Array]] = {
        "reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max,
        "reduce_min": np.min, "reduce_prod": np.prod,
    }  # fmt: skip
    before = {"reduce_sum_square": x * x, "reduce_l1": np.abs(x)}
    if kind in before:
        return np.sum(before[kind], axis=axes)
    return functions[kind](x, axis=axes)


def _matmul(reading: Reading, inputs: list[Array]) -> Array:
    a, b = inputs
    left = a.swapaxes(-1, -2) if reading.attributes["transpose_a"] else a
    return left @ (b.swapaxes(-1, -2) if reading.attributes["transpose_b"] else b)


def _slice(reading: Reading, inputs: list[Array]) -> Array:
    given: Any = [reading.attributes[name] for name in ("offsets", "sizes", "strides")]
    index = tuple(o + np.arange(n) * s for o, n, s in zip(*given, strict=True))
    return inputs[0][np.ix_(*index)].reshape(reading.output.shape)


def _softmax(reading: Reading, inputs: list[Array]) -> Array:
    axes: Any = reading.attributes["axes"]
    powers = np.exp(inputs[0] - inputs[0].max(axis=axes, keepdims=True))
    return powers / powers.sum(axis=axes, keepdims=True)


def _concat(reading: Reading, inputs: list[Array]) -> Array:
    axis: Any = reading.attributes["axis"]
    return np.concatenate(inputs, axis)


def _pad(reading: Reading, inputs: list[Array]) -> Array:
    a: Any = reading.attributes
    widths = list(zip(a["low"], a["high"], strict=True))
    return np.pad(inputs[0], widths, constant_values=a["value"])


def _transpose(reading: Reading, inputs: list[Array]) -> Array:
    permutation: Any = reading.attributes["permutation"]
    return inputs[0].transpose(permutation)


def _broadcast(reading: Reading, inputs: list[Array]) -> Array:
    indexing: Any = reading.attributes["indexing"]
    return _follow(inputs[0], indexing[0], reading.output.shape)


_OTHERS: Mapping[str, Callable[[Reading, list[Array]], Array]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "softmax": _softmax,
    "slice": _slice,
    "pad": _pad,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "reshape": lambda reading, inputs: inputs[0].reshape(reading.output.shape),
    "concat": _concat,
    "fill": lambda reading, inputs: np.full(reading.output.shape, reading.attributes["value"]),
}
