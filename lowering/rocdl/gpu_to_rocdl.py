"""Lowers the gpu dialect to the LLVM and ROCDL dialects."""

from __future__ import annotations

from functools import partial

from rammer_mlir.bindings import ir
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
from rammer_mlir.lowering.llvm.steps import Step

_THREAD_ID = ThreadId("rocdl.workitem.id.x", "v")

_PAUSE = "  rocdl.s.sleep 1"
"""Body of the pause between polls: sleeps 64 clocks, in which other waves run."""


def rocdl_steps(chip: str, index_bits: int) -> list[Step]:
    """Return the lowering steps from the gpu dialect to the LLVM and ROCDL dialects, in order.

    ``chip`` is the AMD GPU; ``index_bits`` is the number of bits of an index in the lowered code.
    """
    convert = (
        f"convert-gpu-to-rocdl{{chipset={chip} use-bare-ptr-memref-call-conv=true "
        f"index-bitwidth={index_bits}}}"
    )
    return [
        Step("pause", partial(define_pause, body=_PAUSE)),
        *MATH_STEPS,
        Step("expand-arith", "gpu.module(arith-expand{include-bf16=true})"),
        Step("loops", "gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine)"),
        Step("addresses", partial(keep_addresses_whole, index_bits=index_bits)),
        Step("accesses", partial(lower_memory_accesses, index_bits=index_bits)),
        Step("no-overflow", rule_out_overflow),
        Step("rocdl", f"gpu.module({convert}),reconcile-unrealized-casts"),
        Step("thread-ids", partial(read_thread_ids_anew, source=_THREAD_ID)),
        Step("linkage", hide_functions),
        Step("fold", "canonicalize{region-simplify=disabled}"),
    ]


def lower_to_rocdl(module: ir.Module, chip: str) -> None:
    """Lower the module's ``gpu.module`` to the LLVM dialect for the AMD GPU ``chip``, in place."""
    lower_steps(module, rocdl_steps(chip, index_width(module)))
