"""Expands ONNX Runtime's attention operators to products, masks and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import onnx

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.heads import (
    attended,
    causal_mask,
    joined,
    key_mask,
    parts,
    split_heads,
)
from rammer_mlir.frontends.onnx.contrib.rule import Rule


def _self_attention(call: Call) -> None:
    """Emit Attention: its queries, keys and values are projections of a single input."""
    projected = call.sum(call.op("MatMul", call.find(0), call.find(1)), call.find(2))
    _attend_projected(call, projected, mask=3, past=4, bias=5)


def _quantized_attention(call: Call) -> None:
    """Emit QAttention: the projection of the input multiplies integers, all else is in f32."""
    zeros = [call.find(6), call.find(7)]
    inputs = [call.find(0), call.find(1), *(zeros if zeros[1] else filter(None, zeros))]
    product = call.cast(call.op("MatMulInteger", *inputs), onnx.TensorProto.FLOAT)
    scaled = call.op("Mul", product, call.op("Mul", call.find(3), call.find(4)))
    _attend_projected(call, call.op("Add", scaled, call.find(2)), mask=5, past=8)


def _attend_projected(
    call: Call, projected: str, *, mask: int, past: int, bias: int | None = None
) -> None:
    """Emit attention on the packed value ``projected``, and the results of the node.

    Args:
        call: the operator's node.
        projected: name of a value that has queries, keys and values concatenated along its last
            dimension.
        mask: index of the node's input that masks keys.
        past: index of the node's input with the keys and values of earlier tokens.
        bias: index of the node's input to add to the scores; None for no such input.
    """
    heads, width = call.required("num_heads"), call.shape(1)[-1]
    sizes = call.attribute("qkv_hidden_sizes", [width // 3] * 3)
    call.expect(
        len(sizes) == 3 and sum(sizes) == width, f"three hidden sizes that sum to {width}", sizes
    )
    query, key, value = (split_heads(call, x, heads) for x in parts(call, projected, sizes))
    if call.find(past):
        kept = [call.write.element(call.find(past), number) for number in range(2)]
        key = call.op("Concat", kept[0], key, axis=2)
        value = call.op("Concat", kept[1], value, axis=2)
    earlier = call.shape(past)[3] if call.find(past) else 0
    if call.uses(1):
        both = [call.op("Unsqueeze", x, call.write.integers(0)) for x in (key, value)]
        call.finish(call.op("Concat", *both, axis=0), 1)
    masks = [*_masks(call, mask, key), "" if bias is None else call.find(bias)]
    call.finish(joined(call, _attended(call, query, key, value, masks, earlier)))


def _masks(call: Call, number: int, key: str) -> list[str]:
    if not call.find(number):
        return []
    return [key_mask(call, number, key, call.attribute("mask_filter_value", -10000.0))]


def _attended(
    call: Call, query: str, key: str, value: str, masks: Sequence[str], earlier: int
) -> str:
    """Emit attention by the node's attributes; return the name of the result.

    ``earlier`` is the number of keys of earlier tokens, which every query sees.
    """
    depth = call.shape_of(query)[-1]
    scale = call.attribute("scale", 0.0) or 1 / sqrt(depth)
    rows, columns = call.shape_of(query)[2], call.shape_of(key)[2]
    kept = None
    if call.attribute("unidirectional", 0):
        kept = causal_mask(call, rows, columns, earlier)
        kept[-1:] = True  # as in ONNX Runtime, which matters if there are more keys than queries
    return attended(call, (query, key, value), scale, masks, kept)


def _multi_head(call: Call) -> None:
    """Emit MultiHeadAttention.

    Queries, keys and values are separate inputs, or keys and values are packed in input ``key``, or
    all three in input ``query``.
    """
    query, key, value = _heads_of(call, call.required("num_heads"))
    given = [bool(call.find(number)) for number in (6, 7)]
    call.expect(given[0] == given[1], "both past_key and past_value", "one of them")
    if all(given):
        key = call.op("Concat", call.find(6), key, axis=2)
        value = call.op("Concat", call.find(7), value, axis=2)
    call.finish(key, 1)
    call.finish(value, 2)
    masks = [*_masks(call, 4, key), call.find(5)]
    earlier = call.shape(6)[2] if all(given) else 0
    call.finish(joined(call, _attended(call, query, key, value, masks, earlier)))


def _heads_of(call: Call, heads: int) -> tuple[str, str, str]:
    query, key, value = (call.find(number) for number in range(3))
    if not key or not value:
        if call.find(3):
            raise call.refusal("input 'bias' is given: expected none with packed operands")
        apart = _unpacked(call, key or query, 2 if key else 3)
        return (split_heads(call, query, heads) if key else apart[0], apart[-2], apart[-1])
    biases = ["", "", ""]
    if call.find(3):
        if len(call.shape(1)) == 4:
            raise call.refusal("input 'bias' is given: expected none with keys of four dimensions")
        biases = parts(call, call.find(3), [call.shape(n)[-1] for n in range(3)])
    query, key, value = (
        split_heads(call, call.sum(x, bias), heads)
        for x, bias in zip((query, key, value), biases, strict=True)
    )
    return query, key, value


def _unpacked(call: Call, packed: str, count: int) -> list[str]:
    """Emit the ``count`` values that are packed in a single value; return their names.

    ``packed`` is the name of a value [batch, sequence, heads, count, size]. Each emitted value is
    [batch, heads, sequence, size].
    """
    shape = call.shape_of(packed)
    call.expect(
        len(shape) == 5 and shape[3] == count,
        f"packed operands of the shape [batch, sequence, heads, {count}, size]",
        list(shape),
    )
    turned = call.transpose(packed, 3, 0, 2, 1, 4)
    return [call.write.element(turned, number) for number in range(count)]


RULES = {
    "Attention": Rule(
        _self_attention,
        "input weights bias? mask_index? past? attention_bias? past_sequence_length!",
        "output present",
        "num_heads unidirectional mask_filter_value qkv_hidden_sizes scale",
        {"do_rotary": 0, "past_present_share_buffer": 0, "rotary_embedding_dim": 0},
    ),
    "QAttention": Rule(
        _quantized_attention,
        "input weight bias input_scale weight_scale mask_index? input_zero_point? "
        "weight_zero_point? past?",
        "output present",
        "num_heads unidirectional mask_filter_value scale",
        {"do_rotary": 0, "past_present_share_buffer": 0},
    ),
    "MultiHeadAttention": Rule(
        _multi_head,
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? "
        "past_sequence_length! cache_indirection!",
        "output present_key present_value qk!",
        "num_heads mask_filter_value scale unidirectional",
    ),
}
