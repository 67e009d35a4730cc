"""Expands ONNX Runtime's operators on quantized tensors to ONNX operators.

Matrix products multiply integers. Other operators are dequantized, computed in f32 and quantized
again.
"""

from __future__ import annotations

import onnx

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.products import kept_attributes
from rammer_mlir.frontends.onnx.contrib.rule import Rule

_FLOAT = onnx.TensorProto.FLOAT
_POOL = "auto_pad ceil_mode count_include_pad kernel_shape pads strides"
_WIDE_QUANTIZATION = 21
"""The first opset in which ONNX quantizes to 16 bits."""


def _real(call: Call, number: int, axis: int | None = None) -> str:
    """Emit input ``number`` dequantized, and return the name of the result.

    The scale and the zero point of the input are the next two inputs, with an element per index of
    ``axis``, or a single element if ``axis`` is None.
    """
    inputs = [call.find(number + offset) for offset in range(3)]
    return call.op("DequantizeLinear", *_without_last(inputs), axis=axis)


def _without_last(names: list[str]) -> list[str]:
    return names if names[-1] else names[:-1]


def _quantized(call: Call, value: str, number: int, result: int = 0) -> None:
    """Emit the quantization of ``value`` as result ``result`` of the node.

    The scale of the result is input ``number``, and its zero point the next input.
    """
    names = [value, call.find(number), call.find(number + 1)]
    call.finish(call.op("QuantizeLinear", *_without_last(names)), result)


def _elementwise(operator: str) -> Rule:
    def rewrite(call: Call) -> None:
        _quantized(call, call.op(operator, _real(call, 0), _real(call, 3)), 6)

    names = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
    return Rule(rewrite, names, "C")


def _activation(operator: str, attributes: str = "") -> Rule:
    def rewrite(call: Call) -> None:
        found = call.op(operator, _real(call, 0), **kept_attributes(call, attributes))
        _quantized(call, found, 3)

    names = "X X_scale X_zero_point? Y_scale Y_zero_point?"
    return Rule(rewrite, names, "Y", attributes)


def _pool(operator: str, attributes: str) -> Rule:
    def rewrite(call: Call) -> None:
        value, rank = _real(call, 0), len(call.shape(0))
        is_last = bool(call.attribute("channels_last", 0))
        if is_last:
            value = call.transpose(value, 0, rank - 1, *range(1, rank - 1))
        value = call.op(operator, value, **kept_attributes(call, attributes))
        if is_last:
            value = call.transpose(value, 0, *range(2, rank), 1)
        _quantized(call, value, 3)

    names = "X x_scale x_zero_point? y_scale y_zero_point?"
    return Rule(rewrite, names, "Y", f"{attributes} channels_last")


def _concat(call: Call) -> None:
    parts = [_real(call, number) for number in range(2, len(call.node.input), 3)]
    call.expect(bool(parts), "at least one input", "none")
    _quantized(call, call.op("Concat", *parts, axis=call.attribute("axis", 0)), 0)


def _softmax(call: Call) -> None:
    """Emit QLinearSoftmax.

    Before opset 13, the softmax is over dimension ``axis`` and all later dimensions together.
    """
    value, shape, axis = _real(call, 0), call.shape(0), call.attribute("axis", -1)
    if call.attribute("opset", call.write.opset) >= 13 or axis in (-1, len(shape) - 1):
        _quantized(call, call.op("Softmax", value, axis=axis), 3)
        return
    flat = call.op("Softmax", call.op("Flatten", value, axis=axis), axis=-1)
    _quantized(call, call.reshape(flat, *shape), 3)


def _dequantize(call: Call) -> None:
    """Emit a dequantization of any integer type: subtract the zero point, then scale."""
    scale, zero, axis = call.find(1), call.find(2), call.attribute("axis", 1)
    value = call.cast(call.find(0), _FLOAT)
    if zero:
        value = call.op("Sub", value, _along(call, call.cast(zero, _FLOAT), axis))
    call.finish(call.op("Mul", value, _along(call, scale, axis)))


def _along(call: Call, value: str, axis: int) -> str:
    """Emit a reshape of a vector, so that it broadcasts along ``axis`` of input 0.

    Returns the result's name. If ``value`` is not a vector, its name is returned.
    """
    size, rank = call.shape_of(value), len(call.shape(0))
    if len(size) != 1:
        return value
    if size == (1,):
        return call.reshape(value, *([1] * rank))
    call.expect(-rank <= axis < rank, f"axis: at most {rank - 1}", axis)
    return call.reshape(value, *(size[0] if i == axis % rank else 1 for i in range(rank)))


def _quantize(call: Call) -> None:
    narrow = call.write.opset >= _WIDE_QUANTIZATION or not call.find(2)
    if not narrow and call.dtype(2).itemsize > 1:
        raise call.refusal(
            f"it quantizes to {call.dtype(2)}: expected int8 or uint8; use opset 21 or newer"
        )
    axis = call.attribute("axis", 1) if len(call.shape(1)) == 1 else None
    names = [call.find(number) for number in range(3)]
    call.finish(call.op("QuantizeLinear", *_without_last(names), axis=axis))


def _dynamic_matmul(call: Call) -> None:
    """Emit DynamicQuantizeMatMul: quantize the left operand by its range, multiply integers."""
    value, scale, zero = call.write.node_with_results("DynamicQuantizeLinear", [call.find(0)], 3)
    product = call.op("MatMulInteger", *_without_last([value, call.find(1), zero, call.find(3)]))
    _scaled(call, product, (scale, call.find(2)), call.find(4))


def _integer_matmul(call: Call) -> None:
    """Emit MatMulIntegerToFloat: multiply integers minus their zero points, then scale."""
    product = call.op("MatMulInteger", *[call.find(number) for number in (0, 1, 4, 5)])
    _scaled(call, product, (call.find(2), call.find(3)), call.find(6))


def _scaled(call: Call, product: str, scales: tuple[str, str], bias: str) -> None:
    factor = call.op("Mul", *scales)
    call.finish(call.sum(call.op("Mul", call.cast(product, _FLOAT), factor), bias))


def _gemm(call: Call) -> None:
    """Emit QGemm: multiply integers minus zero points, add an integer bias, and scale.

    The result is quantized if its scale is given.
    """
    a, b = (_turned(call, number, name) for number, name in ((0, "transA"), (3, "transB")))
    product = call.op("MatMulInteger", *_without_last([a, b, call.find(2), call.find(5)]))
    total = call.cast(call.sum(product, call.find(6)), _FLOAT)
    factor = call.op("Mul", call.op("Mul", call.find(1), call.find(4)), _alpha(call))
    value = call.op("Mul", total, factor)
    if call.find(7):
        _quantized(call, value, 7)
    else:
        call.finish(value)


def _turned(call: Call, number: int, attribute: str) -> str:
    value = call.find(number)
    return call.transpose(value, 1, 0) if call.attribute(attribute, 0) else value


def _alpha(call: Call) -> str:
    return call.scalar(call.attribute("alpha", 1.0), call.find(1))


RULES = {
    "DequantizeLinear": Rule(_dequantize, "x x_scale x_zero_point?", "y", "axis"),
    "DynamicQuantizeMatMul": Rule(_dynamic_matmul, "A B b_scale b_zero_point? bias?", "Y"),
    "MatMulIntegerToFloat": Rule(
        _integer_matmul, "A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y"
    ),
    "QGemm": Rule(
        _gemm,
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
        "Y",
        "alpha transA transB",
    ),
    "QLinearAdd": _elementwise("Add"),
    "QLinearAveragePool": _pool("AveragePool", _POOL),
    "QLinearConcat": Rule(_concat, "Y_scale Y_zero_point *", "Y", "axis"),
    "QLinearGlobalAveragePool": _pool("GlobalAveragePool", ""),
    "QLinearLeakyRelu": _activation("LeakyRelu", "alpha"),
    "QLinearMul": _elementwise("Mul"),
    "QLinearSigmoid": _activation("Sigmoid"),
    "QLinearSoftmax": Rule(
        _softmax, "X X_scale X_zero_point? Y_scale Y_zero_point", "Y", "axis opset"
    ),
    "QuantizeLinear": Rule(_quantize, "x y_scale y_zero_point?", "y", "axis"),
}
