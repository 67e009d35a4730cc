"""Expands ONNX Runtime's products and convolutions with fused transpositions and activations."""

from __future__ import annotations

import numpy as np
from onnx import helper

from rammer_mlir.frontends.onnx.contrib.activations import activated
from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.rule import Rule

_CONV = "auto_pad dilations group kernel_shape pads strides"
_GEMM = "alpha beta transA transB"


def _transposed_operand(call: Call, number: int, side: str) -> str:
    """Emit operand ``number`` of a FusedMatMul, transposed according to the node's attributes.

    Returns the name of the result. The attributes' names end with ``side``, A or B. First
    ``transBatchA`` (or ``transBatchB``) moves the first dimension after the other batch
    dimensions, then ``transA`` (or ``transB``) swaps the last two dimensions.
    """
    name, rank = call.find(number), len(call.shape(number))
    order = list(range(rank))
    if rank > 1 and call.attribute(f"transBatch{side}", 0):
        order = [*order[1:-1], 0, rank - 1]
    if rank > 1 and call.attribute(f"trans{side}", 0):
        order[-2:] = order[:-3:-1]
    return name if order == sorted(order) else call.transpose(name, *order)


def _fused_matmul(call: Call) -> None:
    found = call.op("MatMul", _transposed_operand(call, 0, "A"), _transposed_operand(call, 1, "B"))
    alpha = call.attribute("alpha", 1.0)
    call.finish(found if alpha == 1 else call.op("Mul", found, call.scalar(alpha)))


def kept_attributes(call: Call, names: str) -> dict[str, object]:
    """Return the node's attributes whose names are in ``names``, a list separated by spaces."""
    kept = [a for a in call.node.attribute if a.name in names.split()]
    return {a.name: helper.get_attribute_value(a) for a in kept}


def _fused_gemm(call: Call) -> None:
    inputs = list(call.node.input[:3]) if call.find(2) else list(call.node.input[:2])
    found = call.op("Gemm", *inputs, **kept_attributes(call, _GEMM))
    names = ["activation_alpha", "activation_beta", "activation_gamma"]
    given = [call.attribute(n, 0.0) for n in names if n in {a.name for a in call.node.attribute}]
    call.finish(activated(call, found, given))


def _fused_conv(call: Call) -> None:
    inputs = list(call.node.input[:3]) if call.find(2) else list(call.node.input[:2])
    found = call.sum(call.op("Conv", *inputs, **kept_attributes(call, _CONV)), call.find(3))
    call.finish(activated(call, found, call.attribute("activation_params", list[float]())))


def _nhwc_conv(call: Call) -> None:
    """Emit NhwcConv or NhwcFusedConv: data with channels last, filters in ONNX's layout."""
    bias = [call.find(2)] if call.find(2) else []
    operands = [_channels_first(call, call.find(0)), call.find(1), *bias]
    found = _channels_last(call, call.op("Conv", *operands, **kept_attributes(call, _CONV)))
    parameters = call.attribute("activation_params", list[float]())
    call.finish(activated(call, call.sum(found, call.find(3)), parameters))


def _nhwc_max_pool(call: Call) -> None:
    names = f"{_CONV} ceil_mode".replace("group ", "")
    first = _channels_first(call, call.find(0))
    call.finish(_channels_last(call, call.op("MaxPool", first, **kept_attributes(call, names))))


def _channels_first(call: Call, value: str) -> str:
    rank = len(call.shape(0))
    return call.transpose(value, 0, rank - 1, *range(1, rank - 1))


def _channels_last(call: Call, value: str) -> str:
    return call.transpose(value, 0, *range(2, len(call.shape(0))), 1)


def _matmul_nbits(call: Call) -> None:
    """Emit MatMulNBits: the weights of 4 or 8 bits are dequantized at compile time."""
    weights = _from_blocks(call).astype(call.dtype(0))
    found = call.op("MatMul", call.find(0), call.write.constant(weights.T))
    call.finish(call.sum(found, call.find(5)))


def _from_blocks(call: Call) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return MatMulNBits' dequantized weights [N, K].

    Each block of ``block_size`` consecutive weights of a row has a scale.
    """
    rows, depth, size = call.required("N"), call.required("K"), call.required("block_size")
    bits = call.attribute("bits", 4)
    if bits not in (4, 8):
        raise call.refusal(f"attribute 'bits': expected 4 or 8, found {bits}")
    blocks = -(-depth // size)
    packed = call.value(1, "B").reshape(-1)
    expected = rows * blocks * (size * bits // 8)
    call.expect(packed.size == expected, f"{expected} bytes of weights", packed.size)
    scales = call.value(2, "scales")
    call.expect(scales.size == rows * blocks, f"{rows * blocks} scales", scales.size)
    numbers = _unpacked(packed.reshape(rows, -1), bits).reshape(rows, blocks, size)
    zeros = _zero_points(call, rows, blocks, bits)
    values = (numbers - zeros) * scales.astype(np.float32).reshape(rows, blocks, 1)
    return values.reshape(rows, blocks * size)[:, :depth]


def _zero_points(
    call: Call, rows: int, blocks: int, bits: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if not call.find(3):
        return np.full((1, 1, 1), 1 << (bits - 1), np.float32)
    given = call.value(3, "zero_points")
    if given.dtype == np.uint8:
        row = -(-blocks * bits // 8)
        call.expect(given.size == rows * row, f"{rows * row} bytes of zero points", given.size)
        given = _unpacked(given.reshape(rows, row), bits)[:, :blocks]
    call.expect(given.size == rows * blocks, f"{rows * blocks} zero points", given.size)
    return given.astype(np.float32).reshape(rows, blocks, 1)


def _unpacked(
    packed: np.ndarray[tuple[int, ...], np.dtype[np.generic]], bits: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return the elements of each row of packed integers, as f32.

    ``packed`` has rows of bytes, and ``bits`` is the number of bits of an element, 4 or 8. Of two
    elements in a byte, the first is in the low bits.
    """
    found = packed.astype(np.uint8)
    if bits == 4:
        found = np.stack([found & 15, found >> 4], axis=-1).reshape(len(found), -1)
    return found.astype(np.float32)


RULES = {
    "FusedConv": Rule(_fused_conv, "X W B? Z?", "Y", f"{_CONV} activation activation_params"),
    "FusedGemm": Rule(
        _fused_gemm,
        "A B C?",
        "Y",
        f"{_GEMM} activation activation_alpha activation_beta activation_gamma",
    ),
    "FusedMatMul": Rule(_fused_matmul, "A B", "Y", "alpha transA transB transBatchA transBatchB"),
    "MatMulNBits": Rule(
        _matmul_nbits,
        "A B scales zero_points? g_idx! bias?",
        "Y",
        "K N accuracy_level bits block_size",
        {"weight_prepacked": 0},
    ),
    "NhwcConv": Rule(_nhwc_conv, "X W B?", "Y", _CONV),
    "NhwcFusedConv": Rule(_nhwc_conv, "X W B? Z?", "Y", f"{_CONV} activation activation_params"),
    "NhwcMaxPool": Rule(_nhwc_max_pool, "x", "y", f"{_CONV} ceil_mode"),
}
