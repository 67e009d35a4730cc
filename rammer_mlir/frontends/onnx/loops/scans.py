"""Reads and replaces the sources of Scans: the tensors of which each iteration reads a slice."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.loops.bodies import body_of
from rammer_mlir.frontends.onnx.model import names_used_by, set_graph_nodes
from rammer_mlir.programs.host_program import Source

_OF_SOURCES = ("num_scan_inputs", "scan_input_axes", "scan_input_directions")


def sources_of(node: onnx.NodeProto) -> list[tuple[Source, str]]:
    """Return each source of a Scan, with the name of its slice in the Scan's body.

    A source is a tensor with an axis and a direction. Each iteration reads the next slice along the
    axis, forwards or backwards. The slice is an input of the body.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name != "body"}
    count = int(given["num_scan_inputs"])
    axes = given.get("scan_input_axes", [0] * count)
    directions = given.get("scan_input_directions", [0] * count)
    elements = [value.name for value in body_of(node).input[-count:]]
    sources = map(Source, node.input[-count:], axes, map(bool, directions))
    return list(zip(sources, elements, strict=True))


def set_sources(
    node: onnx.NodeProto, num_states: int, sources: Mapping[Source, onnx.ValueInfoProto]
) -> None:
    """Replace the sources of a Scan, in place.

    Args:
        node: the Scan.
        num_states: number of loop-carried states; in the Scan's inputs, the states precede the
            sources.
        sources: the new sources, that is, the tensors of which each iteration reads a slice. Each
            has the declaration of its slice as an input of the body.
    """
    graph = body_of(node)
    del node.input[num_states:], graph.input[num_states:]
    node.input.extend(source.value for source in sources)
    graph.input.extend(sources.values())
    kept = [attribute for attribute in node.attribute if attribute.name not in _OF_SOURCES]
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
    given = (
        len(sources),
        [source.axis for source in sources],
        [int(source.is_reversed) for source in sources],
    )
    for name, value in zip(_OF_SOURCES, given, strict=True):
        node.attribute.append(helper.make_attribute(name, value))


def drop_dead(graph: onnx.GraphProto) -> None:
    """Remove the unused nodes and initializers of a graph, in place."""
    used = {value.name for value in graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if not used.isdisjoint(node.output):
            used |= names_used_by([node])
            kept.append(node)
    set_graph_nodes(graph, reversed(kept))
    constants = [tensor for tensor in graph.initializer if tensor.name in used]
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in constants]
    del graph.initializer[:]
    graph.initializer.extend(copies)
