"""Compiles and loads one rKernel, copied to a separate module, to call its rTasks individually."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.engines.table import OpenModules
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.external.calls import ExternalKernel, define_external_kernels
from rammer_mlir.lowering.external.linking import linked_ir, linked_objects
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.lowering.profiling.isolate import KERNEL, KernelSource
from rammer_mlir.passes.ir.entry import functions
from rammer_mlir.programs.modules import ModuleEntry
from rammer_mlir.programs.native_interface import MODULES, STATUS, STATUS_BITS
from rammer_mlir.support.aligned import address_of


@dataclass(frozen=True)
class NativeKernel:
    """An rKernel compiled and loaded into this process.

    Attributes:
        library: the loaded code.
        source: the module that contains only this rKernel, and its foreign code if it has any.
    """

    library: Library
    source: KernelSource

    def run(self, rtask: int, arrays: Sequence[NDArray[np.generic]]) -> int:
        """Execute one rTask, and return its status.

        The status is 0 on success, else the number that the external rKernel returned. The status
        is always 0 for an rKernel of this compiler.

        Args:
            rtask: the rTask's index.
            arrays: a dense array for each buffer of the rKernel.
        """
        opened = open_states(self.source, self.library, arrays)
        try:
            return self._run(rtask, arrays)
        finally:
            if opened is not None:
                opened.close()

    def _run(self, rtask: int, arrays: Sequence[NDArray[np.generic]]) -> int:
        kinds = [ctypes.c_int64, *[ctypes.c_void_p] * len(arrays)]
        function = ctypes.CFUNCTYPE(None, *kinds)(self.library.address(KERNEL))
        function(rtask, *[array.ctypes.data for array in arrays])
        if self.source.external is None:
            return 0
        word = ctypes.c_int64.from_address(self.library.address(STATUS))
        found, word.value = word.value, 0
        return ctypes.c_int32(found & ((1 << STATUS_BITS) - 1)).value


def load_kernel(source: KernelSource) -> NativeKernel:
    """Compile an rKernel for this processor, and return it as native code in this process.

    Raises:
        TargetError: if the rKernel cannot be compiled.
        UnsupportedError: if the rKernel has operations that the CPU target does not support.
    """
    machine = host_machine()
    own = emit_object(_llvm_ir(source), machine, linked_ir(source.code))
    library = load_object(own, *linked_objects(source.code, machine))
    return NativeKernel(library, source)


def open_states(
    source: KernelSource, library: Library, arguments: Sequence[NDArray[np.generic]]
) -> OpenModules | None:
    """Open the state of an external rKernel; return an object that owns and closes the state.

    Args:
        source: the rKernel.
        library: the rKernel's loaded code.
        arguments: an array for each buffer of the rKernel; arrays of weights must keep their
            address and content while the state is open.

    Returns:
        The owner of the state; None if the rKernel has no state.
    """
    external = source.external
    if external is None or not external.has_state:
        return None
    weights = [address_of(a) if n in source.weights else None for n, a in enumerate(arguments)]
    modules = [code.module for code in source.code]
    entry = ModuleEntry(external.module, external.symbol, 0)
    return OpenModules(modules, [entry], [weights], library.address(MODULES), source.num_veus)


def _llvm_ir(source: KernelSource) -> str:
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(source.text)
        define_if_external(module, source)
        lower_kernels(module, host_machine())
        return to_llvm_ir(module)


def define_if_external(module: ir.Module, source: KernelSource) -> None:
    """Replace the declaration of an external rKernel by a function that calls the foreign code.

    Do nothing if the rKernel is the compiler's own.
    """
    if source.external is not None:
        (kernel,) = functions(module)
        kind = ir.FunctionType(ir.TypeAttr(kernel.operation.attributes["function_type"]).value)
        kernel.operation.erase()
        (code,) = source.code
        # Not exclusive here: there is no program with other vEUs that would have to wait.
        alone = replace(source.external, grain="region")
        external = ExternalKernel(KERNEL, alone, len(kind.inputs) - 1, code.form)
        define_external_kernels(module, [external], {KERNEL: 0}, "")
