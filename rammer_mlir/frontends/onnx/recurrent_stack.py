"""Which recurrent layers stand on another one, and how their input products are then cut.

A layer's input projections are one matrix product over all steps, which starts when its whole input
is there. Where that input is what another layer makes step by step, a product for every few steps
lets the upper layer follow the lower one some steps behind, so that layers run side by side: the
wavefront of RAMMER's LSTM-TC.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

ROWS = 10
"""Rows of a product (steps times batch) from which on a weight that is read once is used enough."""

_SAME_ORDER = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that keep a sequence's elements, and so its steps, in order."""


def stands_on_layer(node: onnx.NodeProto, producers: Mapping[str, onnx.NodeProto]) -> bool:
    """Return whether a recurrent operator reads the steps of another one, made in its own order.

    Args:
        node: an LSTM, GRU or RNN.
        producers: the node that makes each value.
    """
    below = producers.get(node.input[0])
    while below is not None and below.op_type in _SAME_ORDER:
        below = producers.get(below.input[0])
    if below is None or below.op_type not in ("LSTM", "GRU", "RNN"):
        return False
    direction = _attribute(node, "direction", b"forward")
    return (
        direction != b"bidirectional"
        and direction == _attribute(below, "direction", b"forward")
        and not _attribute(node, "layout", 0)
        and not _attribute(below, "layout", 0)
    )


def _attribute(node: onnx.NodeProto, name: str, default: bytes | int) -> bytes | int:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def step_ranges(steps: int, batch: int, stands_on: bool) -> list[range]:
    """Return the steps of each product: all, or just enough of them for ``ROWS`` rows.

    Of several sizes one is taken that divides the steps, so that all products are equal.
    """
    if not stands_on:
        return [range(steps)]
    least = max(1, -(-ROWS // max(batch, 1)))
    size = next((n for n in range(least, 2 * least) if steps % n == 0), least)
    return [range(first, min(first + size, steps)) for first in range(0, steps, size)]
