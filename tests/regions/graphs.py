"""Helpers that import models and read their operations, before any pass changes layouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.regions.reading import Reading
from rammer_mlir.passes.regions.readings import read_all
from rammer_mlir.passes.regions.weights import array_of, weights_of

Array = NDArray[Any]

GENERAL = (
    "linalg-generalize-named-ops", "canonicalize", "cse", "rtask-externalize-constants"
)  # fmt: skip


def graph_of(model: onnx.ModelProto, *passes: str) -> tuple[ir.Module, Mapping[str, Array]]:
    """Return the IR of a model before rOperators are formed, and its weights by name.

    The named linalg operations are generalized, and then the passes ``passes`` run.
    """
    imported = import_model(model)
    context = ir.Context()
    dialects.register(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(imported.bytecode)
    run_pipeline(module, f"builtin.module({','.join((*GENERAL, *passes))})")
    return module, imported.constants


def readings_of(module: ir.Module) -> list[Reading]:
    """Return the readings of the operations in a module's entry function."""
    return read_all(list(entry_block(module).operations)[:-1], weights_of(module))


def values_of(module: ir.Module, constants: Mapping[str, Array]) -> dict[Any, Array]:
    """Return the arrays of the weights and of the constants in the code, by their MLIR values."""
    weights = weights_of(module)
    values: dict[Any, Array] = {}
    for value, weight in weights.items():
        held = array_of(value, weights)
        values[value] = constants[weight.name] if held is None else held
    for op in entry_block(module).operations:
        if op.operation.name == "arith.constant":
            value = op.operation.results[0]
            found = array_of(value, weights)
            if found is None:
                found = np.array(ir.DenseElementsAttr(op.operation.attributes["value"]))
            values[value] = found
    return values
