"""Simplifies a model's structure by onnxscript's optimizer, without copies of large weights.

The optimizer resolves constant conditionals and sequences, and removes nodes without effect. It is
configured to evaluate no operators, since it would use ONNX's reference implementation, whose
results are not always right.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx

from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array
from rammer_mlir.frontends.onnx.traversal import nodes_within, subgraphs

if TYPE_CHECKING:
    import onnx_ir as ir

REWRITTEN = frozenset({
    "Cast", "CastLike", "ConcatFromSequence", "Constant", "Dropout", "Expand", "Identity", "If",
    "Reshape", "SequenceAt", "SequenceConstruct", "Shape", "Size", "SplitToSequence",
})  # fmt: skip
"""Operators that the optimizer may rewrite in a graph whose constants are folded."""


def is_simple(model: Model) -> bool:
    """Whether quick checks prove that ``simplify`` would not change the model's nodes.

    If the result is False, ``simplify`` may still leave the nodes unchanged. The model's constants
    must be folded, and its shapes inferred. A model with an unnamed or unused node result is not
    simple: ``simplify`` names or drops the result, as later steps require.
    """
    graph = model.graph
    names = {node.name for node in graph.node}
    used = {value.name for value in graph.output}
    for node in graph.node:
        used.update(node.input)
    return not (
        model.proto.functions
        or graph.sparse_initializer
        or "" in names
        or len(names) != len(graph.node)
        or any(
            tensor.name not in used or math.prod(tensor.dims) > LARGE
            for tensor in graph.initializer
        )
        or any(name not in used for name in model.weights)
        or any(_may_be_rewritten(node) for node in graph.node)
        or any(not name or name not in used for node in graph.node for name in node.output)
        or _has_empty_values(graph)
    )


def _may_be_rewritten(node: onnx.NodeProto) -> bool:
    """Whether the optimizer may rewrite a node, if no value has a dimension of size 0."""
    is_copy = node.op_type == "Concat" and len(node.input) == 1
    return node.op_type in REWRITTEN or is_copy or any(subgraphs(node))


def _has_empty_values(graph: onnx.GraphProto) -> bool:
    """Whether any value has a dimension of size 0.

    The optimizer may then rewrite more nodes: it drops operands of Concat without elements.
    """
    values = [*graph.input, *graph.value_info, *graph.output]
    dims = (dim for value in values for dim in value.type.tensor_type.shape.dim)
    return any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in dims) or any(
        0 in tensor.dims for tensor in graph.initializer
    )


def simplify(model: Model) -> Model:
    """Return ``model`` without dead nodes, nodes without effect and constant conditionals.

    Requires inferred shapes.
    """
    # Imported here: it takes a third of a second, which the importer's child process need not pay.
    import onnx_ir as ir
    import onnx_ir.passes.common as common
    from onnxscript.optimizer import fold_constants_ir

    clean_up = ir.passes.Sequential(
        common.RemoveUnusedNodesPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.NameFixPass(),
    )
    graph_model = _read(model)
    with _quiet():
        try:
            # Not the whole optimizer: its rewrite rules take quadratic time in the size of the
            # graph.
            # ``should_fold`` refuses every node: operators are folded by our evaluators only.
            fold_constants_ir(graph_model, onnx_shape_inference=False, should_fold=lambda _: False)
        except RuntimeError:  # it assumes that sequences are constant
            graph_model = _read(model)
        clean_up(graph_model)
    weights = _take_weights(graph_model.graph, model.weights)
    proto = ir.to_proto(graph_model)
    _restore_loop_inputs(proto)
    return replace(model, proto=proto, weights=weights)


def _restore_loop_inputs(proto: onnx.ModelProto) -> None:
    """Append empty names to the inputs of each Loop with fewer than two inputs, in place.

    A Loop omits its first two inputs by empty names. ``simplify`` has dropped those empty names
    that were at the end of a node's inputs.
    """
    for node in nodes_within(proto.graph.node):
        if node.op_type == "Loop" and node.domain in ONNX_DOMAINS:
            node.input.extend([""] * (2 - len(node.input)))


def _read(model: Model) -> ir.Model:
    import onnx_ir as ir

    graph_model = ir.from_proto(model.proto)
    _insert_weights(graph_model.graph, model)
    for node in graph_model.graph.all_nodes():
        if node.op_type == "SplitToSequence" and node.domain in ONNX_DOMAINS:
            _replace_empty_split(node)
    return graph_model


def _replace_empty_split(node: ir.Node) -> None:
    """Change a SplitToSequence that is known to give no parts to a SequenceEmpty, in place.

    The optimizer would make an invalid SequenceConstruct without operands of it.
    """
    import onnx_ir as ir

    source, parts = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if source is None or source.dtype is None or source.shape is None or parts is None:
        return
    axis, rank = node.attributes.get_int("axis", 0), source.shape.rank()
    if axis not in range(-rank, rank) or source.shape[axis] != 0:
        return
    size = ir.convenience.get_const_tensor(parts)
    if size is not None and not size.shape.rank() and size.numpy() > 0:
        node.op_type = "SequenceEmpty"
        node.resize_inputs(0)
        node.attributes.clear()
        node.attributes.add(ir.AttrInt64("dtype", source.dtype))


def _insert_weights(graph: ir.Graph, model: Model) -> None:
    """Convert the graph's inputs that stand for the model's large weights to initializers."""
    import onnx_ir as ir

    values = {value.name: value for value in graph.inputs}
    kept = [value for value in graph.inputs if value.name not in model.weights]
    graph.inputs.clear()
    graph.inputs.extend(kept)
    for name, array in model.weights.items():
        value = values[name]
        # Its bound asks for an array of any type, which the type of ours is not shown to be.
        value.const_value = ir.Tensor(array, name=name)  # pyright: ignore[reportArgumentType]
        graph.register_initializer(value)


def _take_weights(graph: ir.Graph, given: Mapping[str, Array]) -> dict[str, Array]:
    """Convert large initializers to inputs of the graph; return their values by name.

    ``given`` has arrays by name. If an initializer is a view of the array with its name, this array
    itself is returned.
    """
    import onnx_ir as ir

    weights: dict[str, Array] = {}
    for name, value in list(graph.initializers.items()):
        array = value.const_value
        if array is not None and array.size > LARGE:
            old, new = given.get(name), array.numpy()
            # Of bf16 and narrower types ``numpy`` returns a view, by which the array is not known.
            weights[name] = new if old is None or not _is_view(new, old) else old
            del graph.initializers[name]
            value.const_value = None
            # If it is an output too, the node that computed it may have left a size open.
            value.shape = ir.Shape(array.numpy().shape)
            graph.inputs.append(value)
    return weights


def _is_view(new: Array, old: Array) -> bool:
    """Whether ``new`` is a view of all elements of ``old``, with the same dtype and layout."""
    same = new.dtype == old.dtype and new.shape == old.shape and new.strides == old.strides
    return new is old or (same and new.ctypes.data == old.ctypes.data)


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress the optimizer's messages about nodes that it skips."""
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
