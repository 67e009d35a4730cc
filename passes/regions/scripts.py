"""Runs scripts of MLIR's transform dialect, which annotate operations as composites."""

from __future__ import annotations

from pathlib import Path

from rammer_mlir.bindings import ir, submodule
from rammer_mlir.errors import OptionError, PassError
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import COMPOSITE, entry_block
from rammer_mlir.passes.regions.annotations import Mark, mark_of, set_mark
from rammer_mlir.passes.regions.readings import read
from rammer_mlir.passes.regions.weights import weights_of

_MAIN = "__transform_main"


def apply_script(module: ir.Module, path: Path) -> None:
    """Run a script's ``@__transform_main`` on a module; number the composites that it annotates.

    The script sets the attribute ``rtask.composite`` of operations. Its value is one of these:

    - a string, the composite's name: the operation forms a separate match, together with preceding
      operations that are recognized as part of it, such as the padding before a convolution
    - the whole attribute, with name and match number: operations with equal attributes form a match

    Raises:
        OptionError: if the file cannot be read.
        PassError: if the file is not a script, or the script fails.
        OperationError: if an annotation has no name.
    """
    script = _parse(module.context, path)
    main = _main_sequence(script, path)
    interpreter = submodule("dialects.transform.interpreter")
    try:
        interpreter.apply_named_sequence(module, main, script)
    except (ir.MLIRError, ValueError) as error:
        raise PassError(f"script '{path}': expected it to succeed, found {_line(error)}") from error
    _number_composites(module)


def _parse(context: ir.Context, path: Path) -> ir.Module:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"script: expected a file of MLIR, found '{path}': {error}") from error
    with context, ir.Location.unknown():
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            raise PassError(f"script '{path}': expected MLIR, found {_line(error)}") from error


def _main_sequence(script: ir.Module, path: Path) -> ir.Operation:
    for op in script.body.operations:
        attributes = op.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == _MAIN:
            return op.operation
    raise PassError(
        f"script '{path}': expected a transform.named_sequence @{_MAIN}, found none; add one"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _number_composites(module: ir.Module) -> None:
    block, weights = entry_block(module), weights_of(module)
    operations = [op for op in block.operations if COMPOSITE in op.operation.attributes]
    named = [op for op in operations if isinstance(_value(op), ir.StringAttr | ir.UnitAttr)]
    given = [mark_of(op.operation, COMPOSITE) for op in operations if op not in named]
    number = max((mark.number + 1 for mark in given if mark is not None), default=0)
    for op in named:
        value = _value(op)
        if not isinstance(value, ir.StringAttr) or not value.value:
            raise OperationError(
                op,
                f"attribute '{COMPOSITE}': expected a name, found none; give transform.annotate a "
                'parameter, for example transform.param.constant "codegen.name"',
            )
        reading = read(op, weights)
        whole = [op.operation] if reading is None else list(reading.operations)
        members = [each for each in whole if isinstance(each, ir.Operation)]
        set_mark(members, COMPOSITE, Mark(value.value, number))
        number += 1


def _value(op: ir.OpView) -> ir.Attribute:
    return op.operation.attributes[COMPOSITE]
