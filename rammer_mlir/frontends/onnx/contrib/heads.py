"""Emits common parts of attention operators: splitting into heads, masks, softmax of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.limits import MOST_ELEMENTS


def split_heads(call: Call, value: str, heads: int) -> str:
    """Convert value [batch, sequence, heads * size] to [batch, heads, sequence, size].

    Returns the result's name. If ``value`` has four dimensions, its name is returned.
    """
    shape = call.shape_of(value)
    if len(shape) == 4:
        return value
    call.expect(
        len(shape) == 3 and shape[2] % heads == 0,
        f"[batch, sequence, {heads} * size]",
        list(shape),
    )
    split = call.reshape(value, *shape[:2], heads, shape[2] // heads)
    return call.transpose(split, 0, 2, 1, 3)


def parts(call: Call, value: str, sizes: Sequence[int]) -> list[str]:
    """Emit a split of a value's last dimension into ``sizes``; return the parts' names in order."""
    ends = np.cumsum(sizes).tolist()
    axis = len(call.shape_of(value)) - 1
    pairs = zip([0, *ends], ends, strict=False)
    return [call.write.part(value, begin, end, axis) for begin, end in pairs]


def joined(call: Call, value: str) -> str:
    """Convert value [batch, heads, sequence, size] to [batch, sequence, heads * size].

    Returns the result's name.
    """
    batch, heads, length, size = call.shape_of(value)
    return call.reshape(call.transpose(value, 0, 2, 1, 3), batch, length, heads * size)


def attended(
    call: Call,
    operands: tuple[str, str, str],
    scale: float,
    masks: Sequence[str],
    kept: NDArray[np.bool_] | str | None,
    cap: float = 0.0,
) -> str:
    """Emit softmax(scale Q K^T + masks) V over the last two dimensions; return the result's name.

    Args:
        call: the operator's node.
        operands: names of queries Q, keys K and values V.
        scale: factor of the scores Q K^T.
        masks: names of values added to the scores; empty names are skipped.
        kept: boolean mask, false for scores to ignore, as a constant or the name of a value; None
            to keep all scores.
        cap: soft limit of the scores, by a tanh before the masks are added; 0 for no limit.
    """
    query, key, value = operands
    rank = len(call.shape_of(key))
    turned = call.transpose(key, *range(rank - 2), rank - 1, rank - 2)
    scores = call.op("MatMul", call.op("Mul", query, call.scalar(scale, query)), turned)
    if cap:
        tanh = call.op("Tanh", call.op("Mul", scores, call.scalar(1 / cap, query)))
        scores = call.op("Mul", tanh, call.scalar(cap, query))
    scores = call.sum(scores, *masks)
    if kept is not None:
        lowest = float(np.finfo(np.float16 if call.dtype().itemsize == 2 else np.float32).min)
        chosen = kept if isinstance(kept, str) else call.write.constant(kept)
        scores = call.op("Where", chosen, scores, call.scalar(lowest, query))
    return call.op("MatMul", call.op("Softmax", scores, axis=-1), value)


def key_mask(call: Call, number: int, key: str, filler: float) -> str:
    """Emit a mask that is added to the scores, from an integer mask of keys.

    The result is 0 for valid keys, and ``filler`` for other keys. Returns the result's name.

    Args:
        call: the operator's node.
        number: index of the node's input with the integer mask, which has one of these shapes:
            [batch]: the count of valid keys of each sequence.
            [2 * batch]: the ends, then the starts, of the sequences' ranges of valid keys.
            [batch, keys] or [batch, queries, keys]: 1 for each valid key.
        key: name of the keys, [batch, heads, keys, size].
        filler: value of the result for keys that are not valid.

    Raises:
        UnsupportedError: if the mask has another shape.
    """
    mask, shape, batch = call.find(number), call.shape(number), call.shape(0)[0]
    length = call.shape_of(key)[2]
    if len(shape) == 1 and shape[0] in (batch, 2 * batch):
        keeps = _within(call, mask, batch, length)
    elif len(shape) in (2, 3) and shape[0] == batch and shape[-1] == length:
        counted = call.op("Greater", mask, call.scalar(0, mask))
        keeps = call.op("Unsqueeze", counted, call.write.integers(*([1, 2][: 4 - len(shape)])))
    else:
        raise call.refusal(
            f"the mask has the shape {list(shape)}: expected [{batch}], [{2 * batch}], "
            f"[{batch}, {length}] or [{batch}, queries, {length}]"
        )
    return call.op("Where", keeps, call.scalar(0, key), call.scalar(filler, key))


def _within(call: Call, bounds: str, batch: int, length: int) -> str:
    """Emit a boolean [batch, 1, 1, length]: whether a key is in its sequence's range of valid keys.

    Returns the name of the value. ``bounds`` is the name of an integer vector with the end of this
    range for each of ``batch`` sequences, optionally followed by the starts. Without starts, all
    ranges start at 0. ``length`` is the count of keys.
    """
    places = call.write.constant(np.arange(length, dtype=call.dtype(_number_of(call, bounds))))
    ends = call.reshape(call.write.part(bounds, 0, batch), batch, 1, 1, 1)
    found = call.op("Less", places, ends)
    if call.shape_of(bounds)[0] == batch:
        return found
    begins = call.reshape(call.write.part(bounds, batch, 2 * batch), batch, 1, 1, 1)
    return call.op("And", found, call.op("GreaterOrEqual", places, begins))


def _number_of(call: Call, name: str) -> int:
    return list(call.node.input).index(name)


def causal_mask(call: Call, rows: int, columns: int, shift: int) -> NDArray[np.bool_]:
    """Return the mask [rows, columns] of the keys ``j <= i + shift`` that query ``i`` attends to.

    Raises:
        ModelError: if there are more scores than elements allowed in a tensor.
    """
    call.expect(
        rows * columns <= MOST_ELEMENTS, f"at most {MOST_ELEMENTS} scores", f"{rows} x {columns}"
    )
    return np.tri(rows, columns, shift, dtype=np.bool_)
