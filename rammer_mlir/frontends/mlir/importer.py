"""Imports an MLIR module, at any compiler stage up to `program`.

Each public function of the module becomes an ``MlirEntry``, which can be compiled.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.errors import ModelError, OptionError, PassError, UnsupportedError
from rammer_mlir.frontends.imported import ImportedModel
from rammer_mlir.frontends.mlir.argument_attributes import check_marks
from rammer_mlir.frontends.mlir.dimensions import bind_dimensions
from rammer_mlir.frontends.mlir.interface import (
    check_weights,
    drop_elided_values,
    name_interface,
    open_signature,
    static_signature,
)
from rammer_mlir.frontends.mlir.load import parse, refuse
from rammer_mlir.frontends.mlir.sources import MlirSource
from rammer_mlir.frontends.mlir.stages import LINALG, LOWERED, PROGRAM, STAGES, stage_of
from rammer_mlir.passes.ir.cloning import copy_module
from rammer_mlir.passes.ir.entry import entry_function, functions, is_private, symbol_name
from rammer_mlir.passes.legalization.front_ends import structure_control_flow
from rammer_mlir.passes.legalization.rules import check_given, check_interface
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.programs.dimensions import OpenSignature, Shapes

_LEGALIZE = "builtin.module(rtask-legalize)"
_UNUSED_DROPPED = "builtin.module(symbol-dce)"
_VERIFY = "builtin.module(rtask-verify-schedule)"

_SCRIPTS = ("transform", "pdl", "irdl")
"""Dialects whose top-level operations, scripts for MLIR tools, are erased."""


@dataclass(frozen=True)
class MlirEntry:
    """A public function of an MLIR module, to be compiled.

    Attributes:
        name: name of the function.
        module: a module in which only this function is public; never modified.
        stage: the compiler stage of the module.
        signature: inputs and outputs; each dynamic dimension (``?``) has a symbol.
        constants: values of weights that the module declares without values, by name.
        file: name of the module in messages.
    """

    name: str
    module: ir.Module
    stage: str
    signature: OpenSignature
    constants: Mapping[str, NDArray[np.generic]]
    file: str

    @property
    def num_veus(self) -> int | None:
        """Number of vEUs of the function's schedule; None if the function is not scheduled yet."""
        with self.module.context:
            programs = [
                op.operation
                for op in entry_function(self.module).operation.regions[0].blocks[0].operations
                if op.operation.name == "rtask.program"
            ]
            counts = [ir.IntegerAttr(op.attributes["num_veus"]).value for op in programs]
        return max(counts, default=None)

    def bound(self, shapes: Shapes) -> ImportedModel:
        """Return the function as IR for the compiler, with static shapes of its inputs.

        ``shapes`` has the shape of each input, by input name.

        Raises:
            UnsupportedError: with all operations that cannot be compiled, and their locations.
            ModelError: if a weight has no value.
        """
        with self.module.context, ir.Location.unknown():
            module = copy_module(self.module)
            main = entry_function(module)
            try:
                if self.stage == LINALG:
                    inputs = [shapes[tensor.name] for tensor in self.signature.inputs]
                    bind_dimensions(module, main, inputs)
                    run_pipeline(module, _LEGALIZE)
                elif self.stage == PROGRAM:
                    run_pipeline(module, _VERIFY)
            except PassError as error:
                refuse(error, self.file)
            main = entry_function(module)
            check_weights(main, self.constants, self.file)
            drop_elided_values(main)
            name_interface(main)
            signature = static_signature(main, self.file)
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer)
        return ImportedModel(buffer.getvalue(), self.constants, signature, self.stage, self.file)


def read_entries(source: MlirSource) -> list[MlirEntry]:
    """Return the public functions of a module, or only ``source.entry`` if it is given.

    Raises:
        ModelError: if the module cannot be parsed, or has no public function.
        OptionError: if ``source.entry`` names no public function.
        UnsupportedError: for IR of a stage after `program`, and for unsupported types of arguments
            or results.
    """
    module = parse(source)
    with module.context, ir.Location.unknown():
        stage = stage_of(module)
        if stage is None:
            raise UnsupportedError(
                f"{source.name}: expected IR of one of the stages {', '.join(STAGES)}, found "
                f"{' or '.join(LOWERED)} of a later one, whose schedule is not in the IR; give "
                f"the stage '{PROGRAM}'"
            )
        return [_entry(module, name, stage, source) for name in _names(module, source)]


def _names(module: ir.Module, source: MlirSource) -> list[str]:
    """Return the names of the functions to compile: ``source.entry``, or all public functions.

    Raises OptionError if ``source.entry`` is not a public function of the module, and ModelError if
    the module has no public function.
    """
    public = [
        symbol_name(function)
        for function in functions(module)
        if not is_private(function) and function.operation.regions[0].blocks
    ]
    listed = ", ".join(map(repr, public)) or "none"
    if source.entry is not None:
        if source.entry not in public:
            raise OptionError(
                f"entry: expected a public function of {source.name}, {listed}, found "
                f"'{source.entry}'"
            )
        return [source.entry]
    if not public:
        raise ModelError(
            f"{source.name}: expected a public func.func with a body, found none; make the "
            "function to compile public"
        )
    return public


def _drop_nested(module: ir.Module) -> None:
    """Erase nested modules, and scripts for MLIR tools (dialects ``transform``, ``pdl``, ``irdl``).

    Top-level functions cannot call functions of a nested module or of a script.
    """
    for op in list(module.body.operations):
        dialect = op.operation.name.partition(".")[0]
        if op.operation.name == "builtin.module" or dialect in _SCRIPTS:
            op.operation.erase()


def _entry(module: ir.Module, name: str, stage: str, source: MlirSource) -> MlirEntry:
    own = copy_module(module)
    _drop_nested(own)
    for function in functions(own):
        if symbol_name(function) != name:
            function.operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
    main = entry_function(own)
    try:
        check_marks(main)
        if stage == LINALG:
            run_pipeline(own, _UNUSED_DROPPED)
            structure_control_flow(own)
            main = entry_function(own)
            check_interface(main)
            check_given(own)
            name_interface(main)
        signature = open_signature(main, source.name)
    except PassError as error:
        refuse(error, source.name)
    return MlirEntry(name, own, stage, signature, source.constants, source.name)
