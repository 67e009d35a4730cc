"""Defines lowering steps, and lists the steps from loops on vectors to the LLVM dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rammer_mlir.bindings import ir, passmanager
from rammer_mlir.lowering.llvm.expand_exponentials import expand_exponentials
from rammer_mlir.lowering.llvm.expand_float_to_integer import expand_float_to_integer
from rammer_mlir.lowering.llvm.expand_libm_functions import expand_on_vectors
from rammer_mlir.lowering.llvm.expand_maxima import expand_maxima
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.narrow_floats import (
    convert_through_f32,
    expand_half_conversions,
    widen_multiply_add,
)


@dataclass(frozen=True)
class Step:
    """A named lowering step.

    Attributes:
        name: name of the lowering step.
        run: an MLIR pass pipeline as text, or a function that changes a module in place.
    """

    name: str
    run: str | Callable[[ir.Module], None]

    def apply(self, module: ir.Module) -> None:
        """Run the lowering step on a module, in place."""
        if callable(self.run):
            self.run(module)
        else:
            passes = passmanager.PassManager.parse(f"builtin.module({self.run})")
            passes.enable_verifier(False)  # the caller verifies once, after all steps
            passes.run(module.operation)


def llvm_steps(machine: Machine) -> list[Step]:
    """Return the lowering steps from loops on vectors to LLVM functions for a machine."""
    narrow = "source-types=bf16,f16 target-type=f32"
    return [
        Step("narrow-math", "math-extend-to-supported-types{target-type=f32}"),
        Step("narrow-multiply-add", widen_multiply_add),
        Step("narrow-floats", f"arith-emulate-unsupported-floats{{{narrow}}}"),
        Step("float-to-integer", expand_float_to_integer),
        Step("wide-floats", convert_through_f32),
        *([] if machine.has_half_conversions else [Step("half", expand_half_conversions)]),
        Step("exponentials", expand_exponentials),
        Step("libm-functions", expand_on_vectors),
        Step("maxima", expand_maxima),
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
