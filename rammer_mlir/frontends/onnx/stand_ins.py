"""Nodes whose shapes ONNX's inference does not know, or gets wrong, as nodes of the same shapes.

They take the nodes' places during inference only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS


@contextmanager
def stand_ins(graph: onnx.GraphProto) -> Generator[Callable[[onnx.GraphProto], None]]:
    """Put stand-ins into a graph and take them out again.

    Yields a function that takes them out of a copy of the graph too.
    """
    originals: dict[int, onnx.NodeProto] = {}
    for number, node in enumerate(graph.node):
        stand_in = _STAND_INS.get(node.op_type)
        if stand_in is not None and node.domain in ONNX_DOMAINS:
            originals[number] = onnx.NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(stand_in(originals[number]))

    def restore(copy: onnx.GraphProto) -> None:
        for number, original in originals.items():
            copy.node[number].CopyFrom(original)

    try:
        yield restore
    finally:
        restore(graph)


def _like_input(node: onnx.NodeProto) -> onnx.NodeProto:
    return helper.make_node("Identity", node.input[:1], node.output, node.name)


def _max_unpool(node: onnx.NodeProto) -> onnx.NodeProto:
    """The size of the result may be an input; inference does not look at it."""
    if len(node.input) < 3 or not node.input[2]:
        return node
    return helper.make_node(
        "Resize", [node.input[0], "", "", node.input[2]], node.output, node.name
    )


def _stft(node: onnx.NodeProto) -> onnx.NodeProto:
    """Half of a symmetric spectrum is left out by default; inference knows another default."""
    if any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.attribute.append(helper.make_attribute("onesided", 1))
    return copy


_STAND_INS: dict[str, Callable[[onnx.NodeProto], onnx.NodeProto]] = {
    "GroupNormalization": _like_input,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": _like_input,
    "STFT": _stft,
}
