"""Run a module at the `linalg` stage by MLIR's own passes, to test the importer alone.

The module is bufferized, lowered to loops and to LLVM, and run by the bindings' ExecutionEngine,
which is slow but independent of this compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir, linalg, passmanager, submodule, tensor
from rammer_mlir.frontends.onnx import ImportedModel
from rammer_mlir.lowering.ir_walk import walk

Array = NDArray[Any]

_TO_BUFFERS = (
    "linalg-generalize-named-ops",
    "func.func(linalg-fuse-elementwise-ops)",
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map}",
    "buffer-results-to-out-params{modify-public-functions hoist-static-allocs}",
)

_TO_LLVM = (
    "func.func(convert-linalg-to-loops)",
    "fold-memref-alias-ops",
    "expand-strided-metadata",
    "lower-affine",
    "func.func(math-expand-ops{ops=sinh,cosh,tan,asinh,acosh,atanh})",
    "convert-scf-to-cf",
    "func.func(arith-expand)",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-complex-to-llvm",
    "expand-strided-metadata",
    "lower-affine",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "reconcile-unrealized-casts",
)


def run(model: ImportedModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Compile and run a model; return its outputs by name."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(model.bytecode)
        names = _argument_names(module)
        _expand_concatenations(module)
        main = _main(module)
        main.operation.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        _run_passes(module, _TO_BUFFERS)
        _expand_copies(module)
        _run_passes(module, _TO_LLVM)
        engine = submodule("execution_engine").ExecutionEngine(module, 1)
        values = {**model.constants, **feeds}
        # Copies: upstream's bufferization takes arguments for its own to overwrite.
        arguments = [np.array(values[name], order="C") for name in names]
        outputs = [np.zeros(spec.shape, spec.dtype) for spec in model.signature.outputs]
        _invoke(engine, [*arguments, *outputs])
        return dict(zip((s.name for s in model.signature.outputs), outputs, strict=True))


def _run_passes(module: ir.Module, passes: tuple[str, ...]) -> None:
    passmanager.PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)


def _invoke(engine: Any, arrays: list[Array]) -> None:
    pointers = [ctypes.cast(ctypes.pointer(_descriptor(a)), ctypes.c_void_p) for a in arrays]
    cells = [ctypes.pointer(pointer) for pointer in pointers]
    packed = (ctypes.c_void_p * len(cells))(*[ctypes.cast(c, ctypes.c_void_p) for c in cells])
    address = engine.raw_lookup("_mlir_ciface_main")
    assert address, "the engine does not know @main"
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.cast(packed, ctypes.c_void_p))


def _descriptor(array: Array) -> ctypes.Structure:
    """Return MLIR's descriptor of a dense memref."""
    rank = ctypes.c_longlong * array.ndim
    fields = [("a", ctypes.c_void_p), ("b", ctypes.c_void_p), ("offset", ctypes.c_longlong)]
    kind = type("Memref", (ctypes.Structure,), {"_fields_": [*fields, ("n", rank), ("s", rank)]})
    strides = [stride // array.itemsize for stride in array.strides]
    return kind(array.ctypes.data, array.ctypes.data, 0, rank(*array.shape), rank(*strides))


def _main(module: ir.Module) -> ir.OpView:
    (main,) = [op for op in module.body.operations if op.operation.name == "func.func"]
    return main


def _argument_names(module: ir.Module) -> list[str]:
    names: list[str] = []
    main = _main(module)
    if "arg_attrs" not in main.operation.attributes:
        return names
    for entry in ir.ArrayAttr(main.operation.attributes["arg_attrs"]):
        given = ir.DictAttr(entry)
        kind = "rtask.constant" if "rtask.constant" in given else "rtask.name"
        names.append(ir.StringAttr(given[kind]).value)
    return names


def _expand_concatenations(module: ir.Module) -> None:
    """Replace each ``tensor.concat``, which cannot be bufferized, by insertions of slices."""
    for op in [op for op in walk(module.operation) if op.operation.name == "tensor.concat"]:
        result = op.operation.results[0]
        axis = ir.IntegerAttr(op.operation.attributes["dim"]).value
        shape = list(ir.RankedTensorType(result.type).shape)
        with ir.InsertionPoint(op.operation), op.operation.location:
            whole: ir.Value = tensor.EmptyOp(
                shape, ir.RankedTensorType(result.type).element_type
            ).result
            start = 0
            for part in op.operation.operands:
                sizes = list(ir.RankedTensorType(part.type).shape)
                offsets = [0] * len(shape)
                offsets[axis] = start
                start += sizes[axis]
                whole = tensor.InsertSliceOp(
                    part, whole, [], [], [], offsets, sizes, [1] * len(shape)
                ).result
        result.replace_all_uses_with(whole)
        op.operation.erase()


def _expand_copies(module: ir.Module) -> None:
    """Replace each ``memref.copy`` by ``linalg.copy``.

    A copy would become a call of a function that is not linked.
    """
    for op in [op for op in walk(module.operation) if op.operation.name == "memref.copy"]:
        source, target = op.operation.operands
        with ir.InsertionPoint(op.operation), op.operation.location:
            linalg.copy(source, outs=[target])
        op.operation.erase()
