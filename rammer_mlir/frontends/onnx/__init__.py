"""The ONNX front end: models become linalg on static tensors, with their weights beside them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rammer_mlir.frontends.onnx.assembly import assemble
from rammer_mlir.frontends.onnx.given import Source
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.open_inputs import fix_inputs, require_fixed
from rammer_mlir.frontends.onnx.prepare import prepare, refuse_whatever_the_sizes
from rammer_mlir.frontends.onnx.tensors import Array, dtype_of, static_shape
from rammer_mlir.programs.dimensions import PYTHON, Shapes, Sizes, Wording
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.support.garbage import paused_collector

_MANY_NODES = 2000
"""Nodes from which the garbage collector would take a second; smaller models do not touch it."""


@dataclass(frozen=True)
class ImportedModel:
    """A model at the `linalg` stage.

    Attributes:
        bytecode: MLIR bytecode of a module with one ``func.func @main``.
        constants: values of the arguments marked ``rtask.constant``, by name.
        signature: inputs and outputs in the model's order, with ONNX's element types.
    """

    bytecode: bytes
    constants: dict[str, Array]
    signature: Signature


def import_model(
    source: Source | Model,
    *,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    wording: Wording = PYTHON,
) -> ImportedModel:
    """Import an ONNX model.

    Args:
        source: a path, a serialized model, or a model; one that is loaded stays as it is.
        shapes: static shapes of inputs whose dimensions the model leaves open, by name.
        dims: sizes of open dimensions, by the name that the model gives them.
        wording: how messages ask for them.

    Raises:
        ModelError: if the model cannot be read or is not valid.
        ShapeError: if a shape is missing, or contradicts the model.
        UnsupportedError: naming all nodes that cannot be compiled.
    """
    model = source.copy() if isinstance(source, Model) else load(source)
    fixed = fix_inputs(model, shapes or {}, dims or {}, wording)
    if fixed.signature.is_open:
        refuse_whatever_the_sizes(model)  # sizes would not mend that
    require_fixed(fixed.signature, wording)
    with paused_collector(len(model.graph.node) >= _MANY_NODES):
        model = prepare(model)
        signature = Signature(
            tuple(_spec(value) for value in model.inputs),
            tuple(_spec(value) for value in model.graph.output),
        )
        return ImportedModel(assemble(model), model.weights, signature)


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    shape = static_shape(value)
    assert shape is not None, "preparation refuses open shapes"
    return TensorSpec(value.name, tuple(shape), dtype_of(value.type.tensor_type.elem_type))
