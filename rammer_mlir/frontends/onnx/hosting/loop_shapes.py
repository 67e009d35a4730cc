"""Infers the result shapes of loops whose states (loop-carried values) keep their shapes.

ONNX's inference assumes that the shape of a state may change between iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.hosting.parts import PartMaker
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import (
    ONNX_DOMAINS,
    small_constants,
    static_dims,
    value_infos,
)
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.frontends.onnx.trip_counts import begins, condition_of, largest_count

Shape = tuple[int, ...]


def infer_loops(model: Model, infer: Callable[[Model], Model]) -> Model:
    """Return the model with inferred shapes for the results of its Loop nodes.

    Shapes that depend on these results are inferred too. Loops in subgraphs are not visited.

    Args:
        model: a model after ONNX's shape inference.
        infer: called with a model; returns the model with inferred shapes, possibly the same
            object.
    """
    is_news = False
    for node in list(model.graph.node):
        if node.op_type != "Loop" or node.domain not in ONNX_DOMAINS:
            continue
        found = _results(model, node, infer)
        if not found and is_news:  # it may depend on a previous loop
            model, is_news = infer(model), False
            found = _results(model, node, infer)
        is_news = _declare(model.graph, found) or is_news
    return infer(model) if is_news else model


def _results(
    model: Model, node: onnx.NodeProto, infer: Callable[[Model], Model]
) -> list[onnx.ValueInfoProto]:
    """Return the types of a Loop's results; empty if the shape of any state changes.

    The result is also empty if the shape of a state or of a captured value is unknown. ``infer`` is
    called with the body as a model, and returns the model with inferred shapes.
    """
    (body,) = subgraphs(node)
    maker = PartMaker(model)
    states = [maker.shape(name) for name in node.input[2:]]
    captured = maker.captured(body)
    given = [shape for shape in states if shape is not None]
    if len(given) < len(states) or any(maker.shape(name) is None for name in captured):
        return []
    kinds = [maker.elem_type(name) for name in node.input[2:]]
    inferred = infer(maker.of_subgraph(body, _inputs(body, kinds, given), captured)).graph.output
    outputs = [value.type.tensor_type for value in inferred][1:]
    shapes = [static_dims(tensor) for tensor in outputs]
    if shapes[: len(given)] != [list(shape) for shape in given]:
        return []
    constants = small_constants(model.graph)
    is_counted = condition_of(body) == body.input[1].name and begins(node, constants)
    steps = largest_count(node, constants) if is_counted else None
    found: list[onnx.ValueInfoProto] = []
    for number, (name, tensor, shape) in enumerate(zip(node.output, outputs, shapes, strict=False)):
        if name and shape is not None and tensor.elem_type:
            dims = shape if number < len(given) else [steps, *shape]
            found.append(helper.make_tensor_value_info(name, tensor.elem_type, dims))
    return found


def _inputs(
    body: onnx.GraphProto, kinds: Sequence[int], shapes: Sequence[Shape]
) -> list[onnx.ValueInfoProto]:
    """Return the declarations of a Loop body's inputs in the first iteration.

    ``kinds`` are the ONNX element types of the initial states, ``shapes`` their shapes.
    """
    number, condition, *states = body.input
    one = [[1] * len(value.type.tensor_type.shape.dim) for value in (number, condition)]
    return [
        helper.make_tensor_value_info(number.name, onnx.TensorProto.INT64, one[0]),
        helper.make_tensor_value_info(condition.name, onnx.TensorProto.BOOL, one[1]),
        *(
            helper.make_tensor_value_info(value.name, kind, shape)
            for value, kind, shape in zip(states, kinds, shapes, strict=True)
        ),
    ]


def _declare(graph: onnx.GraphProto, found: Sequence[onnx.ValueInfoProto]) -> bool:
    """Give the types in ``found`` to the values of the graph that have unknown shapes.

    Return whether any value has a static shape now and had none before.
    """
    known = value_infos(graph)
    is_new = False
    for value in found:
        current = known.get(value.name)
        if current is None:
            graph.value_info.append(value)
        elif static_dims(current.type.tensor_type) is None:
            current.type.CopyFrom(value.type)
        else:
            continue
        is_new = is_new or static_dims(value.type.tensor_type) is not None
    return is_new
