"""Traverses a model's nodes and tensors, including subgraphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
_TENSOR, _TENSORS = onnx.AttributeProto.TENSOR, onnx.AttributeProto.TENSORS
_SPARSE_TENSOR = onnx.AttributeProto.SPARSE_TENSOR
_SPARSE_TENSORS = onnx.AttributeProto.SPARSE_TENSORS


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the subgraphs in a node's attributes, in the order of the attributes.

    Subgraphs nested in these subgraphs are not included.
    """
    for attribute in node.attribute:
        # ONNX's checker refuses attributes with fields of other types, which are slow to read.
        kind = attribute.type
        if kind == _GRAPH:
            yield attribute.g
        elif kind == _GRAPHS:
            yield from attribute.graphs


def nodes_within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield each node, followed by the nodes of its subgraphs at any depth."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nodes_within(graph.node)


def nodes_of_model(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes of a model: those of its graph, functions and subgraphs."""
    yield from nodes_within(proto.graph.node)
    for function in proto.functions:
        yield from nodes_within(function.node)


def tensors_of_model(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all constant tensors of a model: initializers, and tensors in attributes.

    The tensors of functions and of subgraphs are included.
    """
    yield from tensors_of_graph(proto.graph)
    for function in proto.functions:
        yield from tensors_of_nodes(function.node)


def tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the constant tensors of a graph: initializers, and tensors in its nodes' attributes.

    The tensors of subgraphs are included. A sparse tensor yields its values, then its indices.
    """
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from tensors_of_nodes(graph.node)


def tensors_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in the attributes of nodes, and all constant tensors of their subgraphs."""
    for node in nodes:
        for attribute in node.attribute:
            yield from _tensors_of_attribute(attribute)
        for graph in subgraphs(node):
            yield from tensors_of_graph(graph)


def _tensors_of_attribute(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    kind = attribute.type
    if kind == _TENSOR:
        yield attribute.t
    elif kind == _TENSORS:
        yield from attribute.tensors
    elif kind == _SPARSE_TENSOR:
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    elif kind == _SPARSE_TENSORS:
        for sparse in attribute.sparse_tensors:
            yield from (sparse.values, sparse.indices)
