"""From a scheduled module to native code and the data that it runs on."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.dispatch import (
    STRAIGHT_LINE_LIMIT,
    define_dispatch_loop,
    define_straight_line,
)
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.cpu.runtime import SLEEPING_WAIT, WAIT, runtime_module
from rammer_mlir.lowering.external.calls import (
    define_external_kernels,
    external_kernels,
    take_external_kernels,
    with_state,
)
from rammer_mlir.lowering.kernels.functions import KERNEL_PREFIX, find_kernels
from rammer_mlir.lowering.llvm.builders import declare, hide, i64, pointer
from rammer_mlir.lowering.llvm.machine import Machine
from rammer_mlir.lowering.llvm.templates import append_functions
from rammer_mlir.lowering.program.code_modules import completed
from rammer_mlir.lowering.program.constants import pack_constants
from rammer_mlir.lowering.program.proof import proof_of
from rammer_mlir.lowering.program.records import SlotResolver, program_of
from rammer_mlir.passes.ir.called_functions import check_called_functions
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.cpu_table import encode_for_cpu
from rammer_mlir.programs.modules import CodeModule, ModuleEntry
from rammer_mlir.programs.native_interface import ENTRY, TRACED_ENTRY
from rammer_mlir.programs.records import Program
from rammer_mlir.programs.signature import Signature
from rammer_mlir.scheduling.report import summary
from rammer_mlir.support.cpu_features import cpu_features


def build_image(
    module: ir.Module,
    weights: Mapping[int, NDArray[np.generic]],
    signature: Signature,
    num_veus: int,
    modules: Sequence[CodeModule] = (),
) -> CpuImage:
    """Take the data out of a module at the `program` stage, and leave it unchanged.

    Args:
        module: rPrograms, rKernels and a planned arena.
        weights: arrays by argument number of the entry function.
        signature: the model's inputs and outputs, in the order of the arguments.
        num_veus: threads that run the program.
        modules: code from elsewhere that its rKernels call.

    Raises:
        OperationError: if an rKernel calls a function without a body.
    """
    check_called_functions(module, find_kernels(module))
    scheduled = read_plan(module)
    memory = memory_sizes(entry_function(module))
    constants = pack_constants(weights)
    resolver = SlotResolver(scheduled, constants.offsets)
    program = program_of(scheduled, resolver, num_veus)
    return CpuImage(
        signature=signature,
        program=program,
        table=encode_for_cpu(program),
        proof=proof_of(scheduled, program, resolver),
        constants=Constants((constants.blob,)),
        arena_bytes=memory.arena_bytes,
        features=cpu_features(),
        machine=platform.machine(),
        summary=summary(scheduled.builder.graph(), scheduled.plan, memory),
        modules=tuple(completed(module, program, scheduled) for module in modules),
        entries=_entries(module, program),
    )


def _entries(module: ir.Module, program: Program) -> tuple[ModuleEntry, ...]:
    """Return the functions with a state, in the order of the table that the code has of them."""
    numbers = {kernel.name: number for number, kernel in enumerate(program.kernels)}
    return tuple(
        ModuleEntry(each.external.module, each.external.symbol, numbers[each.name])
        for each in with_state(external_kernels(module))
    )


def lower_program(
    module: ir.Module,
    program: Program,
    machine: Machine,
    straight_line_limit: int = STRAIGHT_LINE_LIMIT,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Replace a module at the `program` stage by LLVM functions, in place.

    The rKernels become functions ``(rTask id, pointers...)``; the schedule becomes the task table
    and its dispatch loop, or straight-line code when it has few records. External rKernels become
    calls of functions that are to be linked, and so do those ``elsewhere``, which were taken out of
    the module: their symbols by name.

    Raises:
        TargetError: if the machine's system calls are not known.
    """
    numbers = {kernel.name: number for number, kernel in enumerate(program.kernels)}
    entry_function(module).operation.erase()
    external = external_kernels(module)
    take_external_kernels(module, external)
    _erase_all(module, "rtask.kernel")
    _erase_all(module, "rtask.module")
    program = _with_symbols(module, program, elsewhere)
    lower_kernels(module, machine)
    define_external_kernels(module, external, numbers, KERNEL_PREFIX)
    _declare_kernels(module, program, set(elsewhere.values()))
    # Only this library calls the rKernels: directly, and not through its export table.
    hide(module, {kernel.name for kernel in program.kernels})
    _erase_all(module, "memref.global")  # what kernels use has become an LLVM global
    with module.context, ir.Location.unknown():
        exclusive = any(kernel.external.is_exclusive for kernel in external)
        architecture = machine.triple.split("-")[0]
        append_functions(module, runtime_module(architecture, has_exclusive=exclusive))
        wait = SLEEPING_WAIT if exclusive else WAIT
        _define_entries(module, program, straight_line_limit, wait)


def code_identity(module: ir.Module, program: Program, machine: Machine) -> bytes:
    """Return a digest that only programs share of which ``lower_program`` makes the same code.

    Args:
        module: at the `program` stage; it stays as it is.
        program: of the module.
        machine: that it is lowered for.
    """
    entry = entry_function(module).operation
    nameless = [replace(operator, name="") for operator in program.operators]
    found = hashlib.sha256(repr((replace(program, operators=tuple(nameless)), machine)).encode())
    for op in module.body.operations:  # without what is erased: the entry and descriptions
        if op.operation.name != "rtask.kernel" and op.operation != entry:
            found.update(op.operation.get_asm(print_generic_op_form=True).encode())
    return found.digest()


def _define_entries(
    module: ir.Module, program: Program, straight_line_limit: int, wait: str
) -> None:
    """Append the functions that execute a vEU, with and without a trace."""
    (launch,) = program.launches
    with ir.InsertionPoint(module.body):
        if launch.num_records <= straight_line_limit:
            define_straight_line(ENTRY, program, wait=wait)
        else:
            define_dispatch_loop(ENTRY, program.kernels, traced=False, wait=wait)
        define_dispatch_loop(TRACED_ENTRY, program.kernels, traced=True, wait=wait)


def _with_symbols(module: ir.Module, program: Program, elsewhere: Mapping[str, str]) -> Program:
    """Give rKernels symbols that neither the runtime nor libc and libm have.

    Else a call to an rKernel named ``free`` would mean the function that the process already has.
    """
    for kernel in find_kernels(module):
        name = ir.StringAttr(kernel.attributes["sym_name"]).value
        kernel.attributes["sym_name"] = ir.StringAttr.get(KERNEL_PREFIX + name, module.context)
    kernels = tuple(
        replace(kernel, name=elsewhere.get(kernel.name, KERNEL_PREFIX + kernel.name))
        for kernel in program.kernels
    )
    return replace(program, kernels=kernels)


def _declare_kernels(module: ir.Module, program: Program, symbols: set[str]) -> None:
    """Declare the rKernels of these symbols, once each: equal ones share a symbol."""
    counts = {each.name: each.num_arguments for each in program.kernels if each.name in symbols}
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        for symbol, count in counts.items():
            declare(symbol, i64(), *[pointer()] * count)


def _erase_all(module: ir.Module, name: str) -> None:
    for op in list(module.body.operations):
        if op.operation.name == name:
            op.operation.erase()
