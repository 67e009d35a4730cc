"""Rewrites nodes as simpler nodes, for example Compress with a constant condition as Gather.

A rewrite applies only if certain operands are constant, or have known types and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from rammer_mlir.frontends.onnx.batch_statistics import (
    normalizes_by_batch,
    write_batch_normalization,
)
from rammer_mlir.frontends.onnx.model import LARGE, ConstantValues, Model
from rammer_mlir.frontends.onnx.ngrams import counts_integers, write_counts
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, ShapeTable, dtype_of


def rewrite_nodes(model: Model) -> bool:
    """Rewrite nodes as simpler nodes in place; return whether a node was rewritten.

    The model's constants must be folded, and its shapes inferred. The shapes of new nodes must be
    inferred afterwards.
    """
    if not any(_is_rewritten(node) for node in model.graph.node):
        return False
    values, table = model.constants(), ShapeTable(model.graph)
    nodes: list[onnx.NodeProto] = []
    is_changed = False
    for node in model.graph.node:
        new = None
        if _is_rewritten(node):
            site = _Rewrite(node, values, table, NodeWriter(model, node.name))
            new = _REWRITES[node.op_type](site)
        nodes.extend([node] if new is None else new)
        is_changed |= new is not None
    model.set_nodes(nodes)
    return is_changed


def _is_rewritten(node: onnx.NodeProto) -> bool:
    return node.op_type in _REWRITES and node.domain in ONNX_DOMAINS


@dataclass(frozen=True)
class _Rewrite:
    """A node to rewrite, the constants and types of its graph, and the writer of its replacement.

    ``values`` has the constants by name, ``table`` the shapes and element types of values.
    """

    node: onnx.NodeProto
    values: ConstantValues
    table: ShapeTable
    write: NodeWriter

    def finish(self, operator: str, *inputs: str, **attributes: object) -> list[onnx.NodeProto]:
        """Emit the node that computes the replaced node's results; return all new nodes.

        ``operator`` is the operator of the emitted node.
        """
        self.write.named(operator, inputs, list(self.node.output), **attributes)
        return self.write.nodes


def _compress(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return a Gather for a Compress; None if the condition of the Compress is not constant."""
    node, write = site.node, site.write
    if node.input[1] not in site.values:
        return None
    chosen = write.constant(np.flatnonzero(site.values[node.input[1]]))
    axis = next((a.i for a in node.attribute if a.name == "axis"), None)
    source = node.input[0]
    if axis is None:
        source = write.node("Reshape", [source, write.integers(-1)])
    return site.finish("Gather", source, chosen, axis=axis or 0)


def _cast_like(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return a Cast for a CastLike; None if the element type is unknown."""
    kind = site.table.elem_type(site.node.input[1])
    if not kind:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in site.node.attribute}
    return site.finish("Cast", site.node.input[0], to=kind, **attributes)


def _scatter_nd(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return nodes that replace a ScatterND with more than LARGE constant indices, else None.

    The new nodes can compute all elements in parallel: they are a Gather (or only a Reshape) of the
    updates, and a Where if some elements keep their value. A ScatterND with a reduction is not
    replaced.
    """
    node, write = site.node, site.write
    indices, shape = site.values.get(node.input[1]), site.table.find_shape(node.input[0])
    plain = not any(a.name == "reduction" and a.s != b"none" for a in node.attribute)
    if indices is None or shape is None or not plain or indices.size <= LARGE:
        return None
    depth, count = indices.shape[-1], prod(indices.shape[:-1])
    found = _last_updates(indices.reshape(count, depth), shape[:depth])
    if found is None:
        return None
    if np.array_equal(found.reshape(-1), np.arange(count)):
        return site.finish("Reshape", node.input[2], write.integers(*shape))
    rest = shape[depth:]
    updates = write.node("Reshape", [node.input[2], write.integers(count, *rest)])
    chosen = [updates, write.constant(np.maximum(found, 0))]
    if (found >= 0).all():
        return site.finish("Gather", *chosen)
    is_updated = write.constant((found >= 0).reshape(*found.shape, *[1] * len(rest)))
    return site.finish("Where", is_updated, write.node("Gather", chosen), node.input[0])


def _last_updates(places: Array, searched: list[int]) -> NDArray[np.int64] | None:
    """Return, for each element or slice of ScatterND's data, the index of the last update to it.

    The index is -1 if no update changes the element or slice. The function returns None if an index
    tuple is out of range.

    Args:
        places: the index tuple of each update, an index tuple in each row.
        searched: extents of the indexed dimensions, which are the shape of the result.
    """
    sizes, wide = np.array(searched, np.int64), places.astype(np.int64)
    if ((wide < -sizes) | (wide >= sizes)).any():
        return None
    found = np.full(searched, -1, np.int64)
    np.maximum.at(found, tuple(np.where(wide < 0, wide + sizes, wide).T), np.arange(len(wide)))
    return found


def _count_ngrams(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    shape, kind = (
        site.table.find_shape(site.node.input[0]),
        site.table.elem_type(site.node.input[0]),
    )
    if not shape or not counts_integers(site.node):
        return None
    return site.finish("Identity", write_counts(site.node, shape, dtype_of(kind), site.write))


def _batch_normalization(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return nodes that replace a BatchNormalization in training mode, or None.

    None is returned if the mode is inference, if not all operands are f32 or all f64, or if the
    shape of the data is unknown or has fewer than two dimensions.
    """
    node = site.node
    shape = site.table.find_shape(node.input[0])
    kinds = {site.table.elem_type(name) for name in node.input}
    is_plain = len(kinds) == 1 and kinds <= {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}
    if not normalizes_by_batch(node) or shape is None or len(shape) < 2 or not is_plain:
        return None
    return write_batch_normalization(node, shape, dtype_of(kinds.pop()), site.write)


def _where(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return nodes that broadcast the selected operand of a Where to the result's shape.

    Return None if the condition is not constant, or if it selects different operands for different
    elements.
    """
    condition, *branches = site.node.input
    for is_true, chosen in zip((True, False), branches, strict=True):
        if site.values.are_all(condition, is_true):
            return _broadcast(site, chosen)
    return None


def _add(site: _Rewrite) -> Iterable[onnx.NodeProto] | None:
    """Return nodes that replace an Add of many constant zeros by its other operand.

    An attention without mask has such an Add. Return None if neither operand consists of more than
    LARGE zeros. Fewer zeros, such as the initial state of a recurrent layer, cost almost nothing.
    The sign of a zero in the result may differ.
    """
    for zeros, other in (site.node.input, reversed(site.node.input)):
        is_large = zeros in site.values and prod(site.values.shape(zeros)) > LARGE
        if is_large and site.values.are_all(zeros, 0):
            return _broadcast(site, other)
    return None


def _broadcast(site: _Rewrite, operand: str) -> Iterable[onnx.NodeProto] | None:
    """Return nodes that broadcast an operand to the result's shape; None for an unknown shape."""
    shape = site.table.find_shape(site.node.output[0])
    if shape is None or not site.table.elem_type(operand):
        return None
    if site.table.find_shape(operand) == shape:
        return site.finish("Identity", operand)
    return site.finish("Expand", operand, site.write.integers(*shape))


_REWRITES: dict[str, Callable[[_Rewrite], Iterable[onnx.NodeProto] | None]] = {
    "Add": _add,
    "BatchNormalization": _batch_normalization,
    "CastLike": _cast_like,
    "Compress": _compress,
    "ScatterND": _scatter_nd,
    "TfIdfVectorizer": _count_ngrams,
    "Where": _where,
}
