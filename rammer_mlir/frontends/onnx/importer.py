"""torch-mlir's ONNX importer and its lowering to linalg on tensors."""

from __future__ import annotations

import importlib
import io
from typing import Any

import onnx

from rammer_mlir.frontends.onnx.builders import build_bodies, replace_by_calls
from rammer_mlir.frontends.onnx.single_nodes import single_node_models

# The importer and its pipelines exist in torch-mlir only: this module is their one user.
ir: Any = importlib.import_module("torch_mlir.ir")
_passmanager: Any = importlib.import_module("torch_mlir.passmanager")
_onnx_importer: Any = importlib.import_module("torch_mlir.extras.onnx_importer")
_torch: Any = importlib.import_module("torch_mlir.dialects.torch")

_TO_LINALG = (
    "torch-onnx-to-torch-backend-pipeline",
    "func.func(convert-torch-to-tmtensor)",
    "canonicalize",
    "func.func(convert-torch-to-linalg)",
    "func.func(cse)",
    "func.func(convert-torch-to-scf)",
    "func.func(convert-torch-to-arith)",
    "func.func(convert-torch-to-tensor)",
    "canonicalize",
    "cse",
    "torch-func-backend-type-conversion",
    "canonicalize",
    "func.func(torch-finalizing-backend-type-conversion)",
)
"""torch-mlir's backend pipeline without its last check, which refuses calls."""

_FINISH = (
    "inline",
    "func.func(canonicalize,resolve-shaped-type-result-dims,cse,canonicalize)",
    "symbol-dce",
)

_FOREIGN = ("torch.", "torch_c.", "tm_tensor.", "cf.", "ml_program.")


def import_graph(model: onnx.ModelProto) -> bytes:
    """Return a prepared model as bytecode at the `linalg` stage.

    Raises:
        Exception: whatever the importer raises for what it does not support.
    """
    context = ir.Context()
    _torch.register_dialect(context)
    with context, ir.Location.unknown():
        info = _onnx_importer.ModelInfo(model)
        module = info.create_module(context)
        main = _onnx_importer.NodeImporter.define_function(info.main_graph, module.operation)
        main.import_all()
        calls = replace_by_calls(ir, module)
        _run(module, _TO_LINALG)
        build_bodies(module, calls)
        _run(module, _FINISH)
        _drop_assertions(module)
        _name_interface(module, model)
        _check_dialects(module)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        return buffer.getvalue()


def _run(module: Any, passes: tuple[str, ...]) -> None:
    _passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


def _drop_assertions(module: Any) -> None:
    """Remove run-time checks: shapes are static, and indices out of range are undefined in ONNX."""

    def visit(op: Any) -> Any:
        if op.name == "cf.assert":
            op.erase()
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    _run(module, ("canonicalize", "cse"))


def _name_interface(module: Any, model: onnx.ModelProto) -> None:
    """Name the entry function's inputs, weights and outputs."""
    (main,) = [op for op in module.body.operations if op.operation.name == "func.func"]
    weights = {prop.key for prop in model.metadata_props}
    arguments = []
    for value in model.graph.input:
        key = "rtask.constant" if value.name in weights else "rtask.name"
        arguments.append(ir.DictAttr.get({key: ir.StringAttr.get(value.name)}))
    results = [
        ir.DictAttr.get({"rtask.name": ir.StringAttr.get(value.name)})
        for value in model.graph.output
    ]
    attributes = main.operation.attributes
    for key in list(attributes):
        name = key.name if hasattr(key, "name") else key
        if name.startswith("torch."):
            del attributes[name]
    attributes["sym_name"] = ir.StringAttr.get("main")
    attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
    attributes["res_attrs"] = ir.ArrayAttr.get(results)
    for key in list(module.operation.attributes):
        name = key.name if hasattr(key, "name") else key
        if name.startswith("torch"):
            del module.operation.attributes[name]


def _check_dialects(module: Any) -> None:
    """Refuse what the rest of the compiler does not know.

    Raises:
        ValueError: naming the first such operation.
    """
    found: list[str] = []

    def visit(op: Any) -> Any:
        if op.name.startswith(_FOREIGN):
            found.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        raise ValueError(f"the importer left '{found[0]}', which is not a linalg operation")


def unsupported_nodes(model: onnx.ModelProto) -> list[str]:
    """Return the nodes that cannot be imported on their own, each as ``'name' (operator)``."""
    failing: list[str] = []
    for names, single in single_node_models(model):
        try:
            import_graph(single)
        except Exception:
            failing.extend(names)
    return failing
