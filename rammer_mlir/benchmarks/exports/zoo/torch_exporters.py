"""Export PyTorch models with either of PyTorch's two exporters."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rammer_mlir.benchmarks.exports.zoo.native_operators import define_operators
from rammer_mlir.benchmarks.exports.zoo.table import Model

OPSET = 18

torch.backends.mha.set_fastpath_enabled(False)  # TorchScript has no symbol for its fused layers
define_operators()


def export(model: Model, exporter: str, path: Path) -> None:
    """Export a model to the ONNX file ``path``; named dimensions become open (dynamic).

    ``exporter`` is ``torchscript`` or ``dynamo``, with ``_half`` for 16-bit floats and ``@OPSET``
    for another opset than the default, as in ``torchscript_half@13``.
    """
    torch.manual_seed(0)
    kind, _, opset = exporter.partition("@")
    module = _varied(model.make().eval())
    # TorchScript records the Python branches that these sizes take.
    case = model.cases[min(2, len(model.cases) - 1)]
    rng = np.random.default_rng(0)
    args = tuple(torch.from_numpy(each.draw(case, rng)) for each in model.inputs)
    if kind.endswith("_half"):
        module = module.half()
        args = tuple(arg.half() if arg.is_floating_point() else arg for arg in args)
    write = _export_dynamo if kind.startswith("dynamo") else _export_script
    with torch.no_grad():
        write(model, module, args, path, int(opset) if opset else None)


def _varied(module: Any) -> Any:
    """Overwrite the module's all-zero parameter tensors with random numbers; return the module.

    Otherwise, all-zero results would hide errors.
    """
    for parameter in module.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return module


def _open(model: Model) -> list[dict[int, str]]:
    return [
        {axis: name.replace(" ", "") for axis, name in enumerate(i.shape) if isinstance(name, str)}
        for i in model.inputs
    ]


def _export_script(
    model: Model, module: Any, args: tuple[Any, ...], path: Path, opset: int | None
) -> None:
    names = [each.name for each in model.inputs]
    axes = {
        name: {axis: dim.replace("+", "_plus_") for axis, dim in dims.items()}
        for name, dims in zip(names, _open(model), strict=True)
    }
    torch.onnx.export(
        module,
        args,
        str(path),
        input_names=names,
        dynamic_axes=axes,
        opset_version=opset or OPSET,
        dynamo=False,
    )


def _export_dynamo(
    model: Model, module: Any, args: tuple[Any, ...], path: Path, opset: int | None
) -> None:
    names = [each.name for each in model.inputs]
    dynamic = [{axis: torch.export.Dim.DYNAMIC for axis in dims} for dims in _open(model)]
    shapes = _as_parameters(module, dynamic)
    torch.onnx.export(
        module,
        args,
        str(path),
        input_names=names,
        dynamic_shapes=shapes,
        opset_version=opset,
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _as_parameters(module: Any, dynamic: list[dict[int, Any]]) -> Any:
    """Return the open dimensions of a module's inputs for each parameter of its ``forward``.

    ``dynamic`` has a dictionary for each input: from the axis of an open dimension to the value
    that ``torch.export`` expects for it. The result is a tuple with an element for each parameter
    of ``forward``: a dictionary, or for a variadic parameter a tuple of dictionaries.
    """
    found: list[Any] = []
    for each in inspect.signature(module.forward).parameters.values():
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(tuple(dynamic[len(found) :]))
        else:
            found.append(dynamic[len(found)])
    return tuple(found[: len(dynamic)])
