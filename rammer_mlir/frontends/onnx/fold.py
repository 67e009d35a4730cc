"""Constant folding with onnxscript's optimizer, on a graph whose large weights are aside."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import Array, divides_by_zero

if TYPE_CHECKING:
    import onnx_ir as ir

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

    graph_model = ir.from_proto(model.proto)
    _insert_weights(graph_model.graph, model)
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


def _insert_weights(graph: ir.Graph, model: Model) -> None:
    """Turn the inputs that stand for weights into initializers."""
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


def _take_weights(graph: ir.Graph) -> dict[str, Array]:
    """Turn large initializers into inputs and return their values."""
    weights: dict[str, Array] = {}
    for name, value in list(graph.initializers.items()):
        array = value.const_value
        if array is not None and array.size > LARGE:
            weights[name] = array.numpy()
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
    return weights


def _should_fold(node: ir.Node) -> bool | None:
    """Fold large constants too where the result is no larger than what it is made of.

    What cannot be folded stays for the rules that nodes are checked by.
    """
    if node.op_type in ("ConstantOfShape", "QuantizeLinear", "DequantizeLinear"):
        return None
    operands = [value for value in node.inputs if value is not None]
    constants = [value.const_value for value in operands if value.const_value is not None]
    if len(constants) < len(operands):
        return None
    if constants and divides_by_zero(node.op_type, constants[-1].numpy()):
        return False
    shapes = [value.shape for value in node.outputs if value.shape is not None]
    if len(shapes) < len(node.outputs) or not all(shape.is_static() for shape in shapes):
        return None
    total = sum(prod(shape.numpy()) for shape in shapes)
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
