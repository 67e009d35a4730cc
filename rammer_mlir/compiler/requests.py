"""Selects the front end for a model, by the kind of model that the user passes."""

from __future__ import annotations

import os
from dataclasses import replace

from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.jax.package import is_lowered_function
from rammer_mlir.frontends.mlir.sources import MlirSource, mlir_source_of, read_constants
from rammer_mlir.frontends.onnx.source_folders import Source, with_folder
from rammer_mlir.frontends.onnx.sources import source_of
from rammer_mlir.frontends.pytorch.package import is_pytorch_model

AnySource = Source | MlirSource
"""An ONNX model or an MLIR module, in the form that its front end reads."""


def given_source(
    model: object,
    external_data: str | os.PathLike[str] | None = None,
    entry: object = None,
    constants: object = None,
    flags: str = "",
    inputs: object = None,
    dynamic_shapes: object = None,
) -> AnySource:
    """Return a model in the form that its front end reads, with the options for its kind.

    Args:
        model: MLIR, or any form of model that the ONNX front end accepts.
        external_data: folder with external data files of an ONNX model.
        entry: name of the function to compile in an MLIR module; None for all public functions.
        constants: weights of an MLIR module: arrays by name, or an ``.npz`` file.
        flags: prefix of options in messages: ``--`` on the command line.
        inputs: example inputs of a PyTorch module.
        dynamic_shapes: open dimensions of a PyTorch module or program.

    Raises:
        ModelError: if the kind of model is unknown, or the model cannot be read.
        OptionError: if an option does not apply to the kind of model.
    """
    names = [f"{flags}{name}" for name in ("external_data", "entry", "constants")]
    if flags:
        names = [name.replace("_", "-") for name in names]
    if is_pytorch_model(model):
        # Imports onnx_ir, which a path to a model does not need.
        from rammer_mlir.frontends.pytorch.conversion import convert

        model = convert(model, inputs, dynamic_shapes).source
    else:
        for name, value in (("inputs", inputs), ("dynamic_shapes", dynamic_shapes)):
            if value is not None:
                raise OptionError(
                    f"{name}: expected a module of PyTorch, found another model; leave it out"
                )
    if is_lowered_function(model):
        from rammer_mlir.frontends.jax.lowering import stablehlo_of

        model = stablehlo_of(model)
    found = mlir_source_of(model)
    if found is None:
        for name, value in zip(names[1:], (entry, constants), strict=True):
            if value is not None:
                raise OptionError(f"{name}: expected an MLIR module, found another; leave it out")
        return with_folder(source_of(model), external_data, names[0])
    if external_data is not None:
        raise OptionError(f"{names[0]}: expected an ONNX model, found MLIR; leave it out")
    if entry is not None and not isinstance(entry, str):
        raise OptionError(f"{names[1]}: expected the name of a function, found {entry!r}")
    return replace(found, entry=entry, constants=read_constants(constants, names[2]))
