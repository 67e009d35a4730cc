"""Sets and infers the shapes of a model's values, and checks that they are static."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx
from onnx import helper, numpy_helper

from rammer_mlir.errors import ModelError, ShapeError
from rammer_mlir.frontends.onnx.contradictions import INFERENCE_FAULTS, inference_error
from rammer_mlir.frontends.onnx.folding.demand import SHAPE_INPUTS
from rammer_mlir.frontends.onnx.limits import MOST_ELEMENTS
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.negative_sizes import refuse_negative_sizes
from rammer_mlir.frontends.onnx.shape_placeholders import stand_ins
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, label, static_shape, value_infos
from rammer_mlir.support.array_limits import MOST_DIMENSIONS


def give_shapes(model: Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the shapes of a model's inputs, in place.

    ``shapes`` has the user's shapes by input name; other inputs keep the shapes of the model.

    Raises:
        ShapeError: if a name is unknown, or a shape contradicts the model.
    """
    inputs = {value.name: value for value in model.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            known = ", ".join(f"'{other}'" for other in inputs) or "none"
            raise ShapeError(f"shape for unknown input '{name}': the model's inputs are {known}")
        _bind(inputs[name], list(shape))
    for value in inputs.values():
        _require_size(value.name, static_shape(value) or [])


def _bind(value: onnx.ValueInfoProto, shape: list[int]) -> None:
    tensor = value.type.tensor_type
    if any(size < 0 for size in shape):
        raise ShapeError(
            f"input '{value.name}': expected dimensions of at least 0, found {_text(shape)}"
        )
    _require_size(value.name, shape)
    if tensor.HasField("shape"):
        dims = tensor.shape.dim
        if len(dims) != len(shape):
            raise ShapeError(
                f"input '{value.name}': expected {len(dims)} dimensions, found {len(shape)} in "
                f"{_text(shape)}"
            )
        for position, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            if dim.HasField("dim_value") and dim.dim_value not in (0, size):
                raise ShapeError(
                    f"input '{value.name}': dimension {position} is {dim.dim_value} in the model, "
                    f"found {size} in {_text(shape)}"
                )
    del tensor.shape.dim[:]
    for size in shape:
        tensor.shape.dim.add().dim_value = size


def _forget_open_shapes(graph: onnx.GraphProto) -> None:
    """Remove recorded shapes that are not static from the values of a graph, in place.

    Shape inference does not replace recorded shapes. After the removal, it can infer static shapes,
    because more nodes have been folded since the shapes were recorded.
    """
    kept = [value for value in graph.value_info if static_shape(value) is not None]
    if len(kept) < len(graph.value_info):
        copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
        del graph.value_info[:]
        graph.value_info.extend(copies)


def _is_lenient(node: onnx.NodeProto) -> bool:
    """Return whether the compiler ignores errors of shape inference in a model that has this node.

    The compiler ignores them for operators in ``_LENIENT``, and for operators of domains other than
    ONNX's. The result types of an operator of another domain are unknown at first, so that nodes
    that read its results may seem invalid.
    """
    return node.op_type in _LENIENT or node.domain not in ONNX_DOMAINS


_LENIENT = ("If", "Loop", "Range")
"""Operators for which contradictions are tolerated.

A branch that is never taken, or a loop without iterations, may contradict the given shapes; and
Range accepts a vector of one element as a scalar. The final inference runs without these operators.
"""


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the types and shapes that ONNX's shape inference finds.

    ONNX's data propagation, which computes values of shape operands, is not used: it raises errors
    for valid sums of matrices, and constant folding computes more values.

    Raises:
        ModelError: if the model contradicts itself.
    """
    _forget_open_shapes(model.graph)
    refuse_negative_sizes(model)
    with stand_ins(model) as restore:
        try:
            inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except INFERENCE_FAULTS as error:
            if not any(map(_is_lenient, model.graph.node)):
                raise ModelError(inference_error(model, str(error))) from error
            inferred = onnx.shape_inference.infer_shapes(model)
        restore(inferred)
    _type_constant_outputs(inferred.graph)
    return inferred


def _type_constant_outputs(graph: onnx.GraphProto) -> None:
    """Set the types of outputs that are also initializers or inputs.

    Shape inference leaves the types of such outputs unset.
    """
    types = {value.name: value.type for value in graph.input}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    for value in graph.output:
        if value.name in types:
            value.type.CopyFrom(types[value.name])


def open_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes with a result whose shape is not static (unknown rank or dimension)."""
    values = value_infos(graph)
    static = {name for name, value in values.items() if static_shape(value) is not None}
    return [node for node in graph.node if not static.issuperset(filter(None, node.output))]


def require_static_values(graph: onnx.GraphProto) -> None:
    """Raise an error if the shape of a value depends on data.

    Raises:
        ShapeError: with the first node that has such a result, and its operands that determine the
            shape; if no operand is known to determine it, with the first three such nodes.
    """
    nodes = open_nodes(graph)
    if not nodes:
        return
    constants = {tensor.name: tensor for tensor in graph.initializer}
    numbers = SHAPE_INPUTS.get(nodes[0].op_type, ())
    given = [nodes[0].input[n] for n in numbers if n < len(nodes[0].input) and nodes[0].input[n]]
    computed = [f"'{name}'" for name in given if name not in constants]
    if computed:
        raise ShapeError(
            f"{label(nodes[0])}: the shape of its result depends on the values of "
            f"{', '.join(computed)}: expected a constant there, found values that are known at "
            "run time only; make them constants of the model"
        )
    if given:
        values = [f"'{name}' = {numpy_helper.to_array(constants[name]).tolist()}" for name in given]
        raise ShapeError(
            f"{label(nodes[0])}: expected constants that give its result a shape, found "
            f"{', '.join(values)}; no dimension of it may be negative"
        )
    found = [label(node) for node in nodes]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    raise ShapeError(
        f"the shape of what {', '.join(found[:3])}{more} computes is not static: expected "
        "shapes that follow from the inputs' shapes alone"
    )


def require_sizes(graph: onnx.GraphProto) -> None:
    """Raise an error if a tensor has more dimensions or elements than the limits allow.

    Tensors without a static shape are not checked.

    Raises:
        ShapeError: for the first such tensor.
    """
    for value in (*graph.input, *graph.value_info, *graph.output):
        shape = static_shape(value)
        if shape is not None:
            _require_size(value.name, shape)


def _require_size(name: str, shape: Sequence[int]) -> None:
    if len(shape) > MOST_DIMENSIONS:
        raise ShapeError(
            f"'{name}': expected at most {MOST_DIMENSIONS} dimensions, found {len(shape)}; reshape "
            "it"
        )
    if prod(shape) > MOST_ELEMENTS:
        raise ShapeError(
            f"'{name}': expected at most {MOST_ELEMENTS} elements, found {prod(shape)} "
            f"in {_text(shape)}; give smaller shapes"
        )


def _text(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))
