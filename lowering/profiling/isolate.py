"""An rKernel isolated as a separate module, as text, and its key in the cache of measured times."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.lowering.external.code import ForeignCode, read_code
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.passes.ir.called_functions import called_functions, inline_called_functions
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import entry_block, entry_function, functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels

KERNEL = "kernel"
"""Name of the rKernel in its isolated module."""

_METHOD = 5
"""Version of the measurement method: part of the key, to invalidate older measurements."""

_COMPILER = ("rammer-mlir", "torch-mlir", "mlir-python-bindings", "llvmlite")


@dataclass(frozen=True)
class KernelSource:
    """A module with a single rKernel, to be measured.

    rKernels that differ only in their names have equal sources.

    Attributes:
        text: the module in its canonical printed form; an external rKernel is a declaration.
        num_rtasks: number of rTasks of the rKernel.
        external: the external function that the rKernel calls, None for the compiler's own
            rKernels.
        code: the external code module that defines this function.
        weights: numbers of the rKernel's buffers that are weights, on which a state may depend.
        num_veus: threads that the rKernel may use, more than 1 only if it is exclusive.
    """

    text: str
    num_rtasks: int
    external: External | None = None
    code: tuple[ForeignCode, ...] = ()
    weights: tuple[int, ...] = ()
    num_veus: int = 1

    def key(self, machine: Machine) -> str:
        """Return a digest of all that determines the rKernel's time: code, processor, compiler."""
        parts = (
            str(_METHOD), self.text, str(self.num_rtasks),
            *([self.external.symbol, str(self.weights)] if self.external else []),
            *(_identity(each) for each in self.code),
            *([f"vEUs {self.num_veus}"] if self.num_veus > 1 else []),
            machine.triple, machine.cpu, machine.features, str(machine.vector_bits),
            *(f"{package} {_version(package)}" for package in _COMPILER),
        )  # fmt: skip
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _identity(code: ForeignCode) -> str:
    versions = (f"{need.package} {_version(need.package)}" for need in code.needs)
    content = hashlib.sha256(code.content).hexdigest()
    return " ".join([code.form, code.engine, content, *versions])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def isolate(
    module: ir.Module, function: ir.OpView, num_rtasks: int, num_veus: int = 1
) -> KernelSource:
    """Return a copy of an rKernel, with the constants that it reads, as a separate module.

    Args:
        module: at the `buffers` stage.
        function: the rKernel, a function of the module.
        num_rtasks: its number of rTasks.
        num_veus: threads that it may use if its rTask runs alone on the device.
    """
    with module.context, ir.Location.unknown():
        alone = ir.Module.create()
        end = ir.InsertionPoint(alone.body)
        called = called_functions(module, [symbol_name(function)]) - {symbol_name(function)}
        own = [function, *(each for each in functions(module) if symbol_name(each) in called)]
        names = {name for each in own for name in _constants_used(each.operation)}
        for op in module.body.operations:
            if op.operation.name == "memref.global" and symbol_name(op) in names:
                op.operation.clone(end)
        kernel, *_ = [each.operation.clone(end) for each in own]
        inline_called_functions(alone, [kernel.operation])
        kernel.attributes["sym_name"] = ir.StringAttr.get(KERNEL)
        description = described_kernels(module).get(symbol_name(function))
        external = None if description is None else read_external(description.operation)
        if external is None:
            return KernelSource(str(alone), num_rtasks)
        code = tuple(each for each in read_code(module) if each.name == external.module)
        weights = _weights(module, symbol_name(function)) if external.has_state else ()
        threads = num_veus if external.is_exclusive else 1
        return KernelSource(str(alone), num_rtasks, external, code, weights, threads)


def _weights(module: ir.Module, kernel: str) -> tuple[int, ...]:
    """Return the numbers of an rKernel's buffers that are weights in all rOperators that use it.

    A number is the buffer's position among the rKernel's buffers, from 0.
    """
    main = entry_function(module)
    weights = [weight.value for weight in constant_arguments(main)]
    common: set[int] | None = None
    for op in entry_block(module).operations:
        if op.operation.name == "rtask.operator" and kernel in _candidates(op):
            found = {n for n, value in enumerate(op.operation.operands) if value in weights}
            common = found if common is None else common & found
    return tuple(sorted(common or ()))


def _candidates(op: ir.OpView) -> list[str]:
    names = ir.ArrayAttr(op.operation.attributes["kernels"])
    return [ir.FlatSymbolRefAttr(name).value for name in names]


def _constants_used(kernel: ir.Operation) -> set[str]:
    readers = (op for op in walk(kernel) if op.name == "memref.get_global")
    return {ir.FlatSymbolRefAttr(op.attributes["name"]).value for op in readers}
