"""Rewrites Scans of opset 8, which run once per sequence of a batch, as nested Scans."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import helper

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.conversion_exclusions import ASIDE, import_excluded_domain
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_names import Prefixes
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label, opset
from rammer_mlir.frontends.onnx.traversal import nodes_within, subgraphs

_WITHOUT_BATCH = 9
"""The first opset in which Scan has no batch dimension."""


def set_batches_aside(model: Model) -> None:
    """Rewrite the Scans of a model of opset 8 as nested Scans, in place.

    The outer Scan iterates over the batch, the inner over a sequence. The Scans are excluded from
    opset conversion: ONNX's converter would only remove the batch dimension from the inputs, which
    is wrong.

    Raises:
        UnsupportedError: if a Scan has an operand ``sequence_lens``.
    """
    if opset(model.proto) >= _WITHOUT_BATCH:
        return
    if any(map(_is_scan, nodes_within(model.graph.node))):
        _rewrite(model.graph, Prefixes(model.graph))
        import_excluded_domain(model.proto)


def _rewrite(graph: onnx.GraphProto, prefixes: Prefixes) -> None:
    for node in graph.node:
        for subgraph in subgraphs(node):
            _rewrite(subgraph, prefixes)
        if _is_scan(node):
            _require_no_lengths(node)
            node.CopyFrom(_over_batch(node, prefixes.unused(node.output[0])))


def _require_no_lengths(node: onnx.NodeProto) -> None:
    if node.input[0]:
        raise UnsupportedError(
            f"{label(node)}: expected no sequence_lens, which Scan has in opset 8 alone, found "
            f"'{node.input[0]}': export the model with opset 9 or newer"
        )


def _is_scan(node: onnx.NodeProto) -> bool:
    return node.op_type == "Scan" and node.domain in ONNX_DOMAINS


def _over_batch(node: onnx.NodeProto, prefix: str) -> onnx.NodeProto:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    given, body = node.input[1:], attributes["body"]
    sequences = int(attributes["num_scan_inputs"])
    inputs = [f"{prefix}/one/{number}" for number in range(len(given))]
    outputs = [f"{prefix}/of_one/{number}" for number in range(len(body.output))]
    directions = attributes.get("directions", [0] * sequences)
    one = helper.make_node(
        "Scan",
        inputs,
        outputs,
        f"{node.name}/one",
        domain=ASIDE,
        body=body,
        num_scan_inputs=sequences,
        scan_input_directions=directions,
    )
    graph = helper.make_graph(
        [one], f"{node.name}/batch", _typed(inputs, body.input), _typed(outputs, body.output)
    )
    return helper.make_node(
        "Scan", given, node.output, node.name, domain=ASIDE, body=graph, num_scan_inputs=len(given)
    )


def _typed(
    names: Iterable[str], values: Iterable[onnx.ValueInfoProto]
) -> list[onnx.ValueInfoProto]:
    """Return a declaration without a shape for each of ``names``.

    The declaration of a name has the element type of the value at the same position in ``values``.
    """
    return [
        helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, None)
        for name, value in zip(names, values, strict=True)
    ]
