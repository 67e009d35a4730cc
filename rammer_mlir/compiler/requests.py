"""What users give as a model, for the front end that it is for."""

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
"""A model of one of the front ends."""


def given_source(
    model: object,
    external_data: str | os.PathLike[str] | None = None,
    entry: object = None,
    constants: object = None,
    flags: str = "",
    inputs: object = None,
    dynamic_shapes: object = None,
) -> AnySource:
    """Return what is given as a model, with what belongs to it.

    Args:
        model: MLIR, or what the ONNX front end takes.
        external_data: a folder with files of an ONNX model's data.
        entry: the function of an MLIR module.
        constants: weights of an MLIR module.
        flags: how options begin in messages: ``--`` on the command line.
        inputs: example inputs of a module of PyTorch.
        dynamic_shapes: open dimensions of a module or program of PyTorch.

    Raises:
        ModelError: if it is none of the kinds of models, or cannot be read.
        OptionError: if an option does not go with the kind of model.
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
