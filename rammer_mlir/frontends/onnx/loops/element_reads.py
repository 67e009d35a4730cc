"""Finds nodes of a loop's body that read slice ``i`` of a tensor in iteration ``i``.

Such a slice along an axis is called an element of the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.frontends.onnx.loops.bodies import Body

_WIDE_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
"""ONNX element types that can represent each iteration number."""


@dataclass(frozen=True)
class ElementRead:
    """A node of a loop's body that reads slice ``i`` of a tensor in iteration ``i``.

    Attributes:
        node: the node; its result is the slice.
        value: name of the tensor, which is computed outside of the loop.
        axis: axis of the tensor that the iteration number indexes.
        keeps_axis: whether the slice keeps this axis, with size 1.
    """

    node: onnx.NodeProto
    value: str
    axis: int
    keeps_axis: bool


def find_element_reads(body: Body, number: str, steps: int) -> list[ElementRead]:
    """Return the nodes that read slice ``i`` of a tensor in iteration ``i``, always in bounds.

    Args:
        body: body of the loop.
        number: name of the iteration number in the body.
        steps: trip count of the loop.
    """
    found: list[ElementRead] = []
    for node in body.graph.node:
        read = _element_read(body, node, number)
        if read is not None:
            shape = body.captured(read.value)
            if shape is not None and shape[read.axis] >= steps:
                found.append(read)
    return found


def _element_read(body: Body, node: onnx.NodeProto, number: str) -> ElementRead | None:
    if node.op_type == "Gather" and _before_casts(body, node.input[1]) == number:
        value = _whole(body, node.input[0])
        shape = body.captured(value)
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        return None if not shape else ElementRead(node, value, axis % len(shape), False)
    if node.op_type == "Slice" and len(node.input) >= 4:
        return _slice_of_one(body, node, number)
    return None


def _slice_of_one(body: Body, node: onnx.NodeProto, number: str) -> ElementRead | None:
    """Return an ElementRead for a Slice node that reads ``[number, number + 1)`` along one axis.

    Return None for other nodes. ``number`` is the name of the iteration number.
    """
    value = _whole(body, node.input[0])
    shape, axes = body.captured(value), body.constant(node.input[3])
    stride = body.constant(node.input[4]) if len(node.input) > 4 and node.input[4] else None
    if not shape or axes is None or axes.size != 1 or (stride is not None and stride.item() != 1):
        return None
    begin, end = (_scalar(body, name) for name in node.input[1:3])
    if begin != number or not _is_next(body, end, number):
        return None
    return ElementRead(node, value, int(axes.item()) % len(shape), True)


def _scalar(body: Body, name: str) -> str:
    """Return the name of the scalar from which the vector ``name`` of one element is made.

    An Unsqueeze or Reshape makes the vector from the scalar. Identity nodes and casts to int32 or
    int64 before and after this node are skipped. If there is no Unsqueeze or Reshape, the value
    before those Identity nodes and casts is returned.
    """
    name = _before_casts(body, name)
    node = body.producers.get(name)
    is_list = node is not None and node.op_type in ("Unsqueeze", "Reshape")
    return _before_casts(body, node.input[0]) if node is not None and is_list else name


def _before_casts(body: Body, name: str) -> str:
    """Return the name of the value that Identity and Cast nodes copy to the value ``name``.

    Only casts to int32 and int64 are followed. Return ``name`` itself if no such node computes it.
    """
    while True:
        name = body.behind(name)
        node = body.producers.get(name)
        if node is None or node.op_type != "Cast" or node.attribute[0].i not in _WIDE_INTEGERS:
            return name
        name = node.input[0]


def _is_next(body: Body, name: str, number: str) -> bool:
    node = body.producers.get(name)
    if node is None or node.op_type != "Add":
        return False
    terms = [_before_casts(body, term) for term in node.input]
    others = [term for term in terms if term != number]
    one = body.constant(others[0]) if len(others) == 1 else None
    return one is not None and one.size == 1 and one.item() == 1


def _whole(body: Body, name: str) -> str:
    """Return the name of the value that Identity nodes and whole slices copy to the value ``name``.

    A whole slice keeps all elements, as PyTorch's ``x[:]``. Return ``name`` itself if it is not a
    copy.
    """
    while (node := body.producers.get(name)) is not None and (
        node.op_type == "Identity" or _takes_all(body, node)
    ):
        name = node.input[0]
    return name


def _takes_all(body: Body, node: onnx.NodeProto) -> bool:
    if node.op_type != "Slice" or "" in node.input:
        return False
    bounds = [body.constant(name) for name in node.input[1:]]
    shape = body.captured(_whole(body, node.input[0]))
    if shape is None or any(bound is None for bound in bounds):
        return False
    given = [[int(each) for each in bound.reshape(-1)] for bound in bounds if bound is not None]
    starts, ends, axes, steps = [*given, *[None] * (4 - len(given))]
    assert starts is not None and ends is not None
    return all(
        start == 0 and end >= shape[axis] and step == 1
        for start, end, axis, step in zip(
            starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
        )
    )
