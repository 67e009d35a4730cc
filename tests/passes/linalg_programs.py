"""Small linalg programs for tests, and running them through the whole pipeline."""

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
    """Describe a program by example inputs and its float32 outputs' shapes."""
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
    """Begin to compile a program at the `linalg` stage."""
    model = ImportedModel(text.encode(), constants or {}, described)
    return Compilation(model, options or check_options(num_veus=1))


@dataclass(frozen=True)
class Found:
    """An operation of the entry function: its name, operand types, and rKernels if it has some."""

    name: str
    operands: tuple[str, ...]
    kernels: str


def operators(text: str) -> list[Found]:
    """Return the operations between inputs and outputs after the `operators` stage."""
    context = ir.Context()
    with context:
        module = ir.Module.parse(text)
    run_pipeline(module, check_options(num_veus=1).portable_stages()[0].pipeline)
    return [_found(op.operation) for op in list(entry_block(module).operations)[:-1]]


def _found(op: ir.Operation) -> Found:
    kernels = str(op.attributes["kernels"]) if "kernels" in op.attributes else ""
    return Found(op.name, tuple(str(value.type) for value in op.operands), kernels)


def count(found: list[Found], name: str) -> int:
    """Return how many of the operations have the name."""
    return sum(op.name == name for op in found)
