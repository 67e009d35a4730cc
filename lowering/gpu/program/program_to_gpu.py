"""Lowers a module at the `program` stage to a ``gpu.module`` with one persistent kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import gpu, ir
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.gpu.alignment import ALIGNMENT as ALIGNED
from rammer_mlir.lowering.gpu.contractions.plan import WIDEST
from rammer_mlir.lowering.gpu.kernels import (
    BLOCK_THREADS,
    SUBGROUP,
    MappedKernels,
    map_kernels,
    run_passes,
    symbol,
)
from rammer_mlir.lowering.gpu.program.barriers import (
    declare_pause,
    define_await,
    define_publish,
)
from rammer_mlir.lowering.gpu.program.dispatch import STRAIGHT_LINE_LIMIT, define_kernel
from rammer_mlir.lowering.gpu.program.external_kernels import define_external_kernels
from rammer_mlir.lowering.gpu.program.layout import KernelLayout
from rammer_mlir.lowering.gpu.program.watchdog import define_watched_await
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.gpu.temporaries import ALIGNMENT
from rammer_mlir.lowering.kernels.functions import KERNEL_PREFIX, find_kernels
from rammer_mlir.lowering.program.code_modules import completed
from rammer_mlir.lowering.program.constants import pack_constants
from rammer_mlir.lowering.program.proof import proof_of
from rammer_mlir.lowering.program.records import SlotResolver, program_of
from rammer_mlir.passes.ir.called_functions import inline_called_functions
from rammer_mlir.passes.ir.constants import CONSTANT, argument_attributes
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.rtask_plan_memory import ARENA, memory_sizes
from rammer_mlir.programs.constants import Constants
from rammer_mlir.programs.gpu_image import GpuCodeKind, GpuImage
from rammer_mlir.programs.gpu_table import Buffer, encode_for_gpu
from rammer_mlir.programs.modules import CodeModule
from rammer_mlir.programs.native_interface import GPU_ENTRY, argument_name
from rammer_mlir.programs.proof import Proof
from rammer_mlir.programs.records import Base, Program
from rammer_mlir.programs.residency import KernelResources
from rammer_mlir.programs.signature import Signature

MODULE = "rammer"
"""Symbol of the gpu module that contains the persistent kernel."""


@dataclass(frozen=True)
class GpuProgram:
    """Data for launching the persistent kernel, besides its code.

    Attributes:
        target: the GPU that the kernel is compiled for.
        block_threads: number of threads of each block.
        arguments: names of the kernel's arguments in order, each a pointer: ``inputN``,
            ``outputN``, ``constant``, ``arena``, ``scratches``, ``counters`` (zeroed once, before
            the first launch) and ``table``; with a watchdog also its buffer.
        argument_bytes: size of each argument's buffer in bytes.
        constants: the bytes of all weights.
        program: the scheduled program.
        tables: the task tables, an int64 array with a row of words for each launch.
        proof: the slots of values in memory and the accesses of rTasks, to check the schedule.
        shared_bytes: bytes of static shared memory of a block.
        inouts: names of the inputs (``inputN``) that the kernel updates in place.
        modules: modules of foreign code that rKernels call.
    """

    target: GpuTarget
    block_threads: int
    arguments: tuple[str, ...]
    argument_bytes: tuple[int, ...]
    constants: NDArray[np.uint8]
    program: Program
    tables: NDArray[np.int64]
    proof: Proof
    shared_bytes: int
    inouts: tuple[str, ...] = ()
    modules: tuple[CodeModule, ...] = ()

    @property
    def num_veus(self) -> int:
        """The number of blocks of a launch.

        If the whole program is one launch, all blocks must be resident at the same time.
        """
        return self.program.num_veus

    def image(
        self,
        signature: Signature,
        code_kind: GpuCodeKind,
        resources: KernelResources | None = None,
        summary: str = "",
    ) -> GpuImage:
        """Return the part of an artifact that describes the GPU program, except the kernel's code.

        Args:
            signature: names, shapes and dtypes of inputs and outputs.
            code_kind: the kind of the kernel's code.
            resources: the kernel's registers and memory; None if they are unknown until the driver
                compiles the kernel.
            summary: the schedule as text for users.
        """
        return GpuImage(
            target=self.target.name,
            signature=signature,
            entry=GPU_ENTRY,
            block_threads=self.block_threads,
            arguments=self.arguments,
            argument_bytes=self.argument_bytes,
            constants=Constants((self.constants,)),
            program=self.program,
            tables=self.tables,
            proof=self.proof,
            shared_bytes=self.shared_bytes,
            code_kind=code_kind,
            resources=resources,
            summary=summary,
            inouts=self.inouts,
            modules=self.modules,
        )


def lower_to_gpu(
    module: ir.Module,
    weights: Mapping[int, NDArray[np.generic]],
    num_veus: int,
    target: GpuTarget,
    straight_line_limit: int = STRAIGHT_LINE_LIMIT,
    *,
    modules: Sequence[CodeModule] = (),
    watchdog: int = 0,
    per_operator: bool = False,
) -> GpuProgram:
    """Replace a module at the `program` stage by a ``gpu.module``, in place.

    Returns the data for launching the kernel.

    Args:
        module: contains rPrograms, rKernels and a planned arena.
        weights: arrays of the weights, by argument index of the entry function.
        num_veus: number of blocks of the kernel.
        target: the GPU.
        straight_line_limit: a program of at most this number of records becomes straight-line code
            instead of a dispatch loop; ignored with a watchdog or ``per_operator``.
        modules: modules of foreign code that the rKernels call.
        watchdog: number of polls of a step counter after which a waiting vEU stops the program; 0
            for no watchdog.
        per_operator: launch the kernel once per rProgram instead of once in total; the module must
            have an rProgram for each operator.

    Raises:
        TargetError: if rKernels are written for blocks, or for subgroups, of different sizes.
    """
    inline_called_functions(module, list(find_kernels(module)))
    scheduled = read_plan(module)
    target = _with_block_of(target, list(find_kernels(module)))
    external = define_external_kernels(module, target)
    constants = pack_constants(weights)
    resolver = SlotResolver(scheduled, constants.offsets)
    program = program_of(scheduled, resolver, num_veus, separate=per_operator)
    proof = proof_of(scheduled, program, resolver)
    sizes = _buffer_bytes(module, len(constants.blob))
    encoded = [
        encode_for_gpu(program, launch, list(sizes), counts_runs=not per_operator)
        for launch in program.launches
    ]
    tables = _of_one_length([table.words for table in encoded])
    inouts = _inouts(module)
    _erase_schedule(module)
    mapped = _lower_kernels(module, target, program, external)
    layout = KernelLayout(
        target, _native(program), encoded[0], sizes, mapped, tables.shape[1], watchdog
    )
    # Straight-line code has its table built in, and has no early exit for the watchdog.
    _assemble(module, layout, 0 if watchdog or per_operator else straight_line_limit)
    argument_bytes = layout.argument_bytes()
    return GpuProgram(
        target=target,
        block_threads=target.block_threads,
        arguments=tuple(argument_bytes),
        argument_bytes=tuple(argument_bytes.values()),
        constants=constants.blob,
        program=program,
        tables=tables,
        proof=proof,
        shared_bytes=mapped.shared_bytes,
        inouts=inouts,
        modules=tuple(completed(each, program, scheduled) for each in modules),
    )


def _native(program: Program) -> Program:
    """Return the program with its rKernels' names replaced by their symbols in native code."""
    kernels = tuple(replace(k, name=KERNEL_PREFIX + k.name) for k in program.kernels)
    return replace(program, kernels=kernels)


def _with_block_of(target: GpuTarget, kernels: Sequence[ir.Operation]) -> GpuTarget:
    """Return the target with the block size that rKernels are written for.

    Return the target unchanged if no rKernel is written for a certain block size.

    Raises:
        TargetError: if two rKernels are written for blocks of different sizes, or an rKernel for
            subgroups of another size than the target's.
    """
    for kernel in kernels:
        if SUBGROUP in kernel.attributes:
            lanes = ir.IntegerAttr(kernel.attributes[SUBGROUP]).value
            if lanes != target.warp_size:
                raise TargetError(
                    f"rKernel @{symbol(kernel)}: expected {target.warp_size} lanes in a subgroup, "
                    f"as {target.name} has, found a kernel for {lanes}; choose another target"
                )
    sizes = {
        ir.IntegerAttr(kernel.attributes[BLOCK_THREADS]).value: symbol(kernel)
        for kernel in kernels
        if BLOCK_THREADS in kernel.attributes
    }
    if len(sizes) > 1:
        found = ", ".join(f"{threads} (@{name})" for threads, name in sizes.items())
        raise TargetError(
            f"expected rKernels for blocks of one size, found {found}; make them in one module"
        )
    return replace(target, block_threads=next(iter(sizes), target.block_threads))


def _of_one_length(tables: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the task tables of all launches as rows of an array, padded with zeros."""
    rows = np.zeros((len(tables), max(map(len, tables))), np.int64)
    for row, found in zip(rows, tables, strict=True):
        row[: len(found)] = found
    return rows


def _buffer_bytes(module: ir.Module, constant_bytes: int) -> dict[Buffer, int]:
    """Return the size in bytes of each buffer of the kernel, in the order of its arguments.

    A key is a pair: the kind of memory (input, output, constant or arena), and the buffer's index
    among the buffers of that kind. ``constant_bytes`` is the total size of all weights.
    """
    main = entry_function(module)
    signature = ir.TypeAttr(main.operation.attributes["function_type"]).value
    kinds = ir.FunctionType(signature).inputs
    found: dict[Base, list[int]] = {"input": [], "output": []}
    for attributes, kind in zip(argument_attributes(main), kinds, strict=True):
        if CONSTANT in attributes or ARENA in attributes:
            continue
        elements = int(np.prod(ir.MemRefType(kind).shape, dtype=np.int64))
        base: Base = "output" if "rtask.output" in attributes else "input"
        found[base].append(max(1, elements * element_bytes(kind)))
    sizes: dict[Buffer, int] = {}
    for base, all_sizes in found.items():
        sizes.update({(base, n): size for n, size in enumerate(all_sizes)})
    sizes["constant", 0] = max(constant_bytes, ALIGNMENT)
    sizes["arena", 0] = max(memory_sizes(main).arena_bytes, ALIGNMENT)
    return sizes


def _inouts(module: ir.Module) -> tuple[str, ...]:
    """Return the names (``inputN``) of the inputs marked ``rtask.inout``: updated in place."""
    inputs = [
        marks for marks in argument_attributes(entry_function(module))
        if not marks.keys() & {CONSTANT, ARENA, "rtask.output"}
    ]  # fmt: skip
    numbers = (n for n, marks in enumerate(inputs) if "rtask.inout" in marks)
    return tuple(argument_name("input", n) for n in numbers)


def _erase_schedule(module: ir.Module) -> None:
    entry_function(module).operation.erase()
    for op in list(module.body.operations):
        if op.operation.name in ("rtask.kernel", "rtask.module"):
            op.operation.erase()


def _lower_kernels(
    module: ir.Module, target: GpuTarget, program: Program, external: Collection[str]
) -> MappedKernels:
    """Distribute every rKernel over a block's threads, in place.

    Returns the types of the rKernels' buffers, and the sizes of shared and scratch memory.
    ``external`` has the names of rKernels with foreign code. Foreign code may use shared memory,
    so a block barrier follows each rTask of these rKernels.
    """
    kernels: list[ir.Operation] = list(find_kernels(module))
    for kernel in kernels:
        kernel.attributes["sym_name"] = ir.StringAttr.get(KERNEL_PREFIX + symbol(kernel))
    _note_alignments(kernels, program)
    mapped = map_kernels(
        module, kernels, target.shared_limit, target.block_threads,
        async_copies=target.async_copies, matrix_unit=target.matrix_unit,
    )  # fmt: skip
    meeting = mapped.with_temporaries.union(KERNEL_PREFIX + name for name in external)
    return replace(mapped, with_temporaries=meeting)


def _note_alignments(kernels: Sequence[ir.Operation], program: Program) -> None:
    """Mark each argument of the rKernels with a divisor of its address, the alignment in bytes.

    The alignment holds for the argument's addresses in all rTasks.
    """
    known: dict[str, list[int]] = {}
    for operator in program.operators:
        name = KERNEL_PREFIX + program.kernels[operator.kernel].name
        before = known.get(name, [WIDEST] * len(operator.slots))
        known[name] = [gcd(n, slot.offset) for n, slot in zip(before, operator.slots, strict=True)]
    i64 = ir.IntegerType.get_signless(64)
    for kernel in kernels:
        if symbol(kernel) in known:
            marks = ({ALIGNED: ir.IntegerAttr.get(i64, n)} for n in known[symbol(kernel)])
            attributes = [{}, *marks]  # the rTask's id comes first
            kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(found) for found in attributes]
            )


def _assemble(module: ir.Module, layout: KernelLayout, straight_line_limit: int) -> None:
    """Move all functions into one gpu module, and define the persistent kernel there.

    The moved functions are rKernels, mapped to threads. The functions by which the kernel waits and
    publishes step counters are defined too.
    """
    lowered = list(module.body.operations)
    with ir.InsertionPoint(module.body):
        body: ir.Block = gpu.GPUModuleOp(MODULE).regions[0].blocks.append()
    for op in lowered:
        op.operation.detach_from_parent()
        body.append(op)
    with ir.InsertionPoint(body):
        declare_pause()
        define = define_watched_await if layout.watchdog else define_await
        define(layout)
        define_publish(layout)
        define_kernel(layout, straight_line_limit)
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    run_passes(module, "gpu.module(canonicalize{region-simplify=disabled},cse),symbol-dce")
