"""Rejects invalid models that ONNX's checker accepts.

The checks cover strings that are not UTF-8, unknown element types, unknown operators, and
subgraphs with a wrong number of inputs or outputs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain

import onnx

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label, tensor_type
from rammer_mlir.frontends.onnx.traversal import nodes_of_model, subgraphs

_FAULTS = (
    ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""Exceptions that code may raise while it replaces a node with contradictory operands."""


@contextmanager
def naming(node: onnx.NodeProto) -> Generator[None]:
    """Convert internal exceptions of a ``with`` block to errors that name ``node``.

    The block contains code that replaces the node. The code may raise any exception of ``_FAULTS``
    if the node's inputs or attributes contradict each other.

    Raises:
        ModelError: in place of an exception of ``_FAULTS``.
    """
    try:
        yield
    except _FAULTS as error:
        raise ModelError(
            f"{label(node)} is not valid: expected inputs and attributes that fit each other, "
            f"found others ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        ) from error


def check_texts(proto: onnx.ModelProto, name: str) -> None:
    """Refuse names and string attributes that are not UTF-8, as ONNX requires.

    ``name`` is the model's name in messages.

    Raises:
        ModelError: for the first string that is not UTF-8.
    """
    for text in _names_of_model(proto):
        # protobuf returns invalid UTF-8 as bytes.
        if isinstance(text, bytes):
            raise ModelError(f"{name}: expected names in UTF-8, found {text[:40]!r}; rename it")
    for node in nodes_of_model(proto):
        # Attributes of other frameworks' operators, which are refused later, may be bytes.
        for attribute in () if is_unknown(node) else node.attribute:
            if attribute.type == onnx.AttributeProto.STRING:
                _require_utf8(attribute.s, node, attribute)
            elif attribute.type == onnx.AttributeProto.STRINGS:
                for content in attribute.strings:
                    _require_utf8(content, node, attribute)


def check_element_types(proto: onnx.ModelProto, name: str) -> None:
    """Refuse values whose declared element type is a code that ONNX does not define.

    ``name`` is the model's name in messages.

    Raises:
        ModelError: naming the first such value.
    """
    known = frozenset(onnx.TensorProto.DataType.values())
    nested = (graph for node in nodes_of_model(proto) for graph in subgraphs(node))
    for graph in chain((proto.graph,), nested):
        for value in (*graph.input, *graph.output, *graph.value_info):
            found = tensor_type(value.type).elem_type
            if found not in known:
                raise ModelError(
                    f"{name}: '{value.name}' has the unknown element type {found}: expected one "
                    "of ONNX's; export the model again"
                )


def is_unknown(node: onnx.NodeProto) -> bool:
    """Whether a node names an operator of the standard domain that no ONNX version has."""
    return node.domain in ONNX_DOMAINS and not onnx.defs.has(node.op_type)


def check_operators(proto: onnx.ModelProto) -> None:
    """Refuse operators of ONNX's domain that neither ONNX nor a function of the model defines.

    Call ``claim_contrib`` first: it moves the operators of ONNX Runtime out of ONNX's domain.

    Raises:
        ModelError: naming the first node with an unknown operator, all unknown operators, and the
            count of their nodes.
    """
    functions = {function.name for function in proto.functions if function.domain in ONNX_DOMAINS}
    unknown = [
        node for node in nodes_of_model(proto) if is_unknown(node) and node.op_type not in functions
    ]
    if unknown:
        kinds = ", ".join(sorted({node.op_type for node in unknown}))
        raise ModelError(
            f"{label(unknown[0])} is not valid: expected operators of ONNX, found {kinds} "
            f"({len(unknown)} nodes), which no version of ONNX has; the exporter left an operator "
            "of its framework in place: export the model without it"
        )


def check_subgraphs(proto: onnx.ModelProto) -> None:
    """Refuse If and Loop nodes whose subgraphs have a wrong number of inputs or outputs.

    Raises:
        ModelError: for the first such node.
    """
    for node in nodes_of_model(proto):
        if node.domain not in ONNX_DOMAINS or node.op_type not in ("If", "Loop"):
            continue
        inputs, outputs = _interface(node)
        for graph in subgraphs(node):
            found = len(graph.input), len(graph.output)
            if found[0] != inputs or found[1] < outputs:
                raise ModelError(
                    f"{label(node)} is not valid: expected a graph of {inputs} inputs and at least "
                    f"{outputs} outputs, found {found[0]} and {found[1]}; export the model again"
                )


def _interface(node: onnx.NodeProto) -> tuple[int, int]:
    """Return the input count and the least output count of an If's or Loop's subgraphs."""
    if node.op_type == "If":
        return 0, len(node.output)
    # The iteration number and the condition are inputs; the condition is an output.
    states = max(0, len(node.input) - 2)
    return 2 + states, 1 + max(states, len(node.output))


def _require_utf8(content: bytes, node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{label(node)}: attribute '{attribute.name}': expected text in UTF-8, found "
            f"{content[:40]!r}"
        ) from error


def _names_of_model(proto: onnx.ModelProto) -> Iterator[object]:
    yield from (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string)
    for entry in (*proto.metadata_props, *proto.graph.metadata_props):
        yield from (entry.key, entry.value)
    yield from (opset.domain for opset in proto.opset_import)
    yield from _names_of_graph(proto.graph)
    for function in proto.functions:
        yield from (function.domain, function.name, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from (attribute.name for attribute in function.attribute_proto)
        yield from _names_of_nodes(function.node)


def _names_of_graph(graph: onnx.GraphProto) -> Iterator[object]:
    yield from (graph.name, graph.doc_string)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from _names_of_nodes(graph.node)


def _names_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t.name
        for graph in subgraphs(node):
            yield from _names_of_graph(graph)
