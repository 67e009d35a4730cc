"""Compiles a scheduled module to native code, and to the data that the code reads."""

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
    define_runners,
    define_straight_line,
)
from rammer_mlir.lowering.cpu.kernels_to_llvm import lower_kernels
from rammer_mlir.lowering.cpu.runtime import runtime_module
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
    """Return the image of a module at the `program` stage: schedule, tables, proof and constants.

    The image has no code: ``lower_program`` lowers the module. This function does not change the
    module.

    Args:
        module: rPrograms, rKernels and a planned arena.
        weights: arrays by argument index of the entry function.
        signature: the model's inputs and outputs, in the order of the arguments.
        num_veus: count of vEUs, each a thread, that run the program.
        modules: foreign code that the module's rKernels call.

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
    """Return an entry for each external rKernel with a state.

    The order is that of the rows of the table ``MODULES`` (``with_state``). An entry has the code
    module, the symbol, and the index of the rKernel in ``program``.
    """
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

    The rKernels become functions ``(rTask id, pointers...)``. External rKernels become calls of
    functions that are linked later.

    Args:
        module: the module.
        program: the schedule of the module as data.
        machine: the target processor.
        straight_line_limit: the largest count of records of a schedule that becomes straight-line
            code; a longer schedule becomes the task table and a dispatch loop.
        elsewhere: the rKernels that were moved out of the module to be compiled separately, as a
            mapping from the rKernel's name to the symbol of its function, which is linked later.

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
    # Hidden visibility: only this library calls the rKernels, directly and without a PLT entry.
    hide(module, {kernel.name for kernel in program.kernels})
    _erase_all(module, "memref.global")  # the constants that kernels use are LLVM globals now
    with module.context, ir.Location.unknown():
        exclusive = any(kernel.external.is_exclusive for kernel in external)
        architecture = machine.triple.split("-")[0]
        append_functions(module, runtime_module(architecture, has_exclusive=exclusive))
        _define_entries(module, program, straight_line_limit)


def code_identity(module: ir.Module, program: Program, machine: Machine) -> bytes:
    """Return a digest of all that determines the code that ``lower_program`` generates.

    Programs with equal digests have the same code.

    Args:
        module: a module at the `program` stage; it is not modified.
        program: the schedule of the module as data.
        machine: the target of the lowering.
    """
    entry = entry_function(module).operation
    nameless = [replace(operator, name="") for operator in program.operators]
    found = hashlib.sha256(repr((replace(program, operators=tuple(nameless)), machine)).encode())
    # Skip the parts that lowering erases: the entry function and descriptions.
    for op in module.body.operations:
        if op.operation.name != "rtask.kernel" and op.operation != entry:
            found.update(op.operation.get_asm(print_generic_op_form=True).encode())
    return found.digest()


def _define_entries(module: ir.Module, program: Program, straight_line_limit: int) -> None:
    """Append the LLVM functions that execute a vEU: one without and one with a trace of times.

    A program with at most ``straight_line_limit`` records becomes straight-line code in the
    function without a trace; every other function is a dispatch loop over the task table.
    """
    (launch,) = program.launches
    with ir.InsertionPoint(module.body):
        runners = define_runners(program.kernels)
        if launch.num_records <= straight_line_limit:
            define_straight_line(ENTRY, program)
        else:
            define_dispatch_loop(ENTRY, program.kernels, runners, traced=False)
        define_dispatch_loop(TRACED_ENTRY, program.kernels, runners, traced=True)


def _with_symbols(module: ir.Module, program: Program, elsewhere: Mapping[str, str]) -> Program:
    """Rename the module's rKernels, and return ``program`` with the new symbols.

    The new symbol is the rKernel's name with a prefix. Without the prefix, a call of an rKernel
    named ``free`` would resolve to libc's function. ``elsewhere`` maps the name of each rKernel
    outside of the module to the symbol that the rKernel has in the result.
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
    """Declare the functions ``symbols`` of separately compiled rKernels of ``program``.

    Equal rKernels share a symbol, which is declared once.
    """
    counts = {each.name: each.num_arguments for each in program.kernels if each.name in symbols}
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        for symbol, count in counts.items():
            declare(symbol, i64(), *[pointer()] * count)


def _erase_all(module: ir.Module, name: str) -> None:
    for op in list(module.body.operations):
        if op.operation.name == name:
            op.operation.erase()
