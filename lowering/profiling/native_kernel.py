"""An rKernel by itself as native code of this process, whose rTasks are called one by one."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.external.calls import ExternalKernel, define_external_kernels
from rammer_mlir.lowering.external.linking import linked_ir, linked_objects
from rammer_mlir.lowering.llvm.codegen import emit_object, to_llvm_ir
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.profiling.isolate import KERNEL, KernelSource
from rammer_mlir.passes.ir.entry import functions
from rammer_mlir.programs.native_interface import STATUS, STATUS_BITS


@dataclass(frozen=True)
class NativeKernel:
    """The code of an rKernel; an external one leaves a status."""

    library: Library
    has_status: bool

    def run(self, rtask: int, arrays: Sequence[NDArray[np.generic]]) -> int:
        """Run an rTask on dense arrays; return its status, 0 for the compiler's own."""
        kinds = [ctypes.c_int64, *[ctypes.c_void_p] * len(arrays)]
        function = ctypes.CFUNCTYPE(None, *kinds)(self.library.address(KERNEL))
        function(rtask, *[array.ctypes.data for array in arrays])
        if not self.has_status:
            return 0
        word = ctypes.c_int64.from_address(self.library.address(STATUS))
        found, word.value = word.value, 0
        return ctypes.c_int32(found & ((1 << STATUS_BITS) - 1)).value


def load_kernel(source: KernelSource) -> NativeKernel:
    """Compile an rKernel for this processor, and load it.

    Raises:
        TargetError: if it cannot be compiled.
        UnsupportedError: if it holds what the CPU target does not have.
    """
    machine = host_machine()
    own = emit_object(_llvm_ir(source), machine, linked_ir(source.code))
    library = load_object(own, *linked_objects(source.code, machine))
    return NativeKernel(library, bool(source.symbol))


def _llvm_ir(source: KernelSource) -> str:
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(source.text)
        define_if_external(module, source)
        lower_kernels(module, host_machine())
        return to_llvm_ir(module)


def define_if_external(module: ir.Module, source: KernelSource) -> None:
    """Put a function that calls code from elsewhere in the place of a declaration."""
    if source.symbol:
        (kernel,) = functions(module)
        kind = ir.FunctionType(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
        kernel.operation.erase()
        external = ExternalKernel(KERNEL, External("", source.symbol), len(kind.inputs) - 1)
        define_external_kernels(module, [external], {KERNEL: 0}, "")
