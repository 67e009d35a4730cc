"""Excludes nodes from ONNX's opset conversion by moving them to a domain unknown to ONNX."""

from __future__ import annotations

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS
from rammer_mlir.frontends.onnx.traversal import nodes_within

ASIDE = "rammer.aside"


def import_excluded_domain(proto: onnx.ModelProto) -> None:
    """Import ``ASIDE``, the domain of nodes excluded from opset conversion, into a model."""
    if all(opset.domain != ASIDE for opset in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(ASIDE, 1))


def exclude_eye_like(model: Model) -> None:
    """Exclude EyeLike nodes from opset conversion if the model has nodes outside of ONNX's domain.

    The results of those nodes have no type, and the converter crashes in type inference if an
    EyeLike reads a value without a type. Conversion would not change EyeLike, which all opsets
    define equally.
    """
    nodes = list(nodes_within(model.graph.node))
    if all(node.domain in ONNX_DOMAINS for node in nodes):
        return
    eyes = [node for node in nodes if node.op_type == "EyeLike" and node.domain in ONNX_DOMAINS]
    for node in eyes:
        node.domain = ASIDE
    if eyes:
        import_excluded_domain(model.proto)


def restore_excluded(proto: onnx.ModelProto) -> None:
    """Move the nodes that were excluded from opset conversion back to ONNX's domain."""
    for node in nodes_within(proto.graph.node):
        if node.domain == ASIDE:
            node.domain = ""
