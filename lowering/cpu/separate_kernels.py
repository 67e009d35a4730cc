"""Moves rKernels to separate modules, to be compiled and cached individually."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.ir_walk import walk
from rammer_mlir.lowering.kernels.functions import KERNEL_PREFIX, find_kernels
from rammer_mlir.lowering.llvm.builders import hide
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.passes.ir.called_functions import inline_called_functions

_SYMBOL = re.compile(r'@("[^"]+"|[\w.$-]+)')
"""Pattern of a symbol in MLIR text, ``@name`` or ``@"name"``; its group lacks the ``@``."""

_DIGEST_LENGTH = 32
"""Hexadecimal digits of the digest in an rKernel's symbol: 128 bits."""


@dataclass(frozen=True)
class SeparateKernel:
    """An rKernel and the constants that it reads, in a separate module.

    Attributes:
        name: the rKernel's name in the original program.
        module: contains only this rKernel; the names of the rKernel and its constants are
            canonical, so equal rKernels have equal modules.
        identity: SHA-256 digest of the module's text and the target machine; equal for equal
            rKernels.
    """

    name: str
    module: ir.Module
    identity: str

    @property
    def symbol(self) -> str:
        """The name of the rKernel's function in native code."""
        return f"{KERNEL_PREFIX}{self.identity[:_DIGEST_LENGTH]}"

    def llvm_ir(self, machine: Machine) -> str:
        """Lower the rKernel to LLVM IR, and return it as text.

        ``machine`` must be the target machine that ``identity`` was computed for.
        """
        (function,) = find_kernels(self.module)
        function.attributes["sym_name"] = ir.StringAttr.get(self.symbol, self.module.context)
        lower_kernels(self.module, machine)
        hide(self.module, (self.symbol,))
        return to_llvm_ir(self.module)


def take_kernels(
    module: ir.Module, names: Collection[str], machine: Machine
) -> list[SeparateKernel]:
    """Move rKernels out of a module at the `program` stage; return each as a separate module.

    Functions that the rKernels call are inlined first. An rKernel is not moved if it refers to a
    symbol that is not a constant, for instance a function that is linked later.

    Args:
        module: loses the moved functions, but keeps the ``rtask.kernel``s that describe them.
        names: names of the rKernels that the program runs; no other rKernels are moved.
        machine: the target machine, which becomes a part of each rKernel's identity.

    Raises:
        OperationError: if a called function cannot be inlined.
    """
    with module.context, ir.Location.unknown():
        inline_called_functions(module, list(find_kernels(module)), keeps_declared=True)
        constants = {
            _symbol(op.operation): op.operation
            for op in module.body.operations
            if op.operation.name == "memref.global"
        }
        taken: list[SeparateKernel] = []
        for function in list(find_kernels(module)):
            if (name := _symbol(function)) not in names:
                continue
            used = _used_symbols(function) - {name}
            if used <= constants.keys():
                taken.append(_take(function, {each: constants[each] for each in used}, machine))
        return taken


def _take(
    function: ir.Operation, constants: Mapping[str, ir.Operation], machine: Machine
) -> SeparateKernel:
    name = _symbol(function)
    module = ir.Module.create()
    function.detach_from_parent()
    function.attributes["sym_name"] = ir.StringAttr.get("rkernel")
    renamed: dict[str, str] = {}
    for op in walk(function) if constants else ():
        if op.name == "memref.get_global":
            old = ir.FlatSymbolRefAttr(op.attributes["name"]).value
            new = renamed.setdefault(old, f"constant.{len(renamed)}")
            op.attributes["name"] = ir.FlatSymbolRefAttr.get(new)
    for old, new in renamed.items():
        copy = constants[old].clone(ir.InsertionPoint(module.body))
        copy.attributes["sym_name"] = ir.StringAttr.get(new)
    module.body.append(function)
    text = module.operation.get_asm(print_generic_op_form=True, assume_verified=True)
    identity = hashlib.sha256(f"{machine}\n{text}".encode()).hexdigest()
    return SeparateKernel(name, module, identity)


def _used_symbols(function: ir.Operation) -> set[str]:
    text = function.get_asm(print_generic_op_form=True, assume_verified=True)
    # The name of the function itself is a string attribute in the generic form, so it is not found.
    return {found.strip('"') for found in _SYMBOL.findall(text)}


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value
