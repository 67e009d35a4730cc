"""Checks nodes' attributes before ONNX's shape inference, which does not check them.

If an attribute is an axis or count that is too large for any tensor, shape inference would exhaust
memory or crash the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label
from rammer_mlir.frontends.onnx.traversal import nodes_within
from rammer_mlir.support.array_limits import MOST_DIMENSIONS

_AXES = frozenset(
    {"axes", "axis", "batch_axis", "batch_dims", "perm", "scan_input_axes", "scan_output_axes"}
    | {"time_axis"}
)
"""Names of the attributes that are indices or counts of dimensions."""

_PADDING = {"auto_pad": "NOTSET SAME_LOWER SAME_UPPER VALID"}
_DIRECTION = {"direction": "bidirectional forward reverse"}
_LOSS = {"reduction": "mean none sum"}
_SCATTER = {"reduction": "add max min mul none"}

_CHOICES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool"), _PADDING),
    **dict.fromkeys(("MaxPool", "QLinearConv"), _PADDING),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _DIRECTION),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _LOSS),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _SCATTER),
    "BitShift": {"direction": "LEFT RIGHT"},
    "DepthToSpace": {"mode": "CRD DCR"},
    "Gelu": {"approximate": "none tanh"},
    "GridSample": {
        "mode": "bicubic bilinear cubic linear nearest",
        "padding_mode": "border reflection zeros",
    },
    "Pad": {"mode": "constant edge reflect wrap"},
    "Resize": {
        "coordinate_transformation_mode": "align_corners asymmetric half_pixel "
        "half_pixel_symmetric pytorch_half_pixel tf_crop_and_resize tf_half_pixel_for_nn",
        "keep_aspect_ratio_policy": "not_larger not_smaller stretch",
        "mode": "cubic linear nearest",
        "nearest_mode": "ceil floor round_prefer_ceil round_prefer_floor",
    },
    "RoiAlign": {
        "coordinate_transformation_mode": "half_pixel output_half_pixel",
        "mode": "avg max",
    },
    "TensorScatter": {"mode": "circular linear"},
}
"""Allowed values of string attributes, separated by spaces, by operator and attribute name."""


def check_attributes(graph: onnx.GraphProto) -> None:
    """Check the attributes of all nodes of a graph, including nodes in nested subgraphs.

    Raises:
        ModelError: for the first node with an invalid attribute.
    """
    for node in nodes_within(graph.node):
        if node.domain in ONNX_DOMAINS:
            for problem in (*_axes(node), *_counts(node), *_choices(node)):
                raise ModelError(f"{label(node)} is not valid: {problem}")


def _axes(node: onnx.NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        if attribute.name in _AXES:
            for axis in (attribute.i, *attribute.ints):
                if not -MOST_DIMENSIONS <= axis <= MOST_DIMENSIONS:
                    yield (
                        f"{attribute.name}: expected numbers of dimensions, of which there are at "
                        f"most {MOST_DIMENSIONS}, found {axis}"
                    )


def _counts(node: onnx.NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        results = len(node.output)
        if (node.op_type, attribute.name) == ("Split", "num_outputs") and attribute.i != results:
            yield (
                f"num_outputs: expected {results}, the number of its results, found {attribute.i}; "
                f"set it to {results}, or give the node as many results"
            )
        given = len(node.input)
        if (node.op_type, attribute.name) == ("Scan", "num_scan_inputs") and not (
            1 <= attribute.i <= given
        ):
            yield f"num_scan_inputs: expected 1 to {given}, its inputs, found {attribute.i}"


def _choices(node: onnx.NodeProto) -> Iterator[str]:
    choices = _CHOICES.get(node.op_type, {})
    for attribute in node.attribute:
        known = choices.get(attribute.name, "").split()
        found = attribute.s.decode(errors="replace")
        if known and attribute.type == onnx.AttributeProto.STRING and found not in known:
            yield f"{attribute.name}: expected one of {', '.join(known)}, found '{found[:40]}'"
