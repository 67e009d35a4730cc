"""Exports PyTorch modules by ``torch.export``, and refuses unsupported programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rammer_mlir.errors import ModelError, OptionError, UnsupportedError
from rammer_mlir.frontends.onnx.model import first_line
from rammer_mlir.frontends.pytorch.package import pytorch


def exported_program(model: object, inputs: object, dynamic_shapes: object) -> Any:
    """Return the ``torch.export.ExportedProgram`` of a module, or the given program.

    Args:
        model: a ``torch.nn.Module`` in evaluation mode, or an exported program.
        inputs: example inputs of a module: a tensor, a sequence of positional arguments, or a
            mapping of arguments by name. None for an exported program.
        dynamic_shapes: as in ``torch.export.export``; an exported program does not use them.

    Raises:
        ModelError: if torch cannot export the module.
        OptionError: if example inputs are missing or superfluous.
        UnsupportedError: if the program mutates state, or the module is in training mode.
    """
    torch = pytorch()
    if isinstance(model, torch.export.ExportedProgram):
        if inputs is not None:
            raise OptionError("inputs: expected a module, found an exported program; leave it out")
        program: Any = model
    else:
        args, kwargs = example_arguments(inputs)
        program = _exported(cast("Any", model), args, kwargs, dynamic_shapes)
    if _mutates(program):
        program = program.run_decompositions({})  # after this, the signature lists all mutations
        _refuse_mutation(program)
    return program


def example_arguments(inputs: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a user's example inputs as positional and keyword arguments.

    A mapping contains keyword arguments by name, and a sequence contains positional arguments. Any
    other object is the only positional argument.

    Raises:
        OptionError: if ``inputs`` is None.
    """
    if inputs is None:
        raise OptionError(
            "inputs: expected example inputs of the module, found none; give a tuple of positional "
            "arguments or a dict of named ones"
        )
    if isinstance(inputs, Mapping):
        return (), {str(name): value for name, value in inputs.items()}
    if isinstance(inputs, Sequence):
        return tuple(inputs), {}
    return (inputs,), {}


def _exported(
    module: Any, args: tuple[object, ...], kwargs: dict[str, object], dynamic_shapes: object
) -> Any:
    torch = pytorch()
    kind = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            f"the module {kind} is TorchScript: expected a torch.nn.Module or an exported program; "
            "give the module that it was made from, or torch.export.export of that"
        )
    if module.training:
        raise UnsupportedError(
            f"the module {kind} is in training mode: expected evaluation mode; call its eval()"
        )
    args, kwargs = _without_aliases((args, kwargs))
    try:
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise ModelError(
            f"torch.export cannot export the module {kind}: {type(error).__name__}: "
            f"{first_line(error)}; torch.compile(module, backend='rammer') takes what can be"
        ) from error


def _without_aliases(arguments: Any) -> Any:
    """Return the nested structure ``arguments`` in which no tensor object occurs twice.

    Each occurrence of a tensor after the first is replaced by a copy, because ``torch.export``
    would merge arguments that are the same object.
    """
    torch = pytorch()
    seen: set[int] = set()

    def distinct(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or id(value) not in seen:
            seen.add(id(value))
            return value
        return value.clone()

    return torch.utils._pytree.tree_map(distinct, arguments)


def _mutates(program: Any) -> bool:
    """Return whether a program may mutate a value, such as an input or a buffer.

    This is so if an operation may write to an operand, or if the program's signature lists updated
    values as additional outputs.
    """
    kinds = pytorch().export.graph_signature.OutputKind
    if any(s.kind is not kinds.USER_OUTPUT for s in program.graph_signature.output_specs):
        return True
    modules = [m for m in program.graph_module.modules() if hasattr(m, "graph")]
    schemas = [getattr(n.target, "_schema", None) for m in modules for n in m.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _refuse_mutation(program: Any) -> None:
    """Refuse programs that mutate buffers, parameters or inputs.

    Raises:
        UnsupportedError: names the mutated value.
    """
    kinds = pytorch().export.graph_signature.OutputKind
    for spec in program.graph_signature.output_specs:
        if spec.kind is not kinds.USER_OUTPUT:
            changed = spec.kind.name.lower().replace("_", " ")
            raise UnsupportedError(
                f"the exported program changes '{spec.target or spec.arg.name}' ({changed}): "
                "expected a program without side effects; return the new value as an output"
            )
