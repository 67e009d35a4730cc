"""Expands operators that ONNX defines as functions of other operators.

Only operators that the compiler can lower in no other way are expanded: they have no builder (a
function that emits linalg operations for a node), and torch-mlir cannot import them. ONNX's inliner
is unsuitable: it fails for omitted optional inputs, and loses default values of some attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_copier import copy_function
from rammer_mlir.frontends.onnx.shapes import infer_shapes
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label, opset, value_infos

INLINED = frozenset(
    {
        "AffineGrid",
        "Attention",
        "CausalConvWithState",
        "CenterCropPad",
        "LinearAttention",
        "NegativeLogLikelihoodLoss",
        "RotaryEmbedding",
        "SequenceMap",
        "SoftmaxCrossEntropyLoss",
        "SwiGLU",
    }
)
"""Operators that are expanded by the functions with which ONNX defines them."""

PREVIEW_DOMAIN = "ai.onnx.preview"

INLINED_PREVIEWS = frozenset({"FlexAttention"})
"""Operators of ONNX's preview domain that are expanded likewise."""

_MOST_ROUNDS = 4
"""Greatest nesting depth of ONNX's definitions."""


def has_inlined(model: Model) -> bool:
    """Whether a model has nodes that ``inline_functions`` expands."""
    return any(_is_inlined(node) for node in model.graph.node)


def inline_functions(model: Model) -> Model:
    """Return the model with the operators in the tables INLINED and INLINED_PREVIEWS expanded.

    Each of these operators is replaced by the nodes of the function with which ONNX defines it. The
    model's shapes must be inferred.

    Raises:
        UnsupportedError: if ONNX does not define an operator for its inputs and attributes.
    """
    for _ in range(_MOST_ROUNDS):
        if not has_inlined(model):
            return model
        types = _types(model.graph)
        version = opset(model.proto)
        nodes: list[onnx.NodeProto] = []
        for node in model.graph.node:
            nodes.extend(_expand(node, version, types) if _is_inlined(node) else [node])
        model.set_nodes(nodes)
        model = model.with_proto(infer_shapes(model.proto))
    return model


def is_inlined_preview(node: onnx.NodeProto) -> bool:
    """Whether a node is of ONNX's preview domain and ``inline_functions`` expands it."""
    return node.domain == PREVIEW_DOMAIN and node.op_type in INLINED_PREVIEWS


def _is_inlined(node: onnx.NodeProto) -> bool:
    return is_inlined_preview(node) or (node.domain in ONNX_DOMAINS and node.op_type in INLINED)


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    types = {name: value.type for name, value in value_infos(graph).items()}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return types


def _expand(
    node: onnx.NodeProto, version: int, types: Mapping[str, onnx.TypeProto]
) -> list[onnx.NodeProto]:
    is_preview = node.domain == PREVIEW_DOMAIN
    schema = onnx.defs.get_schema(node.op_type, 1 if is_preview else version, node.domain)
    definition = _definition(schema, node, version, types)
    if definition is None:
        raise UnsupportedError(
            f"{label(node)}: expected inputs and attributes that ONNX defines it for, found others"
        )
    attributes = {name: a.default_value for name, a in schema.attributes.items()}
    attributes = {name: value for name, value in attributes.items() if value.name}
    attributes.update((attribute.name, attribute) for attribute in definition.attribute_proto)
    return list(copy_function(definition, node, attributes, f"{node.name}/"))


def _definition(
    schema: Any,  # an onnx.defs.OpSchema, whose stub is incomplete
    node: onnx.NodeProto,
    version: int,
    types: Mapping[str, onnx.TypeProto],
) -> onnx.FunctionProto | None:
    """Return the function with which ONNX defines a node's operator; None if there is none.

    If there are several functions, the result is the newest that opset ``version`` allows.

    Args:
        schema: the operator's schema, which has the functions.
        node: the node.
        version: version of the model's opset.
        types: types of values by name; a function may depend on the types of the node's inputs.
    """
    plain = [v for v in schema.function_opset_versions if v <= version]
    typed = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    content = b""
    if plain and max(plain) >= max(typed, default=0):
        content = schema.get_function_with_opset_version(max(plain))
    if not content and typed:
        inputs = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        content = schema.get_context_dependent_function_with_opset_version(
            max(typed), node.SerializeToString(), inputs
        )
    return onnx.FunctionProto.FromString(content) if content else None
