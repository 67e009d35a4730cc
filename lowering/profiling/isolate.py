"""An rKernel by itself, as text: what is measured, and what a measurement is known by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.passes.ir.entry import symbol_name

KERNEL = "kernel"
"""Name of the rKernel in its own module."""

_METHOD = 5
"""Counts the ways in which times were measured so far: another way, another key."""

_COMPILER = ("rammer-mlir", "torch-mlir", "mlir-python-bindings", "llvmlite")


@dataclass(frozen=True)
class KernelSource:
    """A module with one rKernel, in its canonical printed form, and the number of its rTasks.

    Two rKernels that differ in their names only are equal; shapes and types are in the text.
    """

    text: str
    num_rtasks: int

    def key(self, machine: Machine) -> str:
        """Return what its time depends on, as a hash: itself, the processor and the compiler."""
        parts = (
            str(_METHOD), self.text, str(self.num_rtasks),
            machine.triple, machine.cpu, machine.features, str(machine.vector_bits),
            *(f"{package} {_version(package)}" for package in _COMPILER),
        )  # fmt: skip
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def isolate(module: ir.Module, function: ir.OpView, num_rtasks: int) -> KernelSource:
    """Copy an rKernel, with the constants that it reads, out of a module at the `buffers` stage."""
    with module.context, ir.Location.unknown():
        alone = ir.Module.create()
        end = ir.InsertionPoint(alone.body)
        names = _constants_used(function.operation)
        for op in module.body.operations:
            if op.operation.name == "memref.global" and symbol_name(op) in names:
                op.operation.clone(end)
        kernel = function.operation.clone(end)
        kernel.attributes["sym_name"] = ir.StringAttr.get(KERNEL)
        return KernelSource(str(alone), num_rtasks)


def _constants_used(kernel: ir.Operation) -> set[str]:
    readers = (op for op in walk(kernel) if op.name == "memref.get_global")
    return {ir.FlatSymbolRefAttr(op.attributes["name"]).value for op in readers}
