"""Replaces contrib operators by ONNX operators, in one pass over the graph."""

from __future__ import annotations

from collections.abc import MutableMapping

import onnx
from onnx import helper

from rammer_mlir.errors import ModelError, ShapeError
from rammer_mlir.frontends.onnx.contrib.call import (
    CONTRIB_DOMAIN,
    Call,
    TypedWriter,
    contrib_label,
)
from rammer_mlir.frontends.onnx.contrib.table import has_rule, rule_of
from rammer_mlir.frontends.onnx.folding.types import TensorKind, graph_types, infer_node
from rammer_mlir.frontends.onnx.model import Model, used_names
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, opset
from rammer_mlir.frontends.onnx.traversal import nodes_within

_LAYER_NORMALIZATION = 17
"""The first opset of ONNX with LayerNormalization."""

_REWRITE_FAULTS = (
    ArithmeticError, LookupError, TypeError, ValueError, onnx.checker.ValidationError
)  # fmt: skip
"""Exceptions that a rule may raise for a node with contradictory inputs and attributes."""


def claim_contrib(proto: onnx.ModelProto) -> None:
    """Move ONNX Runtime's operators that are in ONNX's domain to ONNX Runtime's domain, in place.

    ONNX Runtime's optimizer gives some of its operators ONNX's domain: SimplifiedLayerNormalization
    and, in opsets before 17, LayerNormalization.
    """
    names = {"SimplifiedLayerNormalization"}
    if opset(proto) < _LAYER_NORMALIZATION:
        names.add("LayerNormalization")
    found = False
    for node in nodes_within(proto.graph.node):
        if node.domain in ONNX_DOMAINS and node.op_type in names:
            node.domain, found = CONTRIB_DOMAIN, True
    if found and all(known.domain != CONTRIB_DOMAIN for known in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(CONTRIB_DOMAIN, 1))


def rewrite_contrib(model: Model) -> bool:
    """Replace each contrib node with static input shapes by ONNX nodes, in place.

    Returns whether a node was replaced.

    Raises:
        ModelError: if a node's inputs and attributes contradict each other.
        UnsupportedError: if the operator's rule does not support an input or attribute of a node.
    """
    if not any(map(has_rule, model.graph.node)):
        return False
    values, kinds = model.constants(), graph_types(model.graph)
    version, used = opset(model.proto), used_names(model.graph)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if has_rule(node) and all(name in kinds and kinds[name].is_static for name in _given(node)):
            nodes.extend(_written_out(node, model, kinds, values, used))
            continue
        kinds.update(infer_node(node, version, kinds, values))
        nodes.append(node)
    before = sum(map(has_rule, model.graph.node))
    is_changed = sum(map(has_rule, nodes)) < before
    model.set_nodes(nodes)
    return is_changed


def _given(node: onnx.NodeProto) -> list[str]:
    return [name for name in node.input if name]


def _written_out(
    node: onnx.NodeProto,
    model: Model,
    kinds: dict[str, TensorKind],
    values: MutableMapping[str, Array],
    used: set[str],
) -> list[onnx.NodeProto]:
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.output[:] = [name if name in used else "" for name in node.output]
    call = Call(copy, kinds, values, TypedWriter(model, node.name, kinds, values))
    rule = rule_of(node)
    rule.check(call)
    try:
        rule.rewrite(call)
    except _REWRITE_FAULTS as error:
        raise ModelError(
            f"{contrib_label(node)} is not valid: expected inputs and attributes that fit each "
            "other, found others"
        ) from error
    return call.write.nodes


def require_rewritten(graph: onnx.GraphProto) -> None:
    """Raise an error if a graph still has a contrib node.

    Raises:
        ShapeError: for the first contrib node; the message names an input of unknown shape.
    """
    left = [node for node in graph.node if has_rule(node)]
    kinds = graph_types(graph) if left else {}
    for node in left:
        open_names = [n for n in _given(node) if n not in kinds or not kinds[n].is_static]
        raise ShapeError(
            f"{contrib_label(node)}: expected inputs of static shapes, found "
            f"'{open_names[0] if open_names else ''}', whose shape depends on data"
        )
