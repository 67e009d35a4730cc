"""Helpers for tests that compile small linalg programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import CheckedOptions, check_options
from rammer_mlir.frontends.imported import ImportedModel
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.programs.signature import Signature, TensorSpec

Array = NDArray[np.generic]


def signature(inputs: Mapping[str, Array], outputs: Mapping[str, tuple[int, ...]]) -> Signature:
    """Return the signature of example inputs and of float32 outputs with given shapes."""
    return Signature(
        tuple(TensorSpec(name, array.shape, array.dtype) for name, array in inputs.items()),
        tuple(TensorSpec(name, shape, np.dtype(np.float32)) for name, shape in outputs.items()),
    )


def compilation(
    text: str,
    described: Signature,
    constants: Mapping[str, Array] | None = None,
    options: CheckedOptions | None = None,
) -> Compilation:
    """Return the compilation of ``text``, a program in MLIR at the `linalg` stage.

    ``described`` is its signature, and ``constants`` are its weights by name. By default, the
    program has one vEU.
    """
    model = ImportedModel(text.encode(), constants or {}, described)
    return Compilation(model, options or check_options(num_veus=1))


@dataclass(frozen=True)
class Found:
    """A description of an operation of the entry function, for comparisons in tests.

    Attributes:
        name: the operation's name, such as that of a dialect's operation.
        operands: types of its operands, as text.
        kernels: its rKernels as text; empty without rKernels.
    """

    name: str
    operands: tuple[str, ...]
    kernels: str


def operators(text: str) -> list[Found]:
    """Lower ``text``, MLIR at the `linalg` stage, to the `operators` stage.

    Return the operations of the entry function in order, without its return.
    """
    context = ir.Context()
    with context:
        module = ir.Module.parse(text)
    run_pipeline(module, check_options(num_veus=1).portable_stages()[0].pipeline)
    return [_found(op.operation) for op in list(entry_block(module).operations)[:-1]]


def _found(op: ir.Operation) -> Found:
    kernels = str(op.attributes["kernels"]) if "kernels" in op.attributes else ""
    return Found(op.name, tuple(str(value.type) for value in op.operands), kernels)


def count(found: list[Found], name: str) -> int:
    """Return the number of operations called ``name``."""
    return sum(op.name == name for op in found)
