"""Reads the input of ``rammer-opt``: one or more modules as text, bytecode, or an ONNX model."""

from __future__ import annotations

import argparse

from rammer_mlir import dialects
from rammer_mlir.bindings import ir, irdl
from rammer_mlir.cli.common import STREAM, read_input
from rammer_mlir.cli.model_options import parse_dims, parse_shapes, single_sizes, source_of
from rammer_mlir.cli.opt_tool.diagnostics import UNNAMED
from rammer_mlir.errors import OptionError
from rammer_mlir.programs.dimensions import COMMAND_LINE
from rammer_mlir.support.log import logged_seconds

_BYTECODE = b"ML\xefR"
_ONNX = b"\x08"  # the first field of a ModelProto; no IR begins with this control character

ModuleSource = str | bytes
"""Text of a module, padded to keep its line numbers in the file, or a module's bytecode."""


def input_name(options: argparse.Namespace) -> str:
    """Return the name of the input for diagnostics; ``<stdin>`` for standard input."""
    name: str = options.input
    return "<stdin>" if name == STREAM else name


def read_sources(options: argparse.Namespace) -> list[ModuleSource]:
    """Return the modules of the input, each as text or bytecode.

    ``--split-input-file`` splits a text into several modules. An ONNX model is imported, and its IR
    becomes bytecode.

    Raises:
        OptionError: if the input cannot be read, or has an unknown format.
        RammerError: if an ONNX model cannot be imported.
    """
    data = read_input(options.input)
    if data.startswith(_BYTECODE):
        return [data]
    if options.input.endswith(".onnx") or data.startswith(_ONNX):
        return [_imported(options, data)]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise OptionError(
            f"'{options.input}': expected MLIR text, MLIR bytecode or an ONNX model, found neither"
        ) from None
    return [text] if options.split_input_file is None else _split(text, options.split_input_file)


def _imported(options: argparse.Namespace, data: bytes) -> bytes:
    from rammer_mlir.frontends.onnx import import_model

    source = source_of(options, data if options.input == STREAM else options.input)
    dims = single_sizes(parse_dims(options.dim), "for IR of static shapes")
    shapes = parse_shapes(options.shape)
    with logged_seconds("import"):
        return import_model(source, shapes=shapes, dims=dims, wording=COMMAND_LINE).bytecode


def _split(text: str, marker: str) -> list[ModuleSource]:
    sources: list[ModuleSource] = []
    part: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if line.startswith(marker):
            sources.append("\n".join(part))
            part = [""] * (number + 1)  # padding keeps line numbers
        else:
            part.append(line)
    return [*sources, "\n".join(part)]


def load_irdl(file: str, context: ir.Context) -> None:
    """Load the dialects that a file defines in IRDL.

    Raises:
        OptionError: if the file cannot be read, or defines no dialects.
    """
    data = read_input(file)
    try:
        with context:
            irdl.load_dialects(ir.Module.parse(data.decode()))
    except (ir.MLIRError, UnicodeDecodeError, ValueError, RuntimeError) as error:
        found = str(error).strip().splitlines()[-1]
        raise OptionError(f"--irdl-file: '{file}': expected IRDL, found: {found}") from error


def parse_source(source: ModuleSource, *, implicit_module: bool) -> ir.Module:
    """Parse the text or bytecode of a module into the current context, and return the module.

    If text has no top-level module operation and ``implicit_module`` is True, the parser adds a
    module operation around the text's operations.

    Raises:
        AssemblyError: if text is not in the readable form of the rtask dialect.
        MLIRError: if MLIR or a verifier refuses the module.
        OptionError: if ``implicit_module`` is False and the text has no top-level module operation.
    """
    module = dialects.parse(source)
    if not implicit_module and not _has_location(module):
        raise OptionError(
            "--no-implicit-module: expected one 'builtin.module' as top-level operation, found "
            "others; write 'module { ... }' around them"
        )
    return module


def _has_location(module: ir.Module) -> bool:
    """Whether ``module`` is written in the input's text; False if MLIR's parser added it.

    MLIR gives an added module the line 0.
    """
    location = module.operation.location
    return not isinstance(location, ir.FileLineColLoc) or location.start_line > 0


def name_locations(module: ir.Module, name: str) -> None:
    """Replace the file name ``UNNAMED`` by ``name`` in all locations of ``module``.

    MLIR gives the name ``UNNAMED`` to locations in text that it parsed from memory.
    """

    def rename(op: ir.Operation) -> ir.WalkResult:
        found = _named(op.location, name)
        if found is not None:
            op.location = found
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    found = _named(argument.location, name)
                    if found is not None:
                        argument.set_location(found)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(rename)


def _named(location: ir.Location, name: str) -> ir.Location | None:
    """Return ``location`` with file name ``name`` instead of ``UNNAMED``.

    Return None if ``location`` has another file name, or is neither a file location nor a named
    file location.
    """
    if isinstance(location, ir.FileLineColLoc) and location.filename == UNNAMED:
        return ir.Location.file(name, location.start_line, location.start_col)
    if isinstance(location, ir.NameLoc):
        child = _named(location.child_loc, name)
        return None if child is None else ir.NameLoc.get(location.name_str, child)
    return None
