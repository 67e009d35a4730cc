"""Lowers the gpu dialect to the LLVM and NVVM dialects."""

from __future__ import annotations

from functools import partial

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.gpu.llvm.buffer_addresses import read_addresses_anew
from rammer_mlir.lowering.gpu.llvm.index_width import index_width, rule_out_overflow
from rammer_mlir.lowering.gpu.llvm.memory_accesses import lower_memory_accesses
from rammer_mlir.lowering.gpu.llvm.pointers import keep_addresses_whole
from rammer_mlir.lowering.gpu.llvm.thread_ids import ThreadId, read_thread_ids_anew
from rammer_mlir.lowering.gpu.llvm.to_llvm import (
    MATH_STEPS,
    define_pause,
    hide_functions,
    lower_steps,
)
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.steps import Step
from rammer_mlir.lowering.nvvm.nvgpu_to_nvvm import lower_shared_memory

_THREAD_ID = ThreadId("nvvm.read.ptx.sreg.tid.x", "r")

_PAUSE = """  %nanoseconds = arith.constant 64 : i32
  nvvm.nanosleep %nanoseconds"""
"""Body of the pause between polls: other warps of the multiprocessor run in the meantime."""


def nvvm_steps(index_bits: int) -> list[Step]:
    """Return the lowering steps from the gpu dialect to the LLVM and NVVM dialects, in order.

    ``index_bits`` is the number of bits of an index in the module.
    """
    convert = (
        f"convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=true index-bitwidth={index_bits}}}"
    )
    return [
        Step("pause", partial(define_pause, body=_PAUSE)),
        *MATH_STEPS,
        Step("expand-arith", "gpu.module(arith-expand{include-bf16=true})"),
        Step("loops", "gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine)"),
        Step("addresses", partial(keep_addresses_whole, index_bits=index_bits)),
        Step("accesses", partial(lower_memory_accesses, index_bits=index_bits)),
        Step("shared-memory", partial(lower_shared_memory, index_bits=index_bits)),
        Step("no-overflow", rule_out_overflow),
        Step("products", "gpu.module(convert-nvgpu-to-nvvm)"),
        Step("nvvm", f"gpu.module({convert}),reconcile-unrealized-casts"),
        Step("thread-ids", partial(read_thread_ids_anew, source=_THREAD_ID)),
        Step("buffers", read_addresses_anew),
        Step("residency", _allow_all_registers),
        Step("linkage", hide_functions),
        Step("fold", "canonicalize{region-simplify=disabled}"),
    ]


def _allow_all_registers(module: ir.Module) -> None:
    """Set ``nvvm.minctasm`` of each kernel to 1: one resident block per multiprocessor is enough.

    This lets ptxas use all registers of a multiprocessor for one block.
    """
    one = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)
    for operation in walk(module.operation):
        if operation.name == "llvm.func" and "nvvm.kernel" in operation.attributes:
            operation.attributes["nvvm.minctasm"] = one


def lower_to_nvvm(module: ir.Module) -> None:
    """Lower the module's ``gpu.module`` to the LLVM and NVVM dialects, in place."""
    lower_steps(module, nvvm_steps(index_width(module)))
