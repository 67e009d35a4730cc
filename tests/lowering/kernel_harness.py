"""Compile rKernels from MLIR text and call them on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.llvm.codegen import emit_assembly, emit_object
from rammer_mlir.lowering.llvm.jit import Library, load_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir

Array = np.ndarray[Any, np.dtype[Any]]
Kernel = Callable[..., None]


def lower_text(source: str, machine: Machine | None = None) -> str:
    """Lower MLIR text to LLVM IR text."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        lower_kernels(module, machine or host_machine())
        return to_llvm_ir(module)


def assembly(source: str, machine: Machine | None = None) -> str:
    """Compile MLIR text to assembly."""
    return emit_assembly(lower_text(source, machine), machine or host_machine())


def compile_kernel(source: str, name: str = "k", machine: Machine | None = None) -> Kernel:
    """Compile MLIR text and return its rKernel ``name`` as a callable ``(rtask, *arrays)``.

    ``rtask`` is the index of the rTask that a call computes, and ``arrays`` are its buffers.
    """
    library = load_object(emit_object(lower_text(source, machine), machine or host_machine()))
    return kernel_of(library, name)


def kernel_of(library: Library, name: str) -> Kernel:
    """Return the rKernel ``name`` of a library as a callable ``(rtask, *arrays)``.

    ``rtask`` is the index of the rTask that a call computes, and ``arrays`` are its buffers.
    """
    address = library.address(name)

    def call(rtask: int, *arrays: Array) -> None:
        assert library is not None  # keeps the code alive
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * len(arrays))
        prototype(address)(rtask, *[array.ctypes.data for array in arrays])

    return call


def to_bfloat16(values: Array) -> Array:
    """Round float32 values to bfloat16, stored as uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    """Convert bfloat16 stored as uint16 to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
