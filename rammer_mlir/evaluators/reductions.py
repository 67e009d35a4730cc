"""Evaluates ONNX reductions, prefix sums, matrix products and quantization, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rammer_mlir.evaluators.operation import (
    FLOATS,
    Evaluator,
    Numbers,
    Operation,
    integer_limits,
    require,
    single,
)

_Reduction = Callable[[Numbers, tuple[int, ...]], Numbers]
"""A function that reduces an array along given dimensions, and keeps them with size 1."""


def _reduce(reduction: _Reduction) -> Evaluator:
    """Return the evaluator of a reduction operator; floats are accumulated in f64."""

    def compute(operation: Operation) -> Numbers:
        x = operation.input(0)
        axes = operation.attribute("axes") or operation.integers(1) or []
        if not axes and operation.attribute("noop_with_empty_axes", 0):
            require(operation.kind in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"))
            return x
        places = tuple(axis % x.ndim for axis in axes) if axes else tuple(range(x.ndim))
        wide = x.astype(np.float64) if x.dtype in FLOATS else x
        result = np.asarray(reduction(wide, places)).astype(x.dtype)
        return result if operation.attribute("keepdims", 1) else np.squeeze(result, places)

    return single(compute)


def _of_floats(reduction: _Reduction) -> _Reduction:
    """Return ``reduction`` restricted to floats: for integers it raises NotFoldableError.

    The reductions of integers therefore stay in the graph and are computed at run time.
    """

    def reduce(x: Numbers, axes: tuple[int, ...]) -> Numbers:
        require(x.dtype in FLOATS)
        return reduction(x, axes)

    return reduce


def _sum(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    return np.sum(x, axes, dtype=x.dtype, keepdims=True)


def _product(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    return np.prod(x, axes, dtype=x.dtype, keepdims=True)


def _mean(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    return np.mean(x, axes, keepdims=True)


def _norm(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    return np.sqrt(_sum(x * x, axes))


def _log_sum(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    return np.log(_sum(x, axes))


def _log_sum_exp(x: Numbers, axes: tuple[int, ...]) -> Numbers:
    largest = np.max(x, axes, keepdims=True)
    require(bool(np.isfinite(largest).all()))
    return np.log(_sum(np.exp(x - largest), axes)) + largest


def _running(operation: Operation) -> Numbers:
    """Return prefix sums (CumSum) or prefix products (CumProd) along an axis.

    Input 1 is the index of the axis.
    """
    x, (axis,) = operation.input(0), operation.integers(1) or [0]
    backward = bool(operation.attribute("reverse", 0))
    is_sum = operation.kind == "CumSum"
    y = np.flip(x, axis) if backward else x
    wide = y.astype(np.float64) if y.dtype in FLOATS else y
    total = (np.cumsum if is_sum else np.cumprod)(wide, axis, dtype=wide.dtype)
    if operation.attribute("exclusive", 0):
        neutral = np.full_like(np.take(total, [0], axis), 0 if is_sum else 1)
        kept = np.take(total, np.arange(total.shape[axis] - 1), axis)
        total = np.concatenate([neutral, kept], axis)
    return (np.flip(total, axis) if backward else total).astype(x.dtype)


def _product_of(x: Numbers, y: Numbers) -> Numbers:
    """Return the matrix product of ``x`` and ``y``; 16-bit floats are computed in f32."""
    if x.dtype in FLOATS and x.dtype.itemsize == 2:
        return np.matmul(x.astype(np.float32), y.astype(np.float32)).astype(x.dtype)
    return np.matmul(x, y)


def _matmul(operation: Operation) -> Numbers:
    return _product_of(operation.input(0), operation.input(1))


def _gemm(operation: Operation) -> Numbers:
    x, y, bias = operation.input(0), operation.input(1), operation.find(2)
    require(x.dtype in FLOATS)
    x = x.T if operation.attribute("transA", 0) else x
    y = y.T if operation.attribute("transB", 0) else y
    wide = np.float64 if x.dtype == np.float64 else np.float32
    result = np.matmul(x.astype(wide), y.astype(wide)) * wide(operation.attribute("alpha", 1.0))
    if bias is not None:
        result = result + bias.astype(wide) * wide(operation.attribute("beta", 1.0))
    return result.astype(x.dtype)


def _per_element(operation: Operation, number: int) -> Numbers | None:
    """Return a scale or zero point, reshaped or repeated such that it broadcasts to input 0.

    ``number`` is the index of the scale or zero point among the inputs. The result is None if this
    input is omitted.
    """
    x, given = operation.input(0), operation.find(number)
    if given is None or given.size == 1:
        return None if given is None else given.reshape(())
    axis = operation.attribute("axis", 1)
    if given.ndim == 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        return given.reshape(shape)
    block = operation.attribute("block_size", 0)
    require(block > 0)
    return np.take(np.repeat(given, block, axis), np.arange(x.shape[axis]), axis)


def _dequantize(operation: Operation) -> Numbers:
    scale, zero = _per_element(operation, 1), _per_element(operation, 2)
    require(scale is not None and "output_dtype" not in operation.attributes)
    x = operation.input(0).astype(np.float32)
    if zero is not None:
        x = x - zero.astype(np.float32)
    assert scale is not None
    return (x * scale.astype(np.float32)).astype(scale.dtype)


def _quantize(operation: Operation) -> Numbers:
    scale, zero = _per_element(operation, 1), _per_element(operation, 2)
    require(scale is not None and zero is not None and not operation.attribute("precision", 0))
    assert scale is not None and zero is not None
    require(zero.dtype in _QUANTIZED and operation.input(0).dtype in FLOATS)
    low, high = integer_limits(zero.dtype)
    quotient = np.rint(operation.input(0).astype(np.float32) / scale.astype(np.float32))
    require(bool(np.isfinite(quotient).all()))
    shifted = quotient.astype(np.float64) + zero.astype(np.float64)
    return np.clip(shifted, low, high).astype(zero.dtype)


_QUANTIZED = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16, np.uint16)))

EVALUATORS: dict[str, Evaluator] = {
    "CumProd": single(_running),
    "CumSum": single(_running),
    "DequantizeLinear": single(_dequantize),
    "Gemm": single(_gemm),
    "MatMul": single(_matmul),
    "QuantizeLinear": single(_quantize),
    "ReduceL1": _reduce(lambda x, axes: _sum(np.abs(x), axes)),
    "ReduceL2": _reduce(_of_floats(_norm)),
    "ReduceLogSum": _reduce(_of_floats(_log_sum)),
    "ReduceLogSumExp": _reduce(_of_floats(_log_sum_exp)),
    "ReduceMax": _reduce(lambda x, axes: np.max(x, axes, keepdims=True)),
    "ReduceMean": _reduce(_of_floats(_mean)),
    "ReduceMin": _reduce(lambda x, axes: np.min(x, axes, keepdims=True)),
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(_sum),
    "ReduceSumSquare": _reduce(lambda x, axes: _sum(x * x, axes)),
}
"""Evaluators of the reductions, prefix sums, products and quantization, by operator name."""
