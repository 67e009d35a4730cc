"""Converts ONNX models to linalg on static tensors; weights are stored outside of the IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from rammer_mlir.errors import RammerError
from rammer_mlir.frontends.imported import ImportedModel
from rammer_mlir.frontends.onnx.assembly import assemble
from rammer_mlir.frontends.onnx.hosting.partition import HostedGraph, needs_host, partition
from rammer_mlir.frontends.onnx.load import load
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.open_inputs import (
    fix_inputs,
    make_constant,
    open_signature,
    require_fixed,
)
from rammer_mlir.frontends.onnx.prepare import (
    finish,
    fold,
    prepare,
    refuse_size_independent_errors,
)
from rammer_mlir.frontends.onnx.source_folders import Source
from rammer_mlir.frontends.onnx.tensors import Array, dtype_of, static_shape
from rammer_mlir.programs.dimensions import PYTHON, Shapes, Sizes, Wording
from rammer_mlir.programs.host_program import Compute
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.support.garbage import paused_collector

__all__ = [
    "ImportedModel",
    "import_model",
    "import_open",
    "import_prepared",
    "prepare_any",
    "signature_of",
]

_MANY_NODES = 2000
"""Minimum number of nodes for which Python's garbage collector is paused during the import.

The pause saves about a second for large models.
"""


def import_model(
    source: Source | Model,
    *,
    shapes: Shapes | None = None,
    dims: Sizes | None = None,
    wording: Wording = PYTHON,
) -> ImportedModel:
    """Return an ONNX model as IR at the `linalg` stage, with the values of its weights.

    Args:
        source: a path, a serialized model, or a model; a loaded model is not modified.
        shapes: static shapes of inputs whose dimensions the model leaves open, by input name.
        dims: sizes of open dimensions, by the dimensions' names in the model.
        wording: how messages ask for missing sizes: as Python arguments, or command-line options.

    Raises:
        ModelError: if the model cannot be read or is not valid.
        ShapeError: if a shape is missing, or contradicts the model.
        UnsupportedError: with all nodes that cannot be compiled.
    """
    model = source.copy() if isinstance(source, Model) else load(source)
    fixed = fix_inputs(model, shapes or {}, dims or {}, wording)
    if fixed.signature.is_open:
        refuse_size_independent_errors(model)  # errors that no sizes resolve
    require_fixed(fixed.signature, wording)
    with paused_collector(len(model.graph.node) >= _MANY_NODES):
        return import_prepared(prepare(model))


def prepare_any(
    source: Model, shapes: Shapes, values: Mapping[str, Array], *, is_repeated: bool = False
) -> Model | HostedGraph:
    """Prepare a model for compilation, or partition it if it needs a host program.

    A model needs a host program if its control flow or its shapes depend on data.

    Args:
        source: a loaded model, not modified.
        shapes: shapes of inputs with open dimensions, by input name.
        values: values of inputs that become constants, by input name.
        is_repeated: whether the model runs in a loop, so that its inputs differ between runs.

    Returns:
        The prepared model, as ``prepare`` returns it, if a single static program can run the model;
        otherwise the host program, with the parts of the model that it calls.

    Raises:
        RammerError: if the model or the shapes are invalid, or operators cannot be compiled.
    """
    with paused_collector(len(source.graph.node) >= _MANY_NODES):
        # The weights that this preparation reads do not count for other preparations.
        model = replace(source.copy(), read=set())
        fix_inputs(model, shapes, {})
        for name, value in values.items():
            make_constant(model, name, value)
        folded = fold(model)
        if needs_host(folded.model):
            return partition(folded.model, is_repeated=is_repeated)
        return finish(folded)


def import_open(source: Model, *, is_repeated: bool = False) -> HostedGraph | None:
    """Partition a model into a host program and parts that run for any sizes of open dimensions.

    Returns None if the model needs no host program, or if no host program supports all sizes.

    Args:
        source: a loaded model, not modified.
        is_repeated: whether the model runs in a loop, so that its inputs differ between runs.
    """
    try:
        folded = fold(source.copy())
        if not needs_host(folded.model):
            return None
        graph = partition(folded.model, is_repeated=is_repeated)
    except RammerError:  # sizes may resolve it, or give a better message
        return None
    computes = [step for step in graph.program.steps if isinstance(step, Compute)]
    of_any_size = [
        step.padding is not None or not open_signature(graph.parts[step.call.part].model).is_open
        for step in computes
    ]
    return graph if all(of_any_size) else None


def import_prepared(model: Model) -> ImportedModel:
    """Convert a model that was returned by ``prepare`` to IR at the `linalg` stage.

    Raises:
        UnsupportedError: with all nodes that cannot be compiled.
    """
    with paused_collector(len(model.graph.node) >= _MANY_NODES):
        return ImportedModel(assemble(model), model.weights, signature_of(model))


def signature_of(model: Model) -> Signature:
    """Return names, shapes and dtypes of the inputs and outputs of a model with static shapes."""
    return Signature(
        tuple(_spec(value) for value in model.inputs),
        tuple(_spec(value) for value in model.graph.output),
    )


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    shape = static_shape(value)
    assert shape is not None, "preparation refuses open shapes"
    return TensorSpec(value.name, tuple(shape), dtype_of(value.type.tensor_type.elem_type))
