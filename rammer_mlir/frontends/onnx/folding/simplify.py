"""Simplification of the graph's structure with onnxscript's optimizer, large weights aside.

It resolves choices and sequences that are constant, and drops nodes that do nothing. It evaluates
no operators: it would ask ONNX's reference implementation, whose results are not always right.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from rammer_mlir.frontends.onnx.model import LARGE, Model
from rammer_mlir.frontends.onnx.tensors import Array

if TYPE_CHECKING:
    import onnx_ir as ir


def simplify(model: Model) -> Model:
    """Return the model with dead nodes and those without effect removed.

    Shapes must have been inferred.
    """
    # Loaded here: it takes a third of a second, which the importer's child process need not pay.
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
            # Not the whole optimizer: its rewrite rules take time quadratic in the graph.
            fold_constants_ir(graph_model, onnx_shape_inference=False, should_fold=lambda _: False)
        except RuntimeError:  # it expects constants of sequences where there are none
            graph_model = _read(model)
        clean_up(graph_model)
    weights = _take_weights(graph_model.graph)
    return Model(ir.to_proto(graph_model), weights)


def _read(model: Model) -> ir.Model:
    import onnx_ir as ir

    graph_model = ir.from_proto(model.proto)
    _insert_weights(graph_model.graph, model)
    return graph_model


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
    import onnx_ir as ir

    weights: dict[str, Array] = {}
    for name, value in list(graph.initializers.items()):
        array = value.const_value
        if array is not None and array.size > LARGE:
            weights[name] = array.numpy()
            del graph.initializers[name]
            value.const_value = None
            # Where it is an output too, its node may have left a size open.
            value.shape = ir.Shape(array.numpy().shape)
            graph.inputs.append(value)
    return weights


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
