"""Constant folding with onnxscript's optimizer, on a graph whose large weights are aside."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import divides_by_zero

_LARGEST_RESULT = 512 * 512
"""Elements up to which a result of constants alone is stored, if its inputs are smaller."""


def fold_constants(model: Model) -> Model:
    """Return the model with constants folded and dead nodes removed.

    Shapes must have been inferred: what is computed from shapes alone is folded too.
    """
    # Loaded here: it takes a third of a second, which the importer's child process need not pay.
    import onnx_ir as ir
    import onnx_ir.passes.common as common
    from onnxscript.optimizer import fold_constants_ir

    graph_model: Any = ir.from_proto(model.proto)
    _insert_weights(ir, graph_model.graph, model)
    clean_up = ir.passes.Sequential(
        common.RemoveUnusedNodesPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.NameFixPass(),
    )
    with _quiet():
        # Not the whole optimizer: its rewrite rules take time quadratic in the graph.
        fold_constants_ir(
            graph_model,
            onnx_shape_inference=False,
            input_size_limit=LARGE,
            output_size_limit=_LARGEST_RESULT,
            should_fold=_should_fold,
        )
        clean_up(graph_model)
    weights = _take_weights(graph_model.graph)
    return Model(ir.to_proto(graph_model), weights)


def _insert_weights(ir: Any, graph: Any, model: Model) -> None:
    """Turn the inputs that stand for weights into initializers."""
    values = {value.name: value for value in graph.inputs}
    kept = [value for value in graph.inputs if value.name not in model.weights]
    graph.inputs.clear()
    graph.inputs.extend(kept)
    for name, array in model.weights.items():
        value = values[name]
        value.const_value = ir.Tensor(array, name=name)
        graph.register_initializer(value)


def _take_weights(graph: Any) -> dict[str, Any]:
    """Turn large initializers into inputs and return their values."""
    weights: dict[str, Any] = {}
    for name, value in list(graph.initializers.items()):
        if value.const_value.size > LARGE:
            weights[name] = value.const_value.numpy()
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
    return weights


def _should_fold(node: Any) -> bool | None:
    """Fold large constants too where the result is no larger than what it is made of.

    What cannot be folded stays for the rules that nodes are checked by.
    """
    if node.op_type in ("ConstantOfShape", "QuantizeLinear", "DequantizeLinear"):
        return None
    constants = [value.const_value for value in node.inputs if value is not None]
    if any(constant is None for constant in constants):
        return None
    if constants and divides_by_zero(node.op_type, constants[-1].numpy()):
        return False
    shapes = [value.shape for value in node.outputs]
    if any(shape is None or not shape.is_static() for shape in shapes):
        return None
    total = sum(prod(int(dim) for dim in shape) for shape in shapes)
    return True if total <= sum(constant.size for constant in constants) else None


@contextmanager
def _quiet() -> Generator[None]:
    """Silence what the optimizer says of nodes that it leaves alone."""
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
