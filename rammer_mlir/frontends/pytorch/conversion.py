"""Converts exported programs to ONNX models whose weights stay in torch's memory."""

from __future__ import annotations

import copy
import dataclasses
import logging
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.model import first_line
from rammer_mlir.frontends.onnx.source_folders import ModelWithData
from rammer_mlir.frontends.onnx.sources import with_data
from rammer_mlir.frontends.pytorch.exporting import exported_program
from rammer_mlir.frontends.pytorch.interface import Interface, Leaf, interface_of
from rammer_mlir.frontends.pytorch.package import pytorch

if TYPE_CHECKING:
    import onnx_ir

_RANDOM = frozenset(
    (
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike",
    )
)  # fmt: skip
"""ONNX operators that draw random numbers, which would differ from torch's."""


_COLORS = re.compile("\x1b" + r"\[[0-9;]*m")
"""Terminal color codes in the exporter's messages."""


@dataclass(frozen=True)
class ConvertedProgram:
    """A PyTorch program as a model for the ONNX front end.

    Attributes:
        source: the ONNX model; its weights are in torch's memory.
        interface: the nested structure of the program's arguments and results.
    """

    source: ModelWithData
    interface: Interface


def convert(
    model: object, inputs: object = None, dynamic_shapes: object = None
) -> ConvertedProgram:
    """Convert a ``torch.nn.Module`` or ``torch.export.ExportedProgram`` to an ONNX model.

    Args:
        model: the module, in evaluation mode, or the exported program; not modified.
        inputs: example inputs of a module: a tensor, a sequence of positional arguments, or a
            mapping of arguments by name. None for an exported program.
        dynamic_shapes: open dimensions, as in ``torch.export.export``.

    Raises:
        MissingPackageError: if torch is not installed, or too old.
        ModelError: if torch cannot export the module.
        OptionError: if example inputs are missing or superfluous.
        UnsupportedError: if the program cannot be expressed in ONNX.
    """
    program = exported_program(model, inputs, dynamic_shapes)
    interface, symbols = interface_of(program, dynamic_shapes)
    graph = _onnx_model(_with_tensors_alone(program))
    _refuse_random_numbers(graph)
    _name_outputs(graph, interface.outputs)
    _name_inputs(graph, interface.inputs)
    source = with_data(graph)
    _name_symbols(source.proto, symbols)
    return ConvertedProgram(source, interface)


def _with_tensors_alone(program: Any) -> Any:
    """Return a program that returns its first tensor result in place of each constant result.

    ``torch.onnx`` cannot convert constant results, and removing them breaks torch's passes, which
    count results. Raises UnsupportedError if no result is a tensor.
    """
    signature = program.graph_signature
    is_constant = [type(s.arg).__name__ == "ConstantArgument" for s in signature.output_specs]
    if not any(is_constant):
        return program
    if all(is_constant):
        raise UnsupportedError(
            "the exported program returns constants alone: expected a tensor among its results"
        )
    module = copy.deepcopy(program.graph_module)
    returned = module.graph.output_node()
    place = is_constant.index(False)
    tensor, spec = returned.args[0][place], signature.output_specs[place]
    returned.args = (
        tuple(
            tensor if constant else value
            for value, constant in zip(returned.args[0], is_constant, strict=True)
        ),
    )
    module.recompile()
    specs = [
        dataclasses.replace(each, arg=spec.arg) if constant else each
        for each, constant in zip(signature.output_specs, is_constant, strict=True)
    ]
    return program._update(module, dataclasses.replace(signature, output_specs=specs))


def _onnx_model(program: Any) -> onnx_ir.Model:
    torch = pytorch()
    try:
        with _quiet_exporter():
            return torch.onnx.export(program, dynamo=True, verbose=False).model
    except Exception as error:
        raise UnsupportedError(
            f"torch.onnx cannot convert the program: {_reason(error)}"
        ) from error


@contextmanager
def _quiet_exporter() -> Generator[None]:
    """Return a context in which torch.onnx logs only errors."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: Exception) -> str:
    """Return the type and the first line of the innermost cause of the exporter's error."""
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    inner = causes[-1]
    text = first_line(inner) if isinstance(inner, Exception) else type(inner).__name__
    return f"{type(inner).__name__}: {_COLORS.sub('', text)}"


def _refuse_random_numbers(model: onnx_ir.Model) -> None:
    for node in model.graph.all_nodes():
        if node.op_type in _RANDOM and node.domain == "":
            raise UnsupportedError(
                f"the program draws random numbers ({node.op_type}, node '{node.name}'): expected "
                "a function of its inputs; give the numbers as an input"
            )


def _name_inputs(model: onnx_ir.Model, leaves: Sequence[Leaf]) -> None:
    """Rename the model's inputs, in order, to the names in ``leaves``.

    ``leaves`` are the program's flattened arguments: the name of each tensor, and the constants,
    which the model does not have as inputs. Renaming is necessary because the exporter changes
    names of inputs that are also outputs.

    Raises:
        UnsupportedError: if the count of the model's inputs differs from the count of names.
    """
    inputs = model.graph.inputs
    names = [leaf for leaf in leaves if isinstance(leaf, str)]
    if len(inputs) != len(names):
        raise UnsupportedError(
            f"torch.onnx gives {len(inputs)} inputs: expected {len(names)}, as the program does"
        )
    for value, name in zip(inputs, names, strict=True):
        value.name = name


def _name_outputs(model: onnx_ir.Model, leaves: Sequence[Leaf]) -> None:
    """Rename the model's outputs to the names in ``leaves``, and remove constant outputs.

    ``leaves`` has one leaf for each output, in order: the name of a tensor, or a constant. An
    output that is also an input, a weight or an earlier output is copied, so that it can have its
    own name.

    Raises:
        UnsupportedError: if the count of the model's outputs differs from the count of leaves.
    """
    import onnx_ir

    outputs = model.graph.outputs
    if len(outputs) != len(leaves):
        raise UnsupportedError(
            f"torch.onnx gives {len(outputs)} outputs: expected {len(leaves)}, as the program does"
        )
    names = [leaf for leaf in leaves if isinstance(leaf, str)]
    values = [value for value, leaf in zip(outputs, leaves, strict=True) if isinstance(leaf, str)]
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if value.name in names:
                value.name = f"{value.name}_value"
    outputs.clear()
    for value, name in zip(values, names, strict=True):
        if value.producer() is None or value in outputs:
            identity = onnx_ir.node("Identity", [value])
            model.graph.append(identity)
            identity.outputs[0].shape, identity.outputs[0].type = value.shape, value.type
            value = identity.outputs[0]
        value.name = name
        outputs.append(value)


def _name_symbols(proto: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Rename the symbols of open dimensions in a model, also within expressions of symbols.

    ``names`` maps torch's names to new names.
    """
    if not names:
        return
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    values = (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)
    for value in values:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = pattern.sub(
                    lambda found: names[found[0]], dimension.dim_param
                )
