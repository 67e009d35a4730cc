"""Checks options for models with open dimensions, and describes such models."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import OptionError
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.open_models.entries import EntriesModel
from rammer_mlir.open_models.model import OpenModel
from rammer_mlir.open_models.tree import ComposedModel
from rammer_mlir.programs.dimensions import (
    COMMAND_LINE,
    OpenSignature,
    OpenTensor,
    Shapes,
    Sizes,
    bind,
    describe_open,
    shape_text,
    sizes_text,
)
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.compiled import RunnableModel

Arrays = Mapping[str, NDArray[np.generic]]


def chosen_entry(options: argparse.Namespace, model: RunnableModel) -> RunnableModel:
    """Return the model's function that ``--entry`` names; ``model`` itself if it has one function.

    Raises:
        OptionError: if the model has several functions, and ``--entry`` is missing or is not the
            name of one of them; or if ``--entry`` is given for an artifact with a single function.
    """
    if not isinstance(model, EntriesModel):
        if options.entry is not None and model.reload is not None:
            raise OptionError(
                f"--entry: expected an artifact of several functions, found '{options.model}' of "
                "one; leave it out"
            )
        return model
    if options.entry in model.entries:
        return model.entries[options.entry]
    found = "none" if options.entry is None else f"'{options.entry}'"
    names = ", ".join(map(repr, model.entries))
    raise OptionError(f"--entry: expected one of the functions {names}, found {found}")


def refuse_weights(options: argparse.Namespace) -> None:
    """Refuse options that give weights for an artifact, which contains its weights.

    Raises:
        OptionError: if ``--external-data`` or ``--constants`` is given.
    """
    for name, kind in (("external_data", "ONNX model"), ("constants", "MLIR module")):
        if getattr(options, name) is not None:
            raise OptionError(
                f"--{name.replace('_', '-')}: expected an {kind}, but '{options.model}' holds its "
                "weights; leave the option out"
            )


def require_sizes(model: OpenModel) -> NoReturn:
    """Raise an error that requests sizes: random inputs need a size for each open dimension.

    Raises:
        OptionError: always; the message names the open dimensions and the options that bind them.
    """
    raise OptionError(_advice(model.signature))


def _advice(signature: OpenSignature) -> str:
    return (
        f"the model leaves {describe_open(signature)} open: give {COMMAND_LINE.ask(signature)}, or "
        "arrays with --inputs"
    )


def static_signature(model: ComposedModel, dims: Sizes, shapes: Shapes) -> Signature:
    """Return the signature of a specialization: the inputs have static shapes, outputs are omitted.

    ``dims`` (sizes by symbol) and ``shapes`` (shapes by input name) select the specialization.

    Raises:
        OptionError: if ``dims`` has an unknown symbol, or if an open dimension of the model gets no
            size or two different sizes; or if an input is a sequence or optional.
    """
    signature = model.signature
    for tensor in signature.inputs:
        if not tensor.is_tensor:
            names = f"'{tensor.name}/0', '{tensor.name}/1'"
            arrays = f"arrays {names}" if _is_sequence(tensor) else f"an array '{tensor.name}'"
            raise OptionError(
                f"input '{tensor.name}' is a sequence or optional: expected --inputs, found none; "
                f"give a file with {arrays}"
            )
    unknown = [symbol for symbol in dims if symbol not in signature.symbols]
    if unknown:
        known = ", ".join(f"'{symbol}'" for symbol in signature.symbols) or "none"
        raise OptionError(
            f"--dim: unknown dimension '{unknown[0]}': the model's open dimensions are {known}"
        )
    bound = bind(signature, shapes, dims, "--dim")
    if bound.problems:
        raise OptionError(f"{'; '.join(bound.problems)}: give each dimension one size")
    rest = signature.with_sizes(bound.sizes)
    if rest.symbols or set(rest.unranked) - shapes.keys():
        sizes = model.specializations if isinstance(model, OpenModel) else []
        held = f"; the artifact holds {'; '.join(map(sizes_text, sizes))}" if sizes else ""
        raise OptionError(f"{_advice(rest)}{held}")
    static = signature.shapes(bound.sizes, shapes)
    return Signature(
        tuple(TensorSpec(t.name, static[t.name], _dtype(t)) for t in signature.inputs), ()
    )


def _dtype(tensor: OpenTensor) -> np.dtype[np.generic]:
    assert tensor.dtype is not None, "inputs have types"
    return tensor.dtype


def described(model: RunnableModel) -> str:
    """Return a text that describes a model: its target, vEUs, inputs and outputs, each on a line.

    Further lines list the specializations of a model with open dimensions, or the steps of a host
    program. A model with several functions has such a text for each function.
    """
    if isinstance(model, EntriesModel):
        return "\n".join(f"entry '{name}'\n{described(m)}" for name, m in model.entries.items())
    lines = [f"target           {model.target}", f"vEUs             {model.num_veus}"]
    for kind, tensors in (("input", model.signature.inputs), ("output", model.signature.outputs)):
        for tensor in tensors:
            shape = "any" if tensor.shape is None else shape_text(tensor.shape)
            label = f"{kind} '{tensor.name}'"
            lines.append(f"{label:<16} {shape} {tensor.dtype or ''}".rstrip())
    if isinstance(model, OpenModel):
        lines += [f"specialization   {sizes_text(sizes)}" for sizes in model.specializations]
    if isinstance(model, HostedModel):
        lines.append(model.summary)
    return "\n".join(lines)


def given_inputs(specs: Sequence[TensorSpec | OpenTensor], arrays: Arrays) -> dict[str, Any]:
    """Return a model's inputs from the arrays of an ``.npz`` file.

    Such a file stores arrays with dtypes of ml_dtypes, for example bfloat16, as raw bytes; their
    dtypes, which ``specs`` has by name, are restored. The elements of a sequence ``x`` are the
    arrays ``x/0``, ``x/1`` and so on.
    """
    found: dict[str, Any] = dict(arrays)
    for spec in specs:
        if isinstance(spec, OpenTensor) and _is_sequence(spec):
            elements: list[NDArray[np.generic]] = []
            while (element := found.pop(f"{spec.name}/{len(elements)}", None)) is not None:
                elements.append(
                    _typed(element, spec.host_type.dtype) if spec.host_type else element
                )
            if elements:
                found[spec.name] = elements
        elif spec.name in arrays and (dtype := _dtype_of(spec)) is not None:
            found[spec.name] = _typed(arrays[spec.name], dtype)
    return found


def _dtype_of(spec: TensorSpec | OpenTensor) -> np.dtype[np.generic] | None:
    if isinstance(spec, OpenTensor) and spec.host_type is not None:
        return spec.host_type.dtype
    return spec.dtype


def _is_sequence(spec: OpenTensor) -> bool:
    """Whether an input may be a sequence; old artifacts do not tell sequences from optionals."""
    return not spec.is_tensor and (spec.host_type is None or spec.host_type.is_sequence)


def _typed(array: NDArray[np.generic], wanted: np.dtype[np.generic]) -> NDArray[np.generic]:
    is_raw = wanted.isbuiltin != 1 and array.dtype == f"V{wanted.itemsize}"
    return array.view(wanted) if is_raw else array
