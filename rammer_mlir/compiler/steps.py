"""Defines the parts of stages that are not passes: the steps that lower a schedule to a binary."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from rammer_mlir.compiler.stage import Step, Work
from rammer_mlir.compiler.weights import weight_recipes
from rammer_mlir.emulation.codegen.gpu_to_func import kernel_names
from rammer_mlir.emulation.codegen.kernel import lower_gpu_kernel
from rammer_mlir.errors import TargetError
from rammer_mlir.lowering.cpu.kernel_objects import KernelObjects
from rammer_mlir.lowering.cpu.native_image import build_image, code_identity, lower_program
from rammer_mlir.lowering.cpu.separate_kernels import take_kernels
from rammer_mlir.lowering.external.code import read_code
from rammer_mlir.lowering.external.device_ir import check_device_code
from rammer_mlir.lowering.external.linking import linked_ir, linked_objects
from rammer_mlir.lowering.gpu.llvm.to_llvm import gpu_llvm_ir
from rammer_mlir.lowering.gpu.program.program_to_gpu import lower_to_gpu
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.named_machines import NamedMachine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.lowering.nvvm.cuda_compiler import device_ptx
from rammer_mlir.lowering.nvvm.device_functions import with_device_functions
from rammer_mlir.lowering.nvvm.gpu_to_nvvm import lower_to_nvvm
from rammer_mlir.lowering.nvvm.ptx import emit_ptx
from rammer_mlir.lowering.nvvm.ptxas import assemble
from rammer_mlir.lowering.rocdl.gpu_to_rocdl import lower_to_rocdl
from rammer_mlir.lowering.rocdl.hsaco import amd_machine, link_hsaco, read_resources
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.program.program_ir import ScheduledModule, read_plan
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuCode, GpuCodeKind, GpuImage
from rammer_mlir.programs.residency import (
    BlockNeeds,
    KernelResources,
    Multiprocessors,
    check_residency,
)
from rammer_mlir.runtime.external import with_prebuilt_modules
from rammer_mlir.scheduling.report import summary


def lower_to_threads(work: Work) -> None:
    """Lower a scheduled module for a CPU: the rKernels to LLVM functions, the schedule to a table.

    The module also gets the dispatch code, which executes the table.
    """
    _lower_to_threads(work, host_machine())
    assert isinstance(work.image, CpuImage)
    work.image = with_prebuilt_modules(work.image)


def lower_to_threads_of(named: NamedMachine) -> Step:
    """Return a step like ``lower_to_threads`` that lowers for a named processor."""

    def lower(work: Work) -> None:
        _lower_to_threads(work, named.machine())
        assert isinstance(work.image, CpuImage)
        work.image = replace(
            work.image,
            features=named.features,
            machine=named.architecture,
            target=f"cpu:{named.name}",
        )

    return lower


def _lower_to_threads(work: Work, machine: Machine) -> None:
    options, machine = work.options, replace(machine, registers=work.registers)
    memory = memory_sizes(entry_function(work.module))
    work.recipes = weight_recipes(entry_function(work.module))
    weights = {number: recipe.array(work.constants) for number, recipe in work.recipes.items()}
    work.foreign = read_code(work.module)
    if work.foreign:
        work.stats["operations"] = _operations(read_plan(work.module))
    modules = [code.module for code in work.foreign]
    image = build_image(work.module, weights, work.signature, options.launched_veus, modules)
    work.image = image = replace(image, summary=_with_decision(work, image.summary))
    known = work.known.programs
    if known is not None and not work.foreign:
        work.identity = code_identity(work.module, image.program, machine)
        work.binary, *objects = known.find(work.identity) or (b"",)
        work.objects = tuple(objects)
    if not work.binary:
        symbols = _begin_kernels(work, image, machine) if work.is_separate else {}
        lower_program(work.module, image.program, machine, elsewhere=symbols)
    work.stats |= {
        "arena_bytes": memory.arena_bytes,
        "intermediate_bytes": memory.sum_bytes,
        "live_bytes": memory.live_bytes,
        "constant_bytes": int(image.constants.nbytes),
    }


def _begin_kernels(work: Work, image: CpuImage, machine: Machine) -> dict[str, str]:
    """Move the rKernels of ``image`` out of the module, and compile them in the background.

    The code is for the processor ``machine``. Return a dictionary from the name of each rKernel to
    the symbol of its compiled function.
    """
    work.kernels = objects = KernelObjects(machine, work.known.rkernels)
    taken = take_kernels(work.module, {each.name for each in image.program.kernels}, machine)
    objects.begin(taken)
    return {kernel.name: kernel.symbol for kernel in taken}


def _with_decision(work: Work, words: str) -> str:
    """Return ``words``, a program's summary, with summaries of the compiler's decisions appended.

    The decisions are those about regions, quantization and memory, as far as they were made.
    """
    decisions = (work.decision, work.quantized, work.memory)
    decided = (each.summary for each in decisions if each is not None)
    return "\n".join((words, *decided))


def translate_to_llvm(work: Work) -> None:
    """Translate the module of a CPU program to LLVM IR as text.

    Do nothing if the object file of an equal program is reused.
    """
    if not work.binary:
        work.text = to_llvm_ir(work.module)


def compile_to_object(work: Work) -> None:
    """Compile LLVM IR to an object file for this machine's processor."""
    _compile_to_object(work, host_machine())


def compile_to_object_of(named: NamedMachine) -> Step:
    """Return the step that compiles LLVM IR to an object file for a named processor."""

    def compile_text(work: Work) -> None:
        _compile_to_object(work, named.machine())

    return compile_text


def _compile_to_object(work: Work, machine: Machine) -> None:
    if not work.binary:
        work.binary = emit_object(work.text, machine, linked_ir(work.foreign))
        work.objects = () if work.kernels is None else work.kernels.collect()
        if work.known.programs is not None and not work.foreign:
            work.known.programs.keep(work.identity, (work.binary, *work.objects))
    work.objects = (*work.objects, *linked_objects(work.foreign, machine))
    work.stats["code_bytes"] = sum(map(len, (work.binary, *work.objects)))


def lower_to_blocks(gpu: GpuTarget, code_kind: GpuCodeKind) -> Step:
    """Return the step that lowers a scheduled module to a persistent GPU kernel and its task table.

    The kernel is in the gpu dialect. ``code_kind`` is the kind of device code, ``ptx`` or
    ``hsaco``, that later stages make from the kernel.
    """

    def lower(work: Work) -> None:
        options = work.options
        scheduled = read_plan(work.module)
        memory = memory_sizes(entry_function(work.module))
        work.foreign = read_code(work.module)
        check_device_code(work.foreign, gpu.name)
        graph = scheduled.builder.graph()
        work.stats["operations"] = _operations(scheduled)
        work.recipes = weight_recipes(entry_function(work.module))
        weights = {n: recipe.array(work.constants) for n, recipe in work.recipes.items()}
        program = lower_to_gpu(
            work.module, weights, options.num_veus, gpu,
            modules=[code.module for code in work.foreign],
            watchdog=options.given["watchdog"], per_operator=options.given["per_operator"],
        )  # fmt: skip
        words = _with_decision(work, summary(graph, scheduled.plan, memory))
        work.image = program.image(work.signature, code_kind, summary=words)
        work.stats["constant_bytes"] = int(program.constants.nbytes)

    return lower


def _operations(scheduled: ScheduledModule) -> int:
    """Return the number of scalar operations that the program executes in a run."""
    operators, chosen = scheduled.builder.operators, scheduled.plan.kernels
    kernels = [o.kernels[number] for o, number in zip(operators, chosen, strict=True)]
    return sum(kernel.flops_per_rtask * kernel.num_rtasks for kernel in kernels)


def translate_to_nvvm(work: Work) -> None:
    """Lower the kernel of an NVIDIA GPU to the nvvm dialect, then to LLVM IR as text."""
    lower_to_nvvm(work.module)
    work.text = gpu_llvm_ir(work.module)


def compile_to_ptx(chip: str) -> Step:
    """Return the step that compiles LLVM IR to PTX for an NVIDIA chip.

    If ptxas is missing, this is the last step: the CUDA driver compiles the PTX at load time.
    """

    def compile_text(work: Work) -> None:
        known = _known_kernel(work, chip)
        if known is not None:
            work.binary = known.data
            return
        own = emit_ptx(work.text, chip, linked_ir(work.foreign))
        work.text = with_device_functions(own, device_ptx(work.foreign, chip), chip)

    return compile_text


def _known_kernel(work: Work, chip: str) -> GpuCode | None:
    """Return the kernel in ``work.known_kernels`` compiled from ``work.text`` for ``chip``.

    Return None if there is no such kernel. ``work.identity`` becomes the digest under which
    ``known_kernels`` finds the kernel.
    """
    if work.known_kernels is None or work.foreign:
        return None
    work.identity = hashlib.sha256(f"{chip}\n{work.text}".encode()).digest()
    return work.known_kernels.find(work.identity)


def assemble_cubin(chip: str, has: Multiprocessors) -> Step:
    """Return the step that assembles a cubin, and checks that all blocks can be resident.

    ``chip`` is an NVIDIA processor such as ``sm_90``; ``has`` describes its multiprocessors.
    """

    def run_assembler(work: Work) -> None:
        known = None if work.known_kernels is None else work.known_kernels.find(work.identity)
        if known is None:
            assembled = assemble(work.text, chip)
            known = GpuCode("cubin", assembled.cubin, assembled.resources)
            if work.known_kernels is not None and work.identity:
                work.known_kernels.keep(work.identity, known)
        assert known.resources is not None, "ptxas reports them"
        _keep_device_code(work, known.kind, known.data, known.resources, has)

    return run_assembler


def translate_to_rocdl(chip: str) -> Step:
    """Return the step that lowers the kernel to the rocdl dialect, then to LLVM IR as text.

    ``chip`` is an AMD processor such as ``gfx90a``.
    """

    def translate(work: Work) -> None:
        lower_to_rocdl(work.module, chip)
        work.text = gpu_llvm_ir(work.module)

    return translate


def compile_for_amd(chip: str) -> Step:
    """Return the step that compiles LLVM IR to an object for an AMD chip."""

    def compile_text(work: Work) -> None:
        work.binary = emit_object(work.text, amd_machine(chip), linked_ir(work.foreign))

    return compile_text


def link_code_object(has: Multiprocessors) -> Step:
    """Return the step that links a code object, and checks that all blocks can be resident.

    ``has`` describes the compute units of the AMD GPU.
    """

    def link(work: Work) -> None:
        code = link_hsaco(work.binary)
        _keep_device_code(work, "hsaco", code, read_resources(code), has)

    return link


def _keep_device_code(
    work: Work, kind: GpuCodeKind, code: bytes, found: KernelResources, has: Multiprocessors
) -> None:
    """Store a kernel's code in ``work``, after a check that the device can hold its blocks.

    Args:
        work: the model.
        kind: ``cubin`` or ``hsaco``.
        code: machine code of the kernel.
        found: resources of the kernel, as the assembler reports them.
        has: the multiprocessors of the device.

    Raises:
        TargetError: if the blocks of all vEUs cannot be resident at once.
    """
    image = work.image
    assert isinstance(image, GpuImage)
    needs = BlockNeeds(image.block_threads, found.registers, found.shared_bytes)
    # Without barriers, blocks of single-operator launches may queue.
    resident = image.num_veus if image.is_persistent else 1
    check_residency(image.target, resident, has, needs)
    work.binary, work.image = code, replace(image, code_kind=kind, resources=found)


def translate_for_emulator(gpu: GpuTarget, *, checked: bool, traced: bool) -> Step:
    """Return the step that translates the kernel and the emulator's runtime to LLVM IR.

    The LLVM IR is for this machine's processor; ``gpu`` is the emulated GPU. With ``checked``, the
    code checks memory accesses; with ``traced``, the code records memory accesses. With
    ``checked``, the step raises TargetError if the program contains external rKernels, because
    their accesses cannot be checked.
    """

    def translate(work: Work) -> None:
        assert work.image is not None
        check_device_code(work.foreign, f"emulator:{work.image.target}")
        if checked and work.foreign:
            raise TargetError(
                "emulation with checks: expected rKernels of the compiler, found code from "
                f"elsewhere ('{work.foreign[0].name}'), whose accesses cannot be checked; emulate "
                "without checks"
            )
        (name,) = kernel_names(work.module)
        work.kernel = lower_gpu_kernel(
            work.module, name, checked=checked, traced=traced, shared_limit=gpu.shared_limit
        )
        work.text = work.kernel.text

    return translate
