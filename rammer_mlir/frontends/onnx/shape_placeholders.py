"""Replaces nodes whose shapes ONNX's inference cannot infer, or infers wrongly, by placeholders.

The placeholders have results of the right shapes, and are in the model only during inference.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, opset

_DOMAIN = "rammer.stand_ins"
_RIGHT_POOLS = 22
"""The first opset whose inference correctly skips windows that would begin after the data."""

_NONE = onnx.AttributeProto()
"""Stands for an attribute that a node does not have."""

_END = 2**62
"""An end of a slice beyond every axis."""


@contextmanager
def stand_ins(model: onnx.ModelProto) -> Generator[Callable[[onnx.ModelProto], None]]:
    """Return a context in which placeholders replace the nodes that shape inference cannot handle.

    Placeholders have results of the right shapes. The context yields a function that restores the
    original nodes in a copy of the model; the model itself is restored at the end of the context.
    """
    originals: dict[int, onnx.NodeProto] = {}
    version, own_functions = opset(model), len(model.functions)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for number, node in enumerate(model.graph.node):
        if node.domain not in ONNX_DOMAINS:
            continue
        sizes = _sizes_with_zeros(node, constants)
        if node.op_type not in _STAND_INS and sizes is None:
            continue
        original = onnx.NodeProto.FromString(node.SerializeToString())
        if sizes is not None:
            found = _empty_resize(original, sizes, version)
        else:
            found = _STAND_INS[node.op_type](original, version)
        originals[number] = original
        if isinstance(found, onnx.FunctionProto):
            found = _call(found, original, number, model)
        node.CopyFrom(found)
    if len(model.functions) > own_functions:
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))

    def restore(copy: onnx.ModelProto) -> None:
        for number, original in originals.items():
            copy.graph.node[number].CopyFrom(original)
        if len(copy.functions) > own_functions:
            del copy.functions[own_functions:]
            copy.opset_import.pop()

    try:
        yield restore
    finally:
        restore(model)


def has_stand_in(node: onnx.NodeProto) -> bool:
    """Return whether ``stand_ins`` may replace nodes of this operator by placeholders.

    A Resize does not count, although a Resize with an empty result gets a placeholder too.
    """
    return node.op_type in _STAND_INS and node.domain in ONNX_DOMAINS


def _call(
    function: onnx.FunctionProto, node: onnx.NodeProto, number: int, model: onnx.ModelProto
) -> onnx.NodeProto:
    """Add the placeholder ``function`` of a node to the functions of ``model``; return its call.

    The call has the inputs and outputs of ``node``. ``number``, the position of the node in the
    graph, makes the function's name unique.
    """
    function.name = f"{node.op_type}_{number}"
    model.functions.append(function)
    return helper.make_node(function.name, node.input, node.output, node.name, domain=_DOMAIN)


def _function(node: onnx.NodeProto, body: list[onnx.NodeProto], version: int) -> onnx.FunctionProto:
    """Return a function with the nodes ``body``, and with the inputs and outputs of ``node``.

    ``version`` is the opset of ``body``.
    """
    imports = [helper.make_opsetid("", version)]
    return helper.make_function(_DOMAIN, node.op_type, node.input, node.output, body, imports)


def _like_input(node: onnx.NodeProto, _version: int) -> onnx.NodeProto:
    return helper.make_node("Identity", node.input[:1], node.output, node.name)


def _gather_nd(node: onnx.NodeProto, version: int) -> onnx.FunctionProto:
    """Return the function Squeeze(GatherND(Unsqueeze(data))), a placeholder for a GatherND.

    If the result of a GatherND is a scalar, shape inference does not infer its shape.
    """
    wide, found = f"{node.output[0]}:wide", f"{node.output[0]}:found"
    body = [
        helper.make_node("Constant", [], ["last"], value_ints=[-1]),
        helper.make_node("Unsqueeze", [node.input[0], "last"], [wide]),
        helper.make_node("GatherND", [wide, node.input[1]], [found], node.name),
        helper.make_node("Squeeze", [found, "last"], node.output),
    ]
    body[2].attribute.extend(node.attribute)
    return _function(node, body, version)


def _max_unpool(node: onnx.NodeProto, _version: int) -> onnx.NodeProto:
    """Return a placeholder for a MaxUnpool: a Resize to the sizes in its input ``output_shape``.

    Shape inference ignores this input of MaxUnpool. A node without the input is returned unchanged.
    """
    if len(node.input) < 3 or not node.input[2]:
        return node
    return helper.make_node(
        "Resize", [node.input[0], "", "", node.input[2]], node.output, node.name
    )


def _sizes_with_zeros(
    node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]
) -> list[int] | None:
    """Return the sizes of a Resize's result if they are constant and one is zero, else None.

    ``constants`` has the constant tensors by name. The result is None for other operators too.
    """
    if node.op_type != "Resize" or len(node.input) < 4 or node.input[3] not in constants:
        return None
    sizes = numpy_helper.to_array(constants[node.input[3]]).reshape(-1).tolist()
    return sizes if 0 in sizes else None


def _empty_resize(node: onnx.NodeProto, sizes: list[int], version: int) -> onnx.FunctionProto:
    """Return a placeholder for a Resize whose result has a dimension of size 0.

    Shape inference cannot handle such a Resize. The placeholder is a function that resizes each
    empty dimension to size 1 and then slices it to size 0. ``sizes`` are the sizes of the result.
    """
    axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), range(len(sizes)))
    empty = [axis for axis, size in zip(axes, sizes, strict=False) if size == 0]
    some = f"{node.output[0]}:some"
    resized = onnx.NodeProto.FromString(node.SerializeToString())
    resized.input[3], resized.output[0] = "sizes", some
    body = [
        helper.make_node("Constant", [], ["sizes"], value_ints=[max(size, 1) for size in sizes]),
        resized,
        helper.make_node("Constant", [], ["zeros"], value_ints=[0] * len(empty)),
        helper.make_node("Constant", [], ["axes"], value_ints=empty),
        helper.make_node("Slice", [some, "zeros", "zeros", "axes"], node.output),
    ]
    return _function(node, body, version)


def _eye_like(node: onnx.NodeProto, _version: int) -> onnx.NodeProto:
    """Return a placeholder for an EyeLike: a Cast to its attribute ``dtype``.

    If the node omits the attribute, the placeholder is an Identity. Shape inference crashes if the
    type of EyeLike's input is unknown.
    """
    for attribute in node.attribute:
        if attribute.name == "dtype":
            return helper.make_node("Cast", node.input[:1], node.output, node.name, to=attribute.i)
    return _like_input(node, _version)


def _pool(node: onnx.NodeProto, _version: int) -> onnx.NodeProto | onnx.FunctionProto:
    """Return a placeholder for a pooling node that rounds its result size up (``ceil_mode``).

    Shape inference of such a node has three errors:

    - If the data is smaller than a window, it counts one window instead of none, because it rounds
      a negative quotient toward zero. The placeholder avoids the negative quotient: it adds padding
      before the data, pools, and slices off the windows that the padding adds.
    - In opsets before 22, it counts windows that begin after the data. The placeholder is a
      function of opset 22.
    - With the padding ``SAME_UPPER`` or ``SAME_LOWER``, the result size is the data's size divided
      by the stride, rounded up. If the stride exceeds the window, shape inference counts a window
      too many. The placeholder has no ``ceil_mode``: this padding completes the last window.
    """
    if any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in node.attribute):
        return _without(node, ("ceil_mode",), node.output)
    added = _added_windows(node)
    if added is None:
        return node
    pads, windows = added
    pooled = [name and f"{name}:shifted" for name in node.output]
    shifted = _without(node, ("auto_pad", "pads"), pooled)
    shifted.attribute.append(helper.make_attribute("pads", pads))
    axes = list(range(2, 2 + len(pads) // 2))
    body = [
        helper.make_node("Constant", [], ["axes"], value_ints=axes),
        helper.make_node("Constant", [], ["starts"], value_ints=windows),
        helper.make_node("Constant", [], ["ends"], value_ints=[_END] * len(axes)),
        shifted,
    ]
    for long, name in zip(pooled, node.output, strict=True):
        if name:
            body.append(helper.make_node("Slice", [long, "starts", "ends", "axes"], [name]))
    return _function(node, body, _RIGHT_POOLS)


def _without(
    node: onnx.NodeProto, attributes: Sequence[str], outputs: Sequence[str]
) -> onnx.NodeProto:
    """Return a copy of ``node`` without the attributes ``attributes``.

    The results of the copy are named ``outputs``.
    """
    copy = onnx.NodeProto(op_type=node.op_type, input=node.input, output=outputs)
    copy.attribute.extend(a for a in node.attribute if a.name not in attributes)
    return copy


def _added_windows(node: onnx.NodeProto) -> tuple[list[int], list[int]] | None:
    """Return enlarged paddings of a pooling node, and the count of windows that they add.

    The paddings have the order of the attribute ``pads``: the widths before the data in all
    dimensions, then the widths after the data. Only the widths before the data are enlarged, by a
    multiple of the stride that is at least the extent of the window. The second result has the
    count of added windows for each dimension. Returns None if the node does not have ``ceil_mode``,
    or if its attributes contradict each other.
    """
    attributes = {attribute.name: attribute for attribute in node.attribute}
    is_rounded_up = "ceil_mode" in attributes and attributes["ceil_mode"].i
    if not is_rounded_up:
        return None
    kernel = list(attributes.get("kernel_shape", _NONE).ints)
    rank = len(kernel)
    strides = list(attributes.get("strides", _NONE).ints) or [1] * rank
    dilations = list(attributes.get("dilations", _NONE).ints) or [1] * rank
    pads = list(attributes.get("pads", _NONE).ints) or [0] * 2 * rank
    if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        return None
    if min([*strides, *kernel, *dilations], default=1) < 1:
        return None
    windows = [
        -(-((size - 1) * dilation + 1) // stride)
        for size, dilation, stride in zip(kernel, dilations, strides, strict=True)
    ]
    more = [count * stride for count, stride in zip(windows, strides, strict=True)]
    return [pad + extra for pad, extra in zip(pads, more + [0] * rank, strict=True)], windows


def _stft(node: onnx.NodeProto, _version: int) -> onnx.NodeProto:
    """Return an STFT with an explicit attribute ``onesided``.

    If ``node`` omits the attribute, the result is a copy with the operator's default value, because
    shape inference assumes a different default.
    """
    if any(attribute.name == "onesided" for attribute in node.attribute):
        return node
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.attribute.append(helper.make_attribute("onesided", 1))
    return copy


_STAND_INS: dict[str, Callable[[onnx.NodeProto, int], onnx.NodeProto | onnx.FunctionProto]] = {
    "AveragePool": _pool,
    "EyeLike": _eye_like,
    "GatherND": _gather_nd,
    "GroupNormalization": _like_input,
    "LpPool": _pool,
    "MaxPool": _pool,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": _like_input,
    "STFT": _stft,
}
