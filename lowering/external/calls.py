"""External rKernels as functions of the LLVM dialect that call code from elsewhere.

Each is a stub with the interface of any other rKernel, ``(rTask id, pointers...)``. A status that
is not 0 is kept in one word of the library, with the number of the rKernel; nothing unwinds through
a vEU, and the run goes on to its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir, llvm
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.dialects.rtask.functions import signature
from rammer_mlir.errors import PassError
from rammer_mlir.lowering.llvm.builders import (
    branch,
    branch_if,
    call_for,
    constant,
    define,
    i32,
    i64,
    is_equal,
    pointer,
    store,
)
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.programs.native_interface import STATUS, STATUS_BITS


@dataclass(frozen=True)
class ExternalKernel:
    """An external rKernel: the name of its function here, what defines it, and its buffers."""

    name: str
    external: External
    num_arguments: int


def external_kernels(module: ir.Module) -> list[ExternalKernel]:
    """Return the external rKernels of a module."""
    declared = {symbol_name(function): function for function in functions(module)}
    found: list[ExternalKernel] = []
    for name, description in described_kernels(module).items():
        external = read_external(description.operation)
        if external is not None:
            inputs, _ = signature(declared[name].operation)
            found.append(ExternalKernel(name, external, len(inputs) - 1))
    return found


def take_external_kernels(module: ir.Module) -> list[ExternalKernel]:
    """Take the declarations and descriptions of external rKernels out of a module."""
    found = external_kernels(module)
    descriptions = described_kernels(module)
    declared = {symbol_name(function): function for function in functions(module)}
    for kernel in found:
        descriptions[kernel.name].operation.erase()
        declared[kernel.name].operation.erase()
    return found


def define_external_kernels(
    module: ir.Module, kernels: Sequence[ExternalKernel], numbers: Mapping[str, int], prefix: str
) -> None:
    """Append a function ``PREFIX NAME`` for each, and the word that keeps a status.

    Args:
        module: in the LLVM dialect.
        kernels: from ``take_external_kernels``.
        numbers: of the rKernels by name, which a status is kept with.
        prefix: begins the functions' names.

    Raises:
        PassError: if one symbol is called with different numbers of buffers.
    """
    if not kernels:
        return
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        i64_attribute = ir.IntegerAttr.get(i64(), 0)
        llvm.GlobalOp(i64(), STATUS, _external_linkage(), value=i64_attribute)
        _declare(kernels)
        for kernel in kernels:
            _define(kernel, numbers[kernel.name], prefix + kernel.name)


def _external_linkage() -> ir.Attribute:
    return ir.Attribute.parse("#llvm.linkage<external>")


def _declare(kernels: Sequence[ExternalKernel]) -> None:
    declared: dict[str, int] = {}
    for kernel in kernels:
        symbol, count = kernel.external.symbol, kernel.num_arguments
        if declared.setdefault(symbol, count) != count:
            raise PassError(
                f"external function '{symbol}': expected one number of buffers, found "
                f"{declared[symbol]} and {count}; give the functions names of their own"
            )
    for symbol, count in declared.items():
        kind = llvm.FunctionType.get(i32(), [i64(), *[pointer()] * count])
        llvm.LLVMFuncOp(symbol, ir.TypeAttr.get(kind))


def _define(kernel: ExternalKernel, number: int, name: str) -> None:
    entry = define(name, i64(), *[pointer()] * kernel.num_arguments)
    failed = entry.create_after()
    done = failed.create_after()
    with ir.InsertionPoint(entry):
        status = call_for(i32(), kernel.external.symbol, *entry.arguments)
        branch_if(is_equal(status, constant(0, i32())), done, failed)
    with ir.InsertionPoint(failed):
        word = llvm.OrOp(llvm.ZExtOp(i64(), status).result, constant(number << STATUS_BITS)).result
        store(word, llvm.AddressOfOp(pointer(), STATUS).result)
        branch(done)
    with ir.InsertionPoint(done):
        llvm.ReturnOp()
