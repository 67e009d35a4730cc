"""Small nodes whose inputs are all constant, evaluated by ONNX's reference implementation.

It completes the optimizer's folding, which leaves out nodes with several results: their constants
decide shapes, so everything behind them would stay without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import (
    ONNX_DOMAINS,
    Array,
    ShapeTable,
    divides_by_zero,
    dtype_of,
    small_constants,
)

_RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial"})
"""Operators whose results differ from run to run; also all whose name begins with ``Random``."""


def evaluate_constants(model: Model) -> bool:
    """Replace nodes by their results in place; return whether there were any.

    Shapes must have been inferred: ``Shape`` and ``Size`` of static shapes are constant.
    """
    graph = model.graph
    table = ShapeTable(graph)
    values = small_constants(graph)
    kept: list[onnx.NodeProto] = []
    results = {value.name for value in graph.output}
    imports = list(model.proto.opset_import)
    for node in graph.node:
        found = None
        if results.isdisjoint(node.output):
            found = _of_shape(node, table) or _evaluate(node, values, table, imports)
        if found is None:
            kept.append(node)
            continue
        for name, value in zip(node.output, found, strict=True):
            if name:
                values[name] = value
                model.add_constant(name, value)
    changed = len(kept) < len(graph.node)
    if changed:
        model.set_nodes(kept)
    return changed


def _of_shape(node: onnx.NodeProto, table: ShapeTable) -> list[Array] | None:
    if node.op_type not in ("Shape", "Size") or node.domain not in ONNX_DOMAINS:
        return None
    shape = table.find_shape(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(np.prod(shape, dtype=np.int64))]
    bounds = {attribute.name: attribute.i for attribute in node.attribute}
    part = shape[slice(bounds.get("start", 0), bounds.get("end"))]
    return [np.array(part, dtype=np.int64)]


def _evaluate(
    node: onnx.NodeProto,
    values: dict[str, Array],
    table: ShapeTable,
    imports: Sequence[onnx.OperatorSetIdProto],
) -> list[Array] | None:
    """Return a node's results, None if they are not constant, large, or not to be had."""
    names = [name for name in node.input if name]
    if not names or any(name not in values for name in names) or not _is_evaluated(node):
        return None
    if divides_by_zero(node.op_type, values[names[-1]]):
        return None
    if any(np.prod(table.find_shape(name) or [1]) > LARGE for name in node.output):
        return None
    graph = helper.make_graph(
        [node],
        "constant",
        [_typed(name, values[name]) for name in dict.fromkeys(names)],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    try:
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports))
        # Overflow and division by zero give what they give: that is no news for the user.
        with np.errstate(all="ignore"):
            found: list[object] = list(evaluator.run(None, {name: values[name] for name in names}))
    except Exception:  # whatever it cannot do stays for others
        return None
    arrays = iter(found)
    results = [np.asarray(next(arrays)) if name else np.empty(0) for name in node.output]
    if any(result.size > LARGE or result.dtype == object for result in results):
        return None
    return [
        _as_declared(name, result, table) for name, result in zip(node.output, results, strict=True)
    ]


def _is_evaluated(node: onnx.NodeProto) -> bool:
    return (
        node.domain in ONNX_DOMAINS
        and node.op_type not in _RANDOM
        and not node.op_type.startswith("Random")
        and not any(attribute.HasField("g") for attribute in node.attribute)
    )


def _typed(name: str, value: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


def _as_declared(name: str, value: Array, table: ShapeTable) -> Array:
    """Return a value in the type that shape inference gave it."""
    kind = table.elem_type(name) if name else 0
    return value.astype(dtype_of(kind)) if kind else value
