"""Expands GroupQueryAttention: causal attention with a cache, and with key heads that are shared.

Several query heads share a key head and a value head.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from rammer_mlir.frontends.onnx.contrib.call import Call
from rammer_mlir.frontends.onnx.contrib.heads import (
    attended,
    causal_mask,
    joined,
    parts,
    split_heads,
)
from rammer_mlir.frontends.onnx.contrib.rotary import positions_from, rotated
from rammer_mlir.frontends.onnx.contrib.rule import Rule


@dataclass(frozen=True)
class _Past:
    """A cache with keys and values of earlier tokens, to which a run adds its new tokens.

    Attributes:
        slots: count of tokens that the cache has room for.
        new: count of new tokens.
        valid: name of an int64 value [batch, 1]: count of slots of each sequence that are used
            before the new tokens are added.
    """

    slots: int
    new: int
    valid: str

    @staticmethod
    def of(call: Call, new: int) -> _Past | None:
        """Return the cache to which the node adds ``new`` tokens; None if the node has no cache."""
        slots = [call.shape(number)[2] if call.find(number) else 0 for number in (3, 4)]
        call.expect(slots[0] == slots[1], "as many past values as keys", slots)
        if not slots[0]:
            return None
        last = call.cast(call.reshape(call.find(5), -1, 1), TensorProto.INT64)
        offset = call.write.constant(np.array(1 - new, np.int64))
        return _Past(slots[0], new, call.op("Add", last, offset))

    def positions(self, call: Call) -> str:
        """Emit the positions of the new tokens in their sequences; return the name of the value.

        The value is int64 [batch, new].
        """
        return call.op("Add", self.valid, call.write.integers(*range(self.new)))

    def visible(self, call: Call, window: int) -> str:
        """Emit the mask of the keys that each new token attends to; return the mask's name.

        The mask is a boolean [batch, 1, 1, new, slots + new]. The keys are the cache's slots,
        followed by the new tokens. ``window`` is the count of positions that a token attends to; -1
        for no limit.
        """
        slots = np.arange(self.slots + self.new)
        is_past = call.write.constant(slots < self.slots)
        moved = call.op("Add", self.valid, call.write.constant(slots - self.slots))
        columns = call.op("Where", is_past, call.write.constant(slots), moved)
        is_used = call.op("Less", call.write.constant(slots), self.valid)
        is_used = call.op("Or", is_used, call.write.constant(slots >= self.slots))
        rows = call.op("Unsqueeze", self.positions(call), call.write.integers(-1))
        columns, is_used = (
            call.op("Unsqueeze", value, call.write.integers(1)) for value in (columns, is_used)
        )
        found = call.op("And", is_used, call.op("LessOrEqual", columns, rows))
        if window >= 0:
            distance = call.op("Sub", rows, columns)
            near = call.op("Less", distance, call.write.constant(np.array(window, np.int64)))
            found = call.op("And", found, near)
        return call.op("Unsqueeze", found, call.write.integers(1, 2))

    def present(self, call: Call, joint: str) -> str:
        """Emit ``joint`` with the new keys or values moved to directly after the used slots.

        ``joint`` is the name of a value with all slots of the cache, used and unused, followed by
        the new keys or values, along dimension 2. Returns the name of the result, which has the
        same shape; the next run expects it as its cache.
        """
        places = np.arange(self.slots + self.new)
        behind = call.op("Sub", call.write.constant(places + self.slots), self.valid)
        last = call.write.constant(np.array(len(places) - 1, np.int64))
        is_used = call.op("Less", call.write.constant(places), self.valid)
        source = call.op("Where", is_used, call.write.constant(places), behind)
        source = call.op("Unsqueeze", call.op("Min", source, last), call.write.integers(1, 3))
        shape = call.write.integers(*call.shape_of(joint))
        return call.op("GatherElements", joint, call.op("Expand", source, shape), axis=2)


def _grouped(call: Call) -> None:
    """Emit GroupQueryAttention, a causal attention.

    Padding rows of shorter sequences are computed like all other rows.
    """
    query, key, value = _grouped_heads(call)
    past = _Past.of(call, call.shape_of(query)[2])
    if call.attribute("do_rotary", 0):
        query, key = (_turned_by_position(call, x, past) for x in (query, key))
    present = [key, value]
    if past is not None:
        key = call.op("Concat", call.find(3), key, axis=2)
        value = call.op("Concat", call.find(4), value, axis=2)
        joint = enumerate((key, value), start=1)
        present = [past.present(call, x) if call.uses(number) else x for number, x in joint]
    call.finish(present[0], 1)
    call.finish(present[1], 2)
    call.finish(joined(call, _grouped_result(call, (query, key, value), past)))


def _grouped_heads(call: Call) -> tuple[str, str, str]:
    heads, groups = call.required("num_heads"), call.required("kv_num_heads")
    call.expect(heads % groups == 0, f"kv_num_heads to divide {heads}", groups)
    query, key, value = (call.find(number) for number in range(3))
    if not key:
        size = call.shape(0)[-1] // (heads + 2 * groups)
        query, key, value = parts(call, query, [heads * size, groups * size, groups * size])
    return (
        split_heads(call, query, heads),
        split_heads(call, key, groups),
        split_heads(call, value, groups),
    )


def _turned_by_position(call: Call, value: str, past: _Past | None) -> str:
    batch, _, length, _ = call.shape_of(value)
    places = call.find(9)
    if not places:
        places = past.positions(call) if past else positions_from(call, 0, batch, length)
    is_interleaved = bool(call.attribute("rotary_interleaved", 0))
    return rotated(call, value, (places, call.find(7), call.find(8)), is_interleaved)


def _grouped_result(call: Call, operands: tuple[str, str, str], past: _Past | None) -> str:
    query, key, value = operands
    batch, heads, length, size = call.shape_of(query)
    groups = call.shape_of(key)[1]
    shared = call.reshape(query, batch, groups, heads // groups, length, size)
    key, value = (call.op("Unsqueeze", x, call.write.integers(2)) for x in (key, value))
    window = call.attribute("local_window_size", -1)
    kept = _causal(call, length, window) if past is None else past.visible(call, window)
    masks = [call.find(10)]
    if masks[0]:
        sizes = np.broadcast_shapes(call.shape(10), (1, 1, 1, 1))
        groups_of_mask = (1, 1) if sizes[1] == 1 else (groups, heads // groups)
        masks = [call.reshape(masks[0], sizes[0], *groups_of_mask, *sizes[2:])]
    scale = call.attribute("scale", 0.0) or 1 / sqrt(size)
    cap = call.attribute("softcap", 0.0)
    found = attended(call, (shared, key, value), scale, masks, kept, cap)
    return call.reshape(found, batch, heads, length, call.shape_of(value)[-1])


def _causal(call: Call, length: int, window: int) -> NDArray[np.bool_]:
    kept = causal_mask(call, length, length, 0)
    if window >= 0:
        kept &= ~np.tri(length, k=-window, dtype=np.bool_)
    return kept


RULES = {
    "GroupQueryAttention": Rule(
        _grouped,
        "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? "
        "sin_cache? position_ids? attention_bias? head_sink! k_scale! v_scale! q_norm_weight! "
        "k_norm_weight!",
        "output present_key present_value output_qk!",
        "num_heads kv_num_heads do_rotary rotary_interleaved local_window_size scale softcap "
        "qk_norm_epsilon",
        {
            "causal": 1,
            "kv_cache_bit_width": 0,
            "qk_output": 0,
            "sliding_window_cache": 0,
            "smooth_softmax": 0,
        },
    ),
}
