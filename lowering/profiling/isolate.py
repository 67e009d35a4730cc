"""Copies an rKernel to a separate module as text, and computes the key of its measured times."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.external import External, read_external
from rammer_mlir.lowering.external.code import ForeignCode, read_code
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.passes.ir.called_functions import inline_called_functions, reached_functions
from rammer_mlir.passes.ir.constants import constant_arguments
from rammer_mlir.passes.ir.entry import entry_block, entry_function, functions, symbol_name
from rammer_mlir.passes.ir.kernels import described_kernels

KERNEL = "kernel"
"""Name of the rKernel in its isolated module."""

_METHOD = 6
"""Version of the measurement method: part of the key, to invalidate older measurements."""

_COMPILER = ("rammer-mlir", "torch-mlir", "mlir-python-bindings", "llvmlite")


@dataclass(frozen=True)
class KernelSource:
    """A module with a single rKernel, for a measurement of its time.

    rKernels that differ only in their names have equal sources.

    Attributes:
        text: the module as MLIR prints it; an external rKernel is a declaration.
        num_rtasks: number of rTasks of the rKernel.
        external: the external function that the rKernel calls; None for the compiler's own
            rKernels.
        code: the foreign code module that defines the external function; empty if there is none.
        weights: indices of the rKernel's buffers that are weights; only for an external function
            with a state, because the state may depend on the weights.
        num_veus: number of threads that the rKernel may use; more than 1 only for an exclusive
            rKernel, whose only rTask runs alone on the device.
    """

    text: str
    num_rtasks: int
    external: External | None = None
    code: tuple[ForeignCode, ...] = ()
    weights: tuple[int, ...] = ()
    num_veus: int = 1

    def key(self, machine: Machine) -> str:
        """Return a digest of this source, the processor and the versions of the compiler packages.

        The digest is the key of the rKernel's measured time in the cache.
        """
        # Without the module's name, which may differ between equal modules.
        external = self.external and replace(self.external, module="")
        parts = (
            str(_METHOD), self.text, str(self.num_rtasks),
            *([repr(external), str(self.weights)] if external else []),
            *(_identity(each) for each in self.code),
            *([f"vEUs {self.num_veus}"] if self.num_veus > 1 else []),
            machine.triple, machine.cpu, machine.features, str(machine.vector_bits),
            *(f"{package} {_version(package)}" for package in _COMPILER),
        )  # fmt: skip
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _identity(code: ForeignCode) -> str:
    versions = (f"{need.package} {_version(need.package)}" for need in code.needs)
    contents = (hashlib.sha256(each).hexdigest() for each in (code.content, *code.objects))
    return " ".join([code.form, code.engine, *contents, repr(code.options), *versions])


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
        num_rtasks: number of rTasks of the rKernel.
        num_veus: number of threads that the rKernel may use if it is exclusive.
    """
    return KernelSources(module, num_veus).of(function, num_rtasks)


class KernelSources:
    """Copies rKernels of a module at the `buffers` stage to separate modules.

    The declarations and weights of the module are read once for all rKernels. ``num_veus`` is the
    number of threads that an rKernel may use if it is exclusive; any other rKernel uses one.
    """

    def __init__(self, module: ir.Module, num_veus: int = 1) -> None:
        self._module, self._num_veus = module, num_veus
        self._functions = {symbol_name(each): each for each in functions(module)}
        self._globals = [
            op for op in module.body.operations if op.operation.name == "memref.global"
        ]
        self._described = described_kernels(module)

    @cached_property
    def _code(self) -> dict[str, ForeignCode]:
        return {each.name: each for each in read_code(self._module)}

    @cached_property
    def _weights(self) -> dict[str, tuple[int, ...]]:
        return _weights(self._module)

    def of(self, function: ir.OpView, num_rtasks: int) -> KernelSource:
        """Return a copy of an rKernel, with the constants that it reads, as a separate module.

        ``function`` is the rKernel; ``num_rtasks`` is the number of its rTasks.
        """
        name = symbol_name(function)
        with self._module.context, ir.Location.unknown():
            alone = ir.Module.create()
            end = ir.InsertionPoint(alone.body)
            called = reached_functions(self._functions, [name]) - {name}
            # In the order of the module, on which the text and so the key depends.
            own = [function, *(self._functions[n] for n in self._functions if n in called)]
            names = {each for one in own for each in _constants_used(one.operation)}
            for op in self._globals:
                if symbol_name(op) in names:
                    op.operation.clone(end)
            kernel, *_ = [each.operation.clone(end) for each in own]
            inline_called_functions(alone, [kernel.operation])
            kernel.attributes["sym_name"] = ir.StringAttr.get(KERNEL)
            description = self._described.get(name)
            external = None if description is None else read_external(description.operation)
            if external is None:
                return KernelSource(str(alone), num_rtasks)
            code = (self._code[external.module],) if external.module in self._code else ()
            weights = self._weights.get(name, ()) if external.has_state else ()
            threads = self._num_veus if external.is_exclusive else 1
            return KernelSource(str(alone), num_rtasks, external, code, weights, threads)


def _weights(module: ir.Module) -> dict[str, tuple[int, ...]]:
    """Return, for each rKernel, the indices of the buffers that are always weights.

    An index counts the rKernel's buffers from 0. A buffer is always a weight if it is a weight in
    every rOperator that may use the rKernel.
    """
    weights = {weight.value for weight in constant_arguments(entry_function(module))}
    common: dict[str, set[int]] = {}
    for op in entry_block(module).operations:
        if op.operation.name == "rtask.operator":
            found = {n for n, value in enumerate(op.operation.operands) if value in weights}
            for kernel in _candidates(op):
                common[kernel] = common.get(kernel, found) & found
    return {kernel: tuple(sorted(numbers)) for kernel, numbers in common.items()}


def _candidates(op: ir.OpView) -> list[str]:
    names = ir.ArrayAttr(op.operation.attributes["kernels"])
    return [ir.FlatSymbolRefAttr(name).value for name in names]


def _constants_used(kernel: ir.Operation) -> set[str]:
    readers = (op for op in walk(kernel) if op.name == "memref.get_global")
    return {ir.FlatSymbolRefAttr(op.attributes["name"]).value for op in readers}
