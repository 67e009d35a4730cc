"""Converts a region to an input program of IREE's compiler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.codegens.iree.operations import ELEMENT_TYPES
from rammer_mlir.passes.regions.region import Region
from rammer_mlir.support.aligned import aligned_bytes

_OUTPUT = "iree.abi.output"
"""Attribute of a function argument that is the buffer of a result."""

_NAME = "NAME"

SECONDS = 120.0
"""Default time limit for compiling a region, in seconds; IREE's compiler can take very long."""


@dataclass(frozen=True)
class Tensor:
    """The shape and element type of an operand."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def num_bytes(self) -> int:
        """The size of the operand in bytes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def array(self) -> NDArray[np.generic]:
        """Return an array of zeros of this shape and type, aligned to a cache line."""
        return aligned_bytes(self.num_bytes).view(self.dtype).reshape(self.shape)

    def random(self, seed: int) -> NDArray[np.generic]:
        """Return an array with small, mostly distinct random numbers, aligned to a cache line."""
        numbers = np.random.default_rng(seed).standard_normal(4093)
        found = self.array()
        found[...] = np.resize(numbers if self.dtype.kind == "f" else numbers * 16, self.shape)
        return found


@dataclass(frozen=True)
class Program:
    """A region as MLIR text with a single function: its arguments are the inputs, then the outputs.

    Attributes:
        lines: the MLIR module, in which the function is called ``NAME``.
        inputs: shapes and types of the inputs.
        outputs: shapes and types of the outputs.
        target: the target of the code, as ``--target`` names it.
        flags: additional flags of ``iree-compile`` from the user.
        seconds: time limit of ``iree-compile``.
    """

    lines: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    target: str
    flags: tuple[str, ...] = ()
    seconds: float = SECONDS

    def text(self, name: str) -> str:
        """Return the text of the MLIR module, in which the function is called ``name``."""
        return self.lines.replace(f"@{_NAME}(", f"@{name}(", 1)


def program_of(region: Region) -> Program | None:
    """Return the program of a region.

    Return None if an input or output is empty, or has an element type in which IREE does not
    compute without conversion.
    """
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True  # for the attribute of outputs
        module = ir.Module.parse(region.text)
        (function,) = module.body.operations
        function.operation.attributes["sym_name"] = ir.StringAttr.get(_NAME)
        inputs, outputs = (_tensors(kinds) for kinds in _with_outputs(function.operation))
        text = module.operation.get_asm(enable_debug_info=False, use_local_scope=True)
    if inputs is None or outputs is None:
        return None
    flags, seconds = region.options.get("flags", ""), region.options.get("seconds", SECONDS)
    return Program(text, inputs, outputs, region.target, tuple(str(flags).split()), float(seconds))


def _with_outputs(function: ir.Operation) -> tuple[list[ir.Type], list[ir.Type]]:
    """Add an argument for each result of a function; IREE writes the result into the argument.

    Returns:
        The types of the inputs, and the types of the results.
    """
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, outputs = list(kind.inputs), list(kind.results)
    marks = [ir.DictAttr.get({})] * len(inputs)
    for number, output in enumerate(outputs):
        function.regions[0].blocks[0].add_argument(output, ir.Location.unknown())
        marks.append(ir.DictAttr.get({_OUTPUT: ir.IntegerAttr.get(ir.IndexType.get(), number)}))
    whole = ir.FunctionType.get([*inputs, *outputs], outputs)
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
    return inputs, outputs


def _tensors(kinds: list[ir.Type]) -> tuple[Tensor, ...] | None:
    given = [ir.RankedTensorType(kind) for kind in kinds]
    if any(0 in kind.shape or str(kind.element_type) not in ELEMENT_TYPES for kind in given):
        return None
    types = (np.dtype(ELEMENT_TYPES[str(kind.element_type)]) for kind in given)
    return tuple(Tensor(tuple(k.shape), dtype) for k, dtype in zip(given, types, strict=True))
