"""Preparation on the ONNX level: what the importer gets is static, folded and of known operators."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence

import onnx
import onnx.version_converter
import onnxscript.optimizer

from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx.recurrent import decompose_recurrent
from rammer_mlir.frontends.onnx.shapes import bind_shapes, infer_shapes, require_static_values
from rammer_mlir.frontends.onnx.tensors import opset
from rammer_mlir.frontends.onnx.weights import LARGE

_OLDEST_OPSET, _NEW_OPSET = 13, 17
"""Models older than the first are converted to the second, which the importer knows whole."""

_ONNX_DOMAINS = ("", "ai.onnx")


def prepare(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Return the model with static shapes, constants folded, and recurrent operators unrolled.

    Raises:
        ModelError: if the model contradicts itself or cannot be converted.
        ShapeError: if a shape is missing or not static.
        UnsupportedError: if operators are not ONNX's own.
    """
    _separate_initializers(model)
    bind_shapes(model, shapes)
    _refuse_foreign(model)
    _name_nodes(model)
    model = infer_shapes(_upgrade(model))
    model = decompose_recurrent(model)
    model = infer_shapes(_fold(model))
    require_static_values(model)
    return model


def _separate_initializers(model: onnx.ModelProto) -> None:
    """Take initializers out of the inputs, where models before IR version 4 list them too."""
    names = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 8)


def _refuse_foreign(model: onnx.ModelProto) -> None:
    local = {(function.domain, function.name) for function in model.functions}
    foreign = [
        f"'{node.name or node.output[0]}' ({node.domain}.{node.op_type})"
        for node in model.graph.node
        if node.domain not in _ONNX_DOMAINS and (node.domain, node.op_type) not in local
    ]
    if foreign:
        raise UnsupportedError(f"not supported: {', '.join(foreign)}")


def _name_nodes(model: onnx.ModelProto) -> None:
    """Give nodes without a name one: messages and timelines name nodes."""
    for node in model.graph.node:
        if not node.name:
            node.name = f"{node.op_type}:{node.output[0]}"


def _upgrade(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert an old model; its weights are kept aside, for the converter copies all it gets."""
    if opset(model) >= _OLDEST_OPSET:
        return model
    weights = [t for t in model.graph.initializer if len(t.raw_data) > 8 * LARGE]
    aside = {tensor.name for tensor in weights}
    light = onnx.ModelProto()
    light.CopyFrom(model)
    for tensor in weights:
        light.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    kept = [tensor for tensor in light.graph.initializer if tensor.name not in aside]
    del light.graph.initializer[:]
    light.graph.initializer.extend(kept)
    try:
        converted = onnx.version_converter.convert_version(light, _NEW_OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError) as error:
        line = str(error).strip().splitlines()[0]
        raise ModelError(
            f"the model uses opset {opset(model)}, which cannot be converted to {_NEW_OPSET}: {line}"
        ) from error
    inputs = [value for value in converted.graph.input if value.name not in aside]
    del converted.graph.input[:]
    converted.graph.input.extend(inputs)
    converted.graph.initializer.extend(weights)
    return converted


def _fold(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fold constants and batch norms, and remove what is then dead."""
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return onnxscript.optimizer.optimize(model, num_iterations=2, onnx_shape_inference=True)
    finally:
        logger.setLevel(level)
