"""Defines external rKernels on a GPU: functions for a block's threads that call foreign code.

The declaration of an external rKernel gets a body that calls ``void symbol(int64_t rtask, int32_t
thread, int32_t threads, T *buffers...)``. This symbol remains undefined until the foreign code is
linked. The thread's index and the block size are arguments, so that the same LLVM IR works for
every GPU and for the emulator, without intrinsics.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import arith, func, gpu, ir, llvm, memref
from rammer_mlir.dialects.rtask.functions import signature
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.external.calls import (
    ExternalKernel,
    check_one_number_of_buffers,
    external_kernels,
)
from rammer_mlir.lowering.gpu.kernels import BLOCK_THREADS
from rammer_mlir.lowering.gpu.program.barriers import AWAIT, PAUSE, PUBLISH
from rammer_mlir.lowering.gpu.program.builders import as_word
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.builders import call_together, i32, i64, pointer
from rammer_mlir.passes.ir.entry import functions, symbol_name
from rammer_mlir.programs.modules import forms_for
from rammer_mlir.programs.native_interface import GPU_ENTRY

_OWN_SYMBOLS = (GPU_ENTRY, AWAIT, PUBLISH, PAUSE)
"""Symbols of the persistent kernel, which foreign code must not define."""


def define_external_kernels(module: ir.Module, target: GpuTarget) -> frozenset[str]:
    """Define the bodies of a module's external rKernels, in place; return the rKernels' names.

    Each body calls the rKernel's foreign code.

    Args:
        module: at the `program` stage.
        target: the GPU, with the block size of the whole program.

    Raises:
        TargetError: if foreign code has a form, state, grain or symbol that the target does not
            support.
        PassError: if two rKernels pass different counts of buffers to the same symbol.
    """
    kernels = external_kernels(module)
    for kernel in kernels:
        _check(kernel, target)
    check_one_number_of_buffers(kernels)
    declared = {symbol_name(function): function for function in functions(module)}
    with ir.InsertionPoint.at_block_begin(module.body):
        for symbol, count in {k.external.symbol: k.num_arguments for k in kernels}.items():
            _declare(symbol, count)
    for kernel in kernels:
        _define(declared[kernel.name].operation, kernel.external.symbol, target.block_threads)
    return frozenset(kernel.name for kernel in kernels)


def _check(kernel: ExternalKernel, target: GpuTarget) -> None:
    expected = found = ""
    forms, symbol = forms_for(target.name), kernel.external.symbol
    if kernel.form not in forms:
        expected, found = f"code of the form {', '.join(forms)}", f"'{kernel.form}'"
    elif kernel.external.has_state:
        expected, found = "a function without a state", "one with a state"
    elif kernel.external.is_exclusive:
        expected, found = "the grain region", "device"
    elif symbol in _OWN_SYMBOLS:
        expected, found = "a name that the compiler does not use", f"'{symbol}'"
    if expected:
        raise TargetError(
            f"external rKernel '@{kernel.name}' ('{symbol}'): expected {expected} for "
            f"{target.name}, found {found}; offer such code, or leave it out"
        )


def _declare(symbol: str, count: int) -> None:
    """Declare the convergent function ``symbol``, called together by all threads of a block.

    The function takes an i64, two i32 and ``count`` pointers to buffers.
    """
    kinds = [i64(), i32(), i32(), *[pointer()] * count]
    kind = llvm.FunctionType.get(ir.Type.parse("!llvm.void"), kinds)
    llvm.LLVMFuncOp(symbol, ir.TypeAttr.get(kind), convergent=True)


def _define(kernel: ir.Operation, symbol: str, threads: int) -> None:
    kinds, _ = signature(kernel)
    kernel.attributes[BLOCK_THREADS] = ir.IntegerAttr.get(i64(), threads)
    entry = kernel.regions[0].blocks.append(*kinds)
    rtask, *buffers = entry.arguments
    with ir.InsertionPoint(entry), kernel.location:
        thread = arith.index_cast(i32(), gpu.thread_id(gpu.Dimension.x))
        count = arith.constant(i32(), threads)
        call_together(symbol, as_word(rtask), thread, count, *_pointers(buffers))
        func.ReturnOp([])


def _pointers(buffers: Sequence[ir.Value]) -> list[ir.Value]:
    addresses = (memref.extract_aligned_pointer_as_index(buffer) for buffer in buffers)
    return [llvm.inttoptr(pointer(), as_word(address)) for address in addresses]
