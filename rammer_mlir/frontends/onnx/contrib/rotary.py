"""Expands rotary embeddings, which rotate pairs of elements by position-dependent angles."""

from __future__ import annotations

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.heads import joined, split_heads
from rammer_mlir.frontends.onnx.contrib.rule import Rule


def positions_from(call: Call, first: int, batch: int, length: int) -> str:
    """Emit int64 positions [batch, length], the same for each sequence; return their name.

    The positions are ``first``, ``first + 1``, ``first + 2``, ...
    """
    row = np.arange(first, first + length, dtype=np.int64)
    return call.write.constant(np.broadcast_to(row, (batch, length)))


def rotated(call: Call, value: str, angles: tuple[str, str, str], is_interleaved: bool) -> str:
    """Emit ``value`` with pairs of its elements rotated; return the result's name.

    Args:
        call: the operator's node.
        value: name of a value [batch, heads, sequence, size]. Only the first 2 * pairs elements of
            the last dimension are rotated.
        angles: names of positions [batch, sequence], of cosines and of sines [positions, pairs].
        is_interleaved: whether pairs are adjacent elements; else the first half pairs with the
            second half.
    """
    places, *tables = angles
    call.expect(all(tables), "tables of cosines and sines", "none")
    axis = call.write.integers(1)
    cosines, sines = (call.op("Unsqueeze", call.op("Gather", t, places), axis) for t in tables)
    wanted, found = call.shape_of(value)[:3:2], call.shape_of(places)
    call.expect(found == wanted, f"positions of the shape {list(wanted)}", list(found))
    size, pairs = call.shape_of(value)[3], call.shape_of(tables[0])[1]
    call.expect(2 * pairs <= size, f"tables for at most {size // 2} pairs", pairs)
    turned = value if 2 * pairs == size else call.write.part(value, 0, 2 * pairs, 3)
    turned = _turned(call, turned, cosines, sines, is_interleaved)
    if 2 * pairs == size:
        return turned
    return call.op("Concat", turned, call.write.part(value, 2 * pairs, size, 3), axis=3)


def _turned(call: Call, value: str, cosines: str, sines: str, is_interleaved: bool) -> str:
    shape = call.shape_of(value)
    pairs = shape[3] // 2
    split = (*shape[:3], pairs, 2) if is_interleaved else (*shape[:3], 2, pairs)
    axis = 4 if is_interleaved else 3
    apart = call.reshape(value, *split)
    first, second = (call.write.element(apart, number, axis) for number in range(2))
    left = call.op("Sub", call.op("Mul", first, cosines), call.op("Mul", second, sines))
    right = call.op("Add", call.op("Mul", first, sines), call.op("Mul", second, cosines))
    last = call.write.integers(axis)
    both = [call.op("Unsqueeze", half, last) for half in (left, right)]
    return call.reshape(call.op("Concat", *both, axis=axis), *shape)


def _rotary_embedding(call: Call) -> None:
    """Emit RotaryEmbedding.

    The positions are given for each token, or for the first token of a sequence, from which they
    count up.
    """
    value, cosines, sines = call.find(0), call.find(2), call.find(3)
    is_flat = len(call.shape(0)) == 3
    if is_flat:
        width = call.attribute("rotary_embedding_dim", 0)
        heads = call.attribute("num_heads", 0)
        if not heads:
            call.expect(not width, "num_heads beside rotary_embedding_dim", "none")
            heads = call.shape(0)[2] // (2 * call.shape(2)[1])
        value = split_heads(call, value, heads)
    batch, _, length, _ = call.shape_of(value)
    places = call.find(1)
    if len(call.shape(1)) == 1:
        row = positions_from(call, 0, batch, length)
        places = call.op("Add", row, call.cast(places, onnx.TensorProto.INT64))
    is_interleaved = bool(call.attribute("interleaved", 0))
    found = rotated(call, value, (places, cosines, sines), is_interleaved)
    call.finish(joined(call, found) if is_flat else found)


RULES = {
    "RotaryEmbedding": Rule(
        _rotary_embedding,
        "input position_ids cos_cache sin_cache",
        "output",
        "interleaved num_heads rotary_embedding_dim",
        {"is_packed_batching": 0, "scale": 1.0},
    ),
}
