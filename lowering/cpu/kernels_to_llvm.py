"""Lower the rKernels of a module to functions of the LLVM dialect.

The steps are the flat lists of ``vector_steps`` and ``llvm_steps``, read from top to bottom. They
run in a module of their own, so that whatever else the user's module holds stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.lowering.cpu.kernel_buffers import (
    allocate_on_stack,
    expand_copies,
    store_boolean_constants_as_bytes,
    store_booleans_as_bytes,
)
from rammer_mlir.lowering.cpu.long_reductions import split_long_reductions
from rammer_mlir.lowering.cpu.vectorize.kernel import vectorize_kernels
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.math_to_arith import convert_math
from rammer_mlir.lowering.llvm.narrow_floats import convert_through_f32, expand_half_conversions


@dataclass(frozen=True)
class Step:
    """One step of the lowering: an upstream pipeline as text, or a function on the module."""

    name: str
    run: str | Callable[[Any], None]

    def apply(self, module: Any) -> None:
        """Run the step on a module, in place."""
        if callable(self.run):
            self.run(module)
        else:
            passes = passmanager.PassManager.parse(f"builtin.module({self.run})")
            passes.enable_verifier(False)  # lower_kernels verifies once, at the end
            passes.run(module.operation)


def vector_steps(vector_bits: int) -> list[Step]:
    """Return the steps from rKernels on memrefs to loops on vectors of ``vector_bits``."""
    return [
        Step("generalize", "linalg-generalize-named-ops"),
        Step("copies", partial(_each_kernel, expand_copies)),
        Step("booleans", partial(_each_kernel, store_booleans_as_bytes)),
        Step("boolean-constants", lambda m: store_boolean_constants_as_bytes(m, find_kernels(m))),
        Step("temporaries", partial(_each_kernel, allocate_on_stack)),
        Step("sums", partial(_each_kernel, split_long_reductions)),
        Step("views", "affine-expand-index-ops,expand-strided-metadata,lower-affine,cse"),
        Step("vectorize", partial(vectorize_kernels, vector_bits=vector_bits)),
        Step("share", "cse"),
    ]


def llvm_steps(machine: Machine) -> list[Step]:
    """Return the steps from loops on vectors to LLVM functions."""
    narrow = "source-types=bf16,f16 target-type=f32"
    return [
        Step("narrow-math", "math-extend-to-supported-types{target-type=f32}"),
        Step("narrow-floats", f"arith-emulate-unsupported-floats{{{narrow}}}"),
        Step("wide-floats", convert_through_f32),
        *([] if machine.has_half_conversions else [Step("half", expand_half_conversions)]),
        Step("math", convert_math),
        Step("expand-arith", "func.func(arith-expand{include-bf16=true})"),
        Step("loops", "convert-scf-to-cf"),
        Step("powers", "math-expand-ops{ops=clampf},convert-math-to-funcs"),
        Step("intrinsics", "convert-math-to-llvm,convert-math-to-libm"),
        Step("vectors", "convert-vector-to-llvm"),
        Step("buffers", "finalize-memref-to-llvm"),
        Step("functions", "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}"),
        Step("rest", "convert-arith-to-llvm,convert-cf-to-llvm,convert-index-to-llvm"),
        Step("casts", "convert-ub-to-llvm,reconcile-unrealized-casts"),
        Step("fold", "canonicalize{region-simplify=disabled}"),
    ]


def kernel_steps(machine: Machine) -> list[Step]:
    """Return the steps from rKernels on memrefs to LLVM functions, in order."""
    return [*vector_steps(machine.vector_bits), *llvm_steps(machine)]


def lower_kernels(module: Any, machine: Machine) -> None:
    """Replace the rKernels of ``module`` by LLVM functions of the same names, in place.

    An rKernel ``func.func private @k(index, memrefs...)`` becomes ``llvm.func @k(i64, ptr...)``;
    a pointer is the start of the buffer, before the memref type's offset. Constants
    (``memref.global``) that only kernels use become LLVM globals.
    """
    with module.context, ir.Location.unknown():
        kernels = list(find_kernels(module))
        if not kernels:
            return
        scratch = ir.Module.create()
        _move_globals(module, scratch, kernels)
        for kernel in kernels:
            kernel.detach_from_parent()
            scratch.body.append(kernel)
        for step in kernel_steps(machine):
            step.apply(scratch)
        scratch.operation.verify()
        _move_back(scratch, module)


def find_kernels(module: Any) -> Iterator[Any]:
    """Yield the rKernels: functions with a body, an index first, then memrefs, and no result."""
    for operation in (o.operation for o in module.body.operations):
        if operation.name != "func.func" or not len(operation.regions[0].blocks):
            continue
        kind = operation.attributes["function_type"].value
        first, *rest = [*kind.inputs] or [None]
        if isinstance(first, ir.IndexType) and not list(kind.results):
            if all(isinstance(t, ir.MemRefType) for t in rest):
                yield operation


def _each_kernel(step: Callable[[Any], None], module: Any) -> None:
    for kernel in find_kernels(module):
        step(kernel)


def _move_globals(module: Any, scratch: Any, kernels: list[Any]) -> None:
    """Bring the constants that kernels read along; those used elsewhere too stay as well."""
    used = {name for kernel in kernels for name in _globals_used(kernel)}
    inside = set(kernels)
    elsewhere = {
        name
        for operation in module.body.operations
        if operation.operation not in inside
        for name in _globals_used(operation)
    }
    for operation in [o.operation for o in module.body.operations]:
        if operation.name != "memref.global" or _symbol(operation) not in used:
            continue
        if _symbol(operation) in elsewhere:
            copy = operation.clone(ir.InsertionPoint(scratch.body))
            _rename(copy, f"{_symbol(operation)}_in_kernels", kernels)
        else:
            operation.detach_from_parent()
            scratch.body.append(operation)


def _symbol(operation: Any) -> str:
    return operation.attributes["sym_name"].value


def _globals_used(operation: Any) -> set[str]:
    return {
        nested.attributes["name"].value
        for nested in walk(operation)
        if nested.name == "memref.get_global"
    }


def _rename(constant: Any, name: str, kernels: list[Any]) -> None:
    old = _symbol(constant)
    constant.attributes["sym_name"] = ir.StringAttr.get(name)
    for kernel in kernels:
        for nested in walk(kernel):
            if nested.name == "memref.get_global" and nested.attributes["name"].value == old:
                nested.attributes["name"] = ir.FlatSymbolRefAttr.get(name)


def _move_back(scratch: Any, module: Any) -> None:
    """Move the lowered functions to ``module``, without declarations that it has already."""
    present = {
        _symbol(operation) for operation in module.body.operations
        if "sym_name" in operation.attributes
    }  # fmt: skip
    for operation in list(scratch.body.operations):
        if _symbol(operation) not in present:
            operation.detach_from_parent()
            module.body.append(operation)
