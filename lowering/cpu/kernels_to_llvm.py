"""Lowers a module's rKernels to functions of the LLVM dialect.

The lowering steps are the flat lists of ``vector_steps`` and ``llvm_steps``, read from top to
bottom. The steps run in a separate scratch module, so that the other contents of the user's module
are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.long_reductions import split_long_reductions
from rammer_mlir.lowering.cpu.vectorize.kernel import vectorize_kernels
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.buffers import (
    allocate_on_stack,
    expand_copies,
    store_boolean_constants_as_bytes,
    store_booleans_as_bytes,
)
from rammer_mlir.lowering.kernels.functions import find_kernels
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.steps import Step, llvm_steps
from rammer_mlir.passes.ir.called_functions import called_functions, inline_called_functions


def vector_steps(vector_bits: int, registers: int = 0, byte_products: str = "") -> list[Step]:
    """Return the lowering steps from rKernels on memrefs to loops on vectors.

    A vector has ``vector_bits`` bits. Micro tiles use at most ``registers`` vector registers; 0
    stands for the default count. ``byte_products`` is the name of the instruction for products of
    8-bit integers, as in ``Machine``.
    """
    vectorize = partial(
        vectorize_kernels,
        vector_bits=vector_bits,
        registers=registers,
        byte_products=byte_products,
    )
    sums = partial(split_long_reductions, vector_bits=vector_bits)
    return [
        Step("generalize", "linalg-generalize-named-ops"),
        Step("copies", partial(_each_kernel, expand_copies)),
        Step("booleans", partial(_each_kernel, store_booleans_as_bytes)),
        Step("boolean-constants", lambda m: store_boolean_constants_as_bytes(m, find_kernels(m))),
        Step("temporaries", partial(_each_kernel, allocate_on_stack)),
        Step("sums", partial(_each_kernel, sums)),
        Step("views", "affine-expand-index-ops,expand-strided-metadata,lower-affine,cse"),
        Step("vectorize", vectorize),
        Step("share", "cse"),
    ]


def kernel_steps(machine: Machine) -> list[Step]:
    """Return the lowering steps from rKernels on memrefs to LLVM functions, in order."""
    vectorized = vector_steps(machine.vector_bits, machine.registers, machine.byte_products)
    return [*vectorized, *llvm_steps(machine)]


def lower_kernels(module: Any, machine: Machine) -> None:
    """Replace the rKernels of ``module`` by LLVM functions of the same names, in place.

    An rKernel ``func.func private @k(index, memrefs...)`` becomes ``llvm.func @k(i64, ptr...)``; a
    pointer is the start of the buffer, before the memref type's offset. Constants
    (``memref.global``) that only kernels use become LLVM globals. Functions that rKernels call are
    inlined; functions without a body become declarations ``llvm.func @f(ptr...)``, which are linked
    later.

    Raises:
        OperationError: if a called function cannot be inlined.
    """
    with module.context, ir.Location.unknown():
        called = list(find_kernels(module))
        if not called:
            return
        inline_called_functions(module, called, keeps_declared=True)
        kernels = list(find_kernels(module))
        scratch = ir.Module.create()
        _move_globals(module, scratch, kernels)
        _move_functions(module, scratch, kernels)
        for kernel in kernels:
            kernel.detach_from_parent()
            scratch.body.append(kernel)
        for step in kernel_steps(machine):
            step.apply(scratch)
        scratch.operation.verify()
        _move_back(scratch, module)


def _each_kernel(step: Callable[[Any], None], module: Any) -> None:
    for kernel in find_kernels(module):
        step(kernel)


def _move_globals(module: Any, scratch: Any, kernels: list[Any]) -> None:
    """Move the ``memref.global`` constants of ``kernels`` from ``module`` to ``scratch``.

    ``scratch`` is the temporary module in which rKernels are lowered. Constants that other
    functions use too are copied.
    """
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


def _move_functions(module: Any, scratch: Any, kernels: list[Any]) -> None:
    """Move all LLVM functions, and declarations of other functions, to ``scratch``.

    ``scratch`` is the temporary module in which ``kernels``, the rKernels of ``module``, are
    lowered. A declaration is moved if the rKernels call the declared function.
    """
    declared = called_functions(module, map(_symbol, kernels)) - set(map(_symbol, kernels))
    for operation in [o.operation for o in module.body.operations]:
        if operation.name == "llvm.func" or (
            operation.name == "func.func" and _symbol(operation) in declared
        ):
            operation.detach_from_parent()
            scratch.body.append(operation)


def _symbol(operation: Any) -> str:
    return operation.attributes["sym_name"].value


def _globals_used(operation: Any) -> set[str]:
    return {
        ir.FlatSymbolRefAttr(nested.attributes["name"]).value
        for nested in walk(operation)
        if nested.name == "memref.get_global"
    }


def _rename(constant: Any, name: str, kernels: list[Any]) -> None:
    old = _symbol(constant)
    constant.attributes["sym_name"] = ir.StringAttr.get(name)
    for kernel in kernels:
        for nested in walk(kernel):
            if nested.name != "memref.get_global":
                continue
            if ir.FlatSymbolRefAttr(nested.attributes["name"]).value == old:
                nested.attributes["name"] = ir.FlatSymbolRefAttr.get(name)


def _move_back(scratch: Any, module: Any) -> None:
    """Move the lowered functions from ``scratch`` to ``module``.

    ``scratch`` is the temporary module in which the functions were lowered. A function stays there
    if ``module`` has a function or a declaration of the same name.
    """
    present = {
        _symbol(operation) for operation in module.body.operations
        if "sym_name" in operation.attributes
    }  # fmt: skip
    for operation in list(scratch.body.operations):
        if _symbol(operation) not in present:
            operation.detach_from_parent()
            module.body.append(operation)
