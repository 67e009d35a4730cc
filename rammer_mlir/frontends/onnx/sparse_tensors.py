"""Replaces sparse tensors of a model, initializers and Constants, by dense ones."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.errors import ModelError
from rammer_mlir.frontends.onnx.limits import MOST_FOLDED
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS
from rammer_mlir.frontends.onnx.traversal import nodes_within, subgraphs

_SPARSE = "sparse_value"


def write_dense(graph: onnx.GraphProto, name: str) -> None:
    """Replace the sparse tensors of a graph and of its nested subgraphs, in place.

    ``name`` is the model's name for messages.

    Raises:
        ModelError: if a sparse tensor is not valid, or has too many elements.
    """
    nodes = list(nodes_within(graph.node))
    for each in (graph, *(inner for node in nodes for inner in subgraphs(node))):
        dense = [_dense(tensor, name) for tensor in each.sparse_initializer]
        each.initializer.extend(dense)
        del each.sparse_initializer[:]
    for node in nodes:
        if node.op_type == "Constant" and node.domain in ONNX_DOMAINS:
            for attribute in node.attribute:
                if attribute.name == _SPARSE:
                    value = helper.make_attribute("value", _dense(attribute.sparse_tensor, name))
                    attribute.CopyFrom(value)


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    """Return a dense tensor with the elements and the name of a sparse tensor.

    ONNX allows two forms of indices: a vector of indices into the flattened tensor, or a matrix
    with a row for each element, which has an index for each dimension.
    """
    shape = tuple(sparse.dims)
    what = f"{name}: the sparse tensor '{sparse.values.name}'"
    if any(size < 0 for size in shape) or prod(shape) > MOST_FOLDED:
        raise ModelError(f"{what}: expected at most {MOST_FOLDED} elements, found shape {shape}")
    try:
        values, indices = (numpy_helper.to_array(t) for t in (sparse.values, sparse.indices))
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        if flat.shape != values.shape or (flat < 0).any():
            raise ValueError
        dense = np.zeros(prod(shape), values.dtype)
        dense[flat] = values
    except (ValueError, TypeError, IndexError) as error:
        raise ModelError(
            f"{what} is not valid: expected an index within shape {shape} for each of its "
            f"{prod(sparse.values.dims)} values"
        ) from error
    return numpy_helper.from_array(dense.reshape(shape), sparse.values.name)
