"""Builds quantization operators, for which ``real = (integer - zero_point) * scale``."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from onnx import TensorProto

from rammer_mlir.bindings import ir, math
from rammer_mlir.frontends.onnx.builders.convolutions import convolve
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.products import INT32, multiply, shifted
from rammer_mlir.frontends.onnx.builders.reductions import REDUCTIONS, apply_reduction
from rammer_mlir.frontends.onnx.builders.structured import (
    Operand,
    loop,
    pointwise,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
)
from rammer_mlir.frontends.onnx.builders.views import (
    pad,
    reshape,
)
from rammer_mlir.frontends.onnx.builders.windows import window_of
from rammer_mlir.passes.ir.byte_formats import is_integer
from rammer_mlir.passes.ir.conversions import convert
from rammer_mlir.passes.ir.scalar import F32, DType, Scalar, integer_limits, literal

UINT8 = np.dtype(np.uint8)

_PRECISIONS: dict[int, DType] = {
    TensorProto.FLOAT: F32,
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TensorProto.DOUBLE: np.dtype(np.float64),
}
"""Types in which QuantizeLinear may divide, by the value of its attribute ``precision``."""


def round_into(x: Scalar, zero: Scalar | None, dtype: DType) -> Scalar:
    """Emit ``x`` rounded to nearest even, plus ``zero``, saturated to integer type ``dtype``.

    ``zero`` is the zero point; None for 0.
    """
    x = x.apply(math.RoundEvenOp)
    if zero is not None:
        x = x + convert(zero, x.dtype)
    return convert(x.clamp(*integer_limits(dtype)), dtype)


def _along(node: Node, parameter: Tensor, shape: Sequence[int], default_axis: int = 1) -> Operand:
    """Return a scale or zero point as an operand that broadcasts to data of ``shape``.

    ``parameter`` has a single element, an element for each index of an axis, or an element for each
    block of consecutive indices of an axis. The axis is the node's attribute ``axis``;
    ``default_axis`` if the node omits the attribute.
    """
    if parameter.size == 1:
        return reshape(parameter, ())
    axis = node.axis("axis", default_axis, len(shape))
    # A vector of one scale for each block is as long as a vector of one for each index if
    # blocks have one index each; both are then the same.
    if parameter.rank == 1 and (len(shape) > 1 or parameter.shape[0] == shape[axis]):
        return parameter, [axis]
    size = node.attribute("block_size", 0) or -(-shape[axis] // parameter.shape[axis])
    exprs: list[Expr] = list(range(len(shape)))
    exprs[axis] = ir.AffineExpr.get_floor_div(loop(axis), size)
    return parameter, exprs


def _parameters(node: Node, numbers: Sequence[int], shape: Sequence[int]) -> list[Operand]:
    return [_along(node, node.tensor(number), shape) for number in numbers if node.has(number)]


def _quantize(node: Node) -> Tensor:
    x, target = node.tensor(0), node.out().dtype
    saturate = bool(node.attribute("saturate", 1))
    precision = _PRECISIONS[node.attribute("precision", TensorProto.FLOAT) or TensorProto.FLOAT]

    def body(x: Scalar, scale: Scalar, zero: Scalar | None = None) -> Scalar:
        quotient = (convert(x, precision) / convert(scale, precision)).cast(F32)
        if is_integer(target):
            return round_into(quotient, zero, target)
        moved = quotient if zero is None else quotient + convert(zero, F32)
        return convert(moved, target, saturate)

    operands = _parameters(node, (1, 2), x.shape)
    return pointwise(body, x, *operands, dtype=target, shape=x.shape)


def _dequantize(node: Node) -> Tensor:
    x, target = node.tensor(0), node.out().dtype

    wide = INT32 if is_integer(x.dtype) else F32

    def body(x: Scalar, scale: Scalar, zero: Scalar | None = None) -> Scalar:
        difference = convert(x, wide)
        if zero is not None:
            difference = difference - convert(zero, wide)
        return (difference.cast(F32) * convert(scale, F32)).cast(target)

    operands = _parameters(node, (1, 2), x.shape)
    return pointwise(body, x, *operands, dtype=target, shape=x.shape)


def _dynamic_quantize(node: Node) -> list[Tensor | None]:
    """Emit DynamicQuantizeLinear; return the uint8 data, the scale and the zero point.

    Scale and zero point follow from the range of the data, extended to include zero.
    """
    x = node.tensor(0)
    axes = list(range(x.rank))
    low, high = (apply_reduction(REDUCTIONS[name], x, axes).tensor for name in ("Min", "Max"))

    def scale_of(a: Scalar, b: Scalar) -> Scalar:
        size = b.maximum(0) - a.minimum(0)
        # The specification divides 0 by 0 for data of zeros; ONNX Runtime's scale is then 1.
        return size.compare("eq", 0.0).select(literal(1, size.dtype), size / 255)

    scale = pointwise(scale_of, low, high)

    def zero_of(a: Scalar, s: Scalar) -> Scalar:
        return (-(a.minimum(0) / s)).clamp(0, 255).apply(math.RoundEvenOp).cast(UINT8)

    zero = pointwise(zero_of, low, scale, dtype=UINT8)
    y = pointwise(
        lambda v, s, z: round_into(v / s, z, UINT8), x, scale, zero, dtype=UINT8, shape=x.shape
    )
    return [y, scale, zero]


def _requantize(total: Tensor, scales: Sequence[Operand], zero: Operand, dtype: DType) -> Tensor:
    """Emit the requantization of the 32-bit sums ``total`` to the integer type ``dtype``.

    ``scales`` are those of the two factors and of the result. The sums are multiplied by the scales
    of the factors, divided by the scale of the result, and rounded; then ``zero`` is added.
    """

    def body(total: Scalar, a: Scalar, b: Scalar, y: Scalar, zero: Scalar) -> Scalar:
        factor = a.cast(F32) * b.cast(F32) / y.cast(F32)
        return round_into(total.cast(F32) * factor, zero, dtype)

    return pointwise(body, total, *scales, zero, dtype=dtype, shape=total.shape)


def _quantized_matmul(node: Node) -> Tensor:
    """Emit QLinearMatMul: an integer product, requantized by the scales of factors and result."""
    a, b = node.tensor(0), node.tensor(3)
    left, right = shifted(a, node.tensor(2), a.rank - 2), shifted(b, node.tensor(5), b.rank - 1)
    total = multiply(left, right, INT32)
    scales = [
        _product_scale(node.tensor(1), total, total.rank - 2),
        _product_scale(node.tensor(4), total, total.rank - 1),
        _product_scale(node.tensor(6), total, total.rank - 2),
    ]
    zero = _product_scale(node.tensor(7), total, total.rank - 2)
    return _requantize(total, scales, zero, node.out().dtype)


def _product_scale(scale: Tensor, total: Tensor, axis: int) -> Operand:
    """Return a scale or zero point as an operand that broadcasts to a matrix product.

    Args:
        scale: the scale of a factor or of the product: a single number, a vector with a number per
            index of ``axis``, or a tensor that broadcasts to the product by NumPy's rules.
        total: the product.
        axis: the dimension of the product that a vector of scales belongs to.
    """
    if scale.size == 1:
        return reshape(scale, ())
    return (scale, [axis]) if scale.rank == 1 and total.shape[axis] == scale.size else scale


def _integer_convolution(node: Node, data: int, zeros: tuple[int, int]) -> Tensor:
    """Emit the 32-bit sums of a convolution of integers minus their zero points.

    Args:
        node: ConvInteger or QLinearConv; input 0 is the image.
        data: index of the node's input that has the filters.
        zeros: indices of the node's inputs that have the zero points of the image and of the
            filters. The node may omit these inputs.
    """
    x, w = node.tensor(0), node.tensor(data)
    window = window_of(node, x.shape[2:], w.shape[2:])
    x = _less_zero(node, x, zeros[0], 1)
    w = _less_zero(node, w, zeros[1], 0)
    padded = pad(x, (0, 0, *window.low), (0, 0, *window.high), 0)
    space = window.output_space(x.shape[2:])
    result = convolve(
        padded, w, node.attribute("group", 1), window.strides, window.dilations, space, INT32
    )
    return reshape(result, node.out().shape)


def _less_zero(node: Node, x: Tensor, number: int, axis: int) -> Tensor:
    if not node.has(number):
        return pointwise(lambda v: v.cast(INT32), x, dtype=INT32)
    return shifted(x, node.tensor(number), axis)


def _convolve_integers(node: Node) -> Tensor:
    """Emit ConvInteger; return the int32 result."""
    return _integer_convolution(node, 1, (2, 3))


def _quantized_convolution(node: Node) -> Tensor:
    """Emit QLinearConv: an integer convolution with bias, requantized.

    The requantization uses the scales of image, filters and result.
    """
    total = _integer_convolution(node, 3, (2, 5))
    if node.has(8):
        total = pointwise(
            lambda t, b: t + b, total, (node.tensor(8), [1]), dtype=INT32, shape=total.shape
        )
    filter_scale = node.tensor(4)
    scales: list[Operand] = [
        reshape(node.tensor(1), ()),
        reshape(filter_scale, ()) if filter_scale.size == 1 else (filter_scale, [1]),
        reshape(node.tensor(6), ()),
    ]
    return _requantize(total, scales, reshape(node.tensor(7), ()), node.out().dtype)


BUILDERS: dict[str, Builder] = {
    "ConvInteger": _convolve_integers,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearConv": _quantized_convolution,
    "QLinearMatMul": _quantized_matmul,
    "QuantizeLinear": _quantize,
}
"""Builders by operator name."""
