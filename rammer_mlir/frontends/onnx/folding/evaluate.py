"""Evaluates nodes with constant inputs, in one pass over the graph.

Values that determine shapes are folded even if they are large, up to a size that no real model
reaches. Other results are stored only up to a smaller limit; larger results are computed at run
time.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.evaluators.operation import (
    NUMBERS,
    NotFoldableError,
    Numbers,
    Operation,
)
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.attributes import attributes_of
from rammer_mlir.frontends.onnx.folding.demand import demanded_names
from rammer_mlir.frontends.onnx.folding.types import TensorKind, Types, graph_types, infer_node
from rammer_mlir.frontends.onnx.limits import MOST_ELEMENTS, MOST_FOLDED
from rammer_mlir.frontends.onnx.model import LARGE, Model, names_used_by, set_graph_nodes
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, opset

_MOST_BYTES = 4 << 20
"""Largest number of bytes of a stored result that is larger than its operands.

This is the size of an attention mask of 1024 x 1024 floats. Reading a larger result from memory
takes as long as computing it at run time.
"""

_QUANTIZATION = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Operators whose large results are not folded, so that quantized weights stay small in memory.

Weights of convolutions are an exception: each weight is used for many pixels, and a constant weight
can be packed and transformed (Winograd) at compile time. The exception does not hold if the image
is quantized too, since the convolution is then computed in integers.
"""

_CONVOLUTIONS = ("Conv", "ConvTranspose")

_FREE = frozenset({"ConstantOfShape", "Identity"})
"""Operators whose large results are not stored, as they take neither memory nor time."""

_MOVING = _QUANTIZATION | {
    "Cast",
    "Concat",
    "Constant",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
"""Operators that move elements without computing, and so accept elements of any type."""

_Store = Callable[[str, Array], None]


_Rewrite = Callable[
    [onnx.NodeProto, Mapping[str, Array], Types],
    tuple[Sequence[onnx.NodeProto], Types] | None,
]
"""A function of a node, the constants by name and the types by name.

It returns the nodes that replace the node, with the types of their results by name; None to keep
the node.
"""


def evaluate_constants(model: Model, rewrite: _Rewrite | None = None) -> bool:
    """Fold nodes with constant inputs, in place; return whether this leaves fewer nodes.

    Args:
        model: a model with inferred shapes.
        rewrite: called for each node of the graph that is not folded. Its arguments are the node,
            and two mappings by name for the values computed before the node: the arrays of
            constants, and the types of all values. Returns the nodes that replace the node, and the
            types of their results; None to keep the node.
    """
    values = ChainMap[str, Array](model.constants())
    sweep = _Sweep(model.proto)
    before = len(model.graph.node)
    types = ChainMap(graph_types(model.graph))
    sweep.run(model.graph, values, types, model.add_constant, rewrite)
    return len(model.graph.node) < before


class _Sweep:
    def __init__(self, proto: onnx.ModelProto) -> None:
        self._opset = opset(proto)
        self._demanded = demanded_names(proto.graph)
        self._filters = _filters(proto.graph)

    def run(
        self,
        graph: onnx.GraphProto,
        values: ChainMap[str, Array],
        types: ChainMap[str, TensorKind],
        store: _Store,
        rewrite: _Rewrite | None = None,
    ) -> None:
        """Fold a graph and its subgraphs.

        Args:
            graph: modified in place.
            values: constants by name, including those of enclosing graphs; results of folded nodes
                are added.
            types: types of all values by name; types of the nodes' results are added.
            store: called with the name and value of each constant to add to the graph.
            rewrite: called for each node of ``graph``, not of subgraphs, that is not folded; its
                arguments and results are as in ``evaluate_constants``. None to rewrite no node.
        """
        folded: set[int] = set()
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            types.update(infer_node(node, self._opset, types, values))
            found = self._evaluate(node, values, types)
            if found is None:
                self._visit_subgraphs(node, values, types)
                new = rewrite(node, values, types) if rewrite is not None else None
                nodes.extend([node] if new is None else new[0])
                types.update({} if new is None else new[1])
                continue
            folded.add(len(nodes))
            nodes.append(node)
            for name, value in zip(node.output, found, strict=True):
                types[name] = TensorKind.of(value)
                values[name] = value
        if rewrite is not None:
            # ``folded`` has positions in ``nodes``, which rewriting makes differ from the graph's.
            set_graph_nodes(graph, nodes)
        if folded:
            _replace(graph, folded, values, store)

    def _visit_subgraphs(
        self, node: onnx.NodeProto, values: ChainMap[str, Array], types: ChainMap[str, TensorKind]
    ) -> None:
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                if graph.node:
                    inner = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
                    self.run(
                        graph,
                        values.new_child(inner),
                        types.new_child(graph_types(graph)),
                        _initializer_store(graph),
                    )

    def _evaluate(
        self, node: onnx.NodeProto, values: ChainMap[str, Array], types: ChainMap[str, TensorKind]
    ) -> list[Array] | None:
        """Return the arrays of a node's results; None if the node is not folded.

        A node is not folded if an operand is not constant, or if a result is too large or
        undefined. ``values`` has the constants and ``types`` the types of values, both by name.
        """
        if node.domain not in ONNX_DOMAINS or node.op_type not in EVALUATORS:
            return None
        if node.op_type in ("Shape", "Size"):
            return _of_shape(node, types)
        if any(name and name not in values for name in node.input):
            return None
        given = [values[name] if name else None for name in node.input]
        return _compute(node, given, types) if self._is_worth_it(node, values, types) else None

    def _is_worth_it(
        self,
        node: onnx.NodeProto,
        values: ChainMap[str, Array],
        types: ChainMap[str, TensorKind],
    ) -> bool:
        operands = [values[name] for name in node.input if name]
        # Elements of other types can be moved, but no evaluator computes with them.
        if node.op_type not in _MOVING and any(v.dtype not in NUMBERS for v in operands):
            return False
        kinds = [types.get(name) for name in node.output if name]
        sizes = [(kind.size, kind.itemsize) for kind in kinds if kind is not None]
        is_small = all(value.size <= MOST_FOLDED for value in operands)
        is_demanded = is_small and not self._demanded.isdisjoint(node.output)
        stored = sum(_stored_elements(value) for value in operands)
        if len(sizes) < len(kinds) or any(size is None for size, _ in sizes):
            return is_demanded or sum(value.nbytes for value in operands) <= _MOST_BYTES
        elements = sum(size or 0 for size, _ in sizes)
        if node.op_type in _FREE:
            return elements <= MOST_ELEMENTS
        if is_demanded:
            return elements <= MOST_FOLDED
        if node.op_type in _QUANTIZATION:
            return elements <= LARGE or node.output[0] in self._filters
        return elements <= stored or sum((n or 0) * width for n, width in sizes) <= _MOST_BYTES


def _filters(graph: onnx.GraphProto) -> set[str]:
    """Return the names of values that are only used as weights of convolutions in floating point.

    Such weights are dequantized at compile time even if they are large. A Conv of a dequantized
    image does not count: it is computed in integers.
    """
    filters: set[str] = set()
    others = {value.name for value in graph.output}
    quantized = {
        name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output
    }
    for node in graph.node:
        is_quantized = node.op_type == "Conv" and node.input[0] in quantized
        if node.op_type in _CONVOLUTIONS and node.domain in ONNX_DOMAINS and not is_quantized:
            filters.update(node.input[1:2])
            others.update(node.input[:1], node.input[2:])
        else:
            others |= names_used_by([node])
    return filters - others


def _initializer_store(graph: onnx.GraphProto) -> _Store:
    return lambda name, value: graph.initializer.append(numpy_helper.from_array(value, name))


def _stored_elements(value: Array) -> int:
    """Return the number of elements of an array that occupy memory when the array is stored.

    The repeated elements of a broadcast dimension count once. An array of booleans counts as 0
    elements: it is usually a mask, which is small beside the values that it selects.
    """
    if value.dtype == np.bool_:
        return 0
    pairs = zip(value.shape, value.strides, strict=True)
    return prod(size for size, stride in pairs if stride)


def _of_shape(node: onnx.NodeProto, types: ChainMap[str, TensorKind]) -> list[Array] | None:
    kind = types.get(node.input[0])
    if kind is None or kind.shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(prod(kind.shape), np.int64)]
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    part = kind.shape[slice(bounds.get("start", 0), bounds.get("end"))]
    return [np.array(part, np.int64)]


def _compute(
    node: onnx.NodeProto, given: Sequence[Array | None], types: ChainMap[str, TensorKind]
) -> list[Array] | None:
    try:
        # Overflow and division by zero have defined results, of which the user needs no warning.
        with np.errstate(all="ignore"):
            operation = Operation(node.op_type, attributes_of(node), given, len(node.output))
            found = EVALUATORS[node.op_type](operation)
    except (NotFoldableError, ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
        return None  # the node's rule reports the error
    if len(found) != len(node.output):
        return None
    pairs = zip(node.output, found, strict=True)
    return list(found) if all(_fits(name, value, types) for name, value in pairs) else None


def _fits(name: str, value: Numbers, types: ChainMap[str, TensorKind]) -> bool:
    """Return whether an array, a result named ``name``, has the inferred dtype and shape.

    ``types`` has the inferred types by name. Unknown dtypes and shapes fit any array.
    """
    kind = types.get(name)
    if kind is None:
        return True
    return kind.shape in (None, value.shape) and kind.elem_type in (
        0,
        helper.np_dtype_to_tensor_dtype(value.dtype),
    )


def _replace(
    graph: onnx.GraphProto, folded: set[int], values: ChainMap[str, Array], store: _Store
) -> None:
    """Remove folded nodes from a graph, in place, and store their results that are still used.

    Nodes of operators in ``_FREE`` stay in the graph if their used result is large.

    Args:
        graph: the graph.
        folded: indices of the folded nodes in the graph.
        values: the results by name.
        store: called with the name and value of each result that another node or an output uses.
    """
    kept = [node for number, node in enumerate(graph.node) if number not in folded]
    used = {value.name for value in graph.output} | names_used_by(kept)
    nodes: list[onnx.NodeProto] = []
    # In reverse order, so that the consumers of a node are decided before the node.
    for number, node in reversed(list(enumerate(graph.node))):
        if number not in folded or _stays(node, used, values):
            used |= names_used_by([node])
            nodes.append(node)
            continue
        for name in node.output:
            if name in used:
                store(name, np.ascontiguousarray(values[name]).reshape(values[name].shape))
    set_graph_nodes(graph, reversed(nodes))


def _stays(node: onnx.NodeProto, used: set[str], values: ChainMap[str, Array]) -> bool:
    name = node.output[0]
    return node.op_type in _FREE and name in used and values[name].size > LARGE
