"""Imports ONNX models with torch-mlir, and lowers torch-mlir's IR to linalg on tensors."""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from rammer_mlir.bindings import ir

# Only torch-mlir has the importer and its pipelines, and only this module uses them.
_ir = importlib.import_module("torch_mlir.ir")
_passmanager = importlib.import_module("torch_mlir.passmanager")
_onnx_importer = importlib.import_module("torch_mlir.extras.onnx_importer")
_torch = importlib.import_module("torch_mlir.dialects.torch")

_TO_LINALG = (
    "torch-onnx-to-torch-backend-pipeline",
    "torch-backend-to-linalg-on-tensors-backend-pipeline",
    "inline",
    "func.func(canonicalize,resolve-shaped-type-result-dims,cse,canonicalize)",
    "symbol-dce",
)

_CLEAN_UP = ("canonicalize", "cse")

_KNOWN = ("func.", "linalg.", "tensor.", "arith.", "math.", "scf.", "builtin.")
"""Prefixes of the operations that the `linalg` stage allows."""


def import_graph(model: onnx.ModelProto) -> bytes:
    """Return the IR of a model with static shapes at the `linalg` stage, as MLIR bytecode.

    The IR does not have the names of the model's inputs and outputs.

    Raises:
        Exception: any exception of torch-mlir for unsupported nodes.
    """
    context = _ir.Context()
    context.enable_multithreading(False)
    _torch.register_dialect(context)
    with context, _ir.Location.unknown():
        config = _onnx_importer.Config(function_expansion_allowlists_by_domain={})
        info = _onnx_importer.ModelInfo(model, config=config)
        module = info.create_module(context)
        main = _onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
        main.import_all()
        _run(module, _TO_LINALG)
        _drop_assertions(module)
        _run(module, _CLEAN_UP)
        _check_dialects(module)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        return buffer.getvalue()


def _run(module: ir.Module, passes: tuple[str, ...]) -> None:
    _passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


def _drop_assertions(module: ir.Module) -> None:
    """Remove all ``cf.assert`` operations, the run-time checks of shapes and indices.

    Shapes are static, and ONNX does not define the results of indices out of range.
    """

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "cf.assert":
            op.erase()
        return _ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _check_dialects(module: ir.Module) -> None:
    """Check that all operations belong to dialects that the `linalg` stage allows.

    Raises:
        ValueError: with the name of the first operation of another dialect.
    """
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not op.name.startswith(_KNOWN):
            found.append(op.name)
        return _ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        raise ValueError(f"the importer left '{found[0]}', which is not a linalg operation")
