"""Defines the stages of each target, from a graph of tensors to the binary, by named passes.

Passes have the syntax of ``rammer-opt``. Target-specific steps, from the stage `target` on, are in
``steps.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rammer_mlir.compiler import steps
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.fusion_boundary import formed_operators
from rammer_mlir.compiler.memory_budget import BudgetPasses, budget_stages
from rammer_mlir.compiler.offload_choice import TrialPasses, choose_regions
from rammer_mlir.compiler.quantization.quantize import quantization_of
from rammer_mlir.compiler.region_forming import FormRegions, quantized_regions
from rammer_mlir.compiler.stage import Stage
from rammer_mlir.compiler.stage_names import REGIONS
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.machine import Machine, host_machine
from rammer_mlir.lowering.llvm.named_machines import NamedMachine
from rammer_mlir.passes.fusion.boundaries import ENOUGH_TASKS
from rammer_mlir.passes.regions.codegen import HOST
from rammer_mlir.programs.module_options import text_of, written
from rammer_mlir.programs.residency import Multiprocessors
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.policies import name_of
from rammer_mlir.scheduling.policies.ios import Ios
from rammer_mlir.scheduling.policies.sequential import Sequential

_CPU_WORK = 12_000_000
"""Most scalar operations of an rTask of the coarsest rKernel: some 60 microseconds of a core."""

_FEW_VEUS = 4
"""Number of CPU vEUs that a single step of a recurrent layer keeps busy."""

_CPU_ENOUGH, _ENOUGH_FOR_EACH = 16, 4
"""Numbers of rTasks of an rOperator that balance a CPU's vEUs: in total, and per vEU."""

_GPU_SPLIT_ROWS, _CPU_SPLIT_ROWS = 8, 16
"""Largest numbers of rows of products for which the reduction dimension is split."""

_CANDIDATES = 2
"""Number of rKernels of different tile sizes per rOperator among which a policy chooses."""

_SIMPLIFIED = ("canonicalize", "cse")

_GENERAL_GRAPH = ("linalg-generalize-named-ops", *_SIMPLIFIED, "rtask-externalize-constants")

_PACKED_WEIGHTS = ("rtask-pack-weights", *_SIMPLIFIED)

_WIDE_INDICES = ("rtask-widen-indices", *_SIMPLIFIED)

_BLOCKED_CHANNELS = (
    "rtask-distribute-activations",
    "cse",
    "rtask-pad-channels",
    "rtask-block-channels",
    "linalg-generalize-named-ops",
    *_SIMPLIFIED,
)


def cpu_stages(options: CompileOptions, named: NamedMachine | None = None) -> tuple[Stage, ...]:
    """Return the stages up to an object file for a CPU.

    ``named`` is the processor to compile for; None stands for this machine's processor.
    """
    lower = steps.lower_to_threads if named is None else steps.lower_to_threads_of(named)
    emit = steps.compile_to_object if named is None else steps.compile_to_object_of(named)
    # With offloading, the stage of regions has already generalized the graph.
    general = () if options.offload else _GENERAL_GRAPH
    passes = BudgetPasses(
        formed=(*general, *_cpu_formed(options, named)),
        shaped=_cpu_shaped(options, named),
        tasks=_cpu_tasks(options, named),
        buffers=_cpu_buffers(options, checked=options.given["offload_check"]),
        program=partial(_scheduled, options),
        trial_buffers=_cpu_buffers(options, checked=False),
    )
    trial = (*_cpu_formed(options, named), *passes.shaped, *passes.tasks, *passes.trial_buffers)
    rest = (
        *_to_program(options, passes),
        Stage("target", step=lower),
        Stage("llvm", step=steps.translate_to_llvm),
        Stage("object", step=emit),
    )
    # Whole programs are timed only if the user asked for measured costs.
    finals = rest if options.measured else None
    return (*_regions(options, _cpu_code(options, named), trial, finals), *rest)


def _to_program(options: CompileOptions, passes: BudgetPasses) -> tuple[Stage, ...]:
    """Return the stages from `operators` to `program`.

    If the user gives a memory budget, the stages search for a program that fits it.
    """
    budget = options.given["memory_budget"]
    if budget is not None:
        return budget_stages(passes, budget)
    return (
        Stage("operators", (*passes.formed, *passes.shaped)),
        Stage("tasks", passes.tasks),
        Stage("buffers", passes.buffers),
        Stage("program", passes.program(0)),
    )


def _machine(named: NamedMachine | None) -> Machine:
    """Return the processor ``named``; if it is None, return the processor of this machine."""
    return host_machine() if named is None else named.machine()


def _cpu_formed(options: CompileOptions, named: NamedMachine | None) -> tuple[str, ...]:
    return (
        *_merged(options),
        f'rtask-batch-products{{device="{options.device}" num-veus={options.num_veus}}}',
        "rtask-hoist-zero-points",
        *_SIMPLIFIED,
        *_PACKED_WEIGHTS,
        *_split_for_cpu(options),
        *_right_sides(options, named),
        *_BLOCKED_CHANNELS,
        *(("rtask-block-reductions",) if _machine(named).byte_products else ()),
        formed_operators(options, _occupying(options.num_veus)),
        *_chunked(options),
    )


def _occupying(num_veus: int) -> int:
    """Return the number of independent rTasks that an rOperator needs to occupy all CPU vEUs."""
    return min(_ENOUGH_FOR_EACH * num_veus, ENOUGH_TASKS) if num_veus > 1 else 1


def _cpu_shaped(options: CompileOptions, named: NamedMachine | None) -> tuple[str, ...]:
    weights = f"rtask-block-weights{{width={_panel_width(options, named)}}}"
    # Only threads share cache lines. An rTask of an rOperator's second rKernel has as many bytes.
    small = _CPU_WORK // 32 if _is_cpu(options) else 0
    return (weights, *_winograd(options), *_fused_bodies(options, small))


def _panel_width(options: CompileOptions, named: NamedMachine | None) -> int:
    """Return the count of columns in a panel of a matrix product's right operand: 16 or 32.

    A panel has the columns that a weight stores contiguously.
    """
    # Predictions for another kind of device do not depend on the processor that makes them.
    # Two registers of f32 hold 32 columns with AVX-512; fewer than 16 would not fill a cache line.
    return 16 if _is_cpu(options) and _machine(named).vector_bits < 512 else 32


def _fused_bodies(options: CompileOptions, small: int = 0) -> tuple[str, ...]:
    """Return the passes on rOperators' bodies; ``small`` is an option of `rtask-decompose-pad`."""
    return (
        f"rtask-decompose-pad{{small={small}}}",
        "rtask-insert-copies",
        *(() if options.given["temporaries"] else ("rtask-recompute-temporaries",)),
        "func.func(linalg-generalize-named-ops,linalg-fuse-elementwise-ops)",
        *_SIMPLIFIED,
    )


def _cpu_tasks(options: CompileOptions, named: NamedMachine | None) -> tuple[str, ...]:
    target = "cpu" if named is None else f"cpu:{named.name}"
    return ("rtask-inline-composites", _tiled_for_cpu(options, target), *_SIMPLIFIED)


def _cpu_buffers(options: CompileOptions, *, checked: bool) -> tuple[str, ...]:
    if checked:
        return ("rtask-bufferize", "rtask-check-external", "rtask-prefer-external")
    return (_bufferized(options),)


def _cpu_code(options: CompileOptions, named: NamedMachine | None) -> tuple[str, ...]:
    """Return the passes that request code for regions from code generators.

    ``named`` is the processor to compile for; None stands for this machine's processor.
    """
    target = f"cpu:{named.name}" if named else ""
    return ("rtask-layout-regions", _generated_regions(options, target))


def _bufferized(options: CompileOptions) -> str:
    return "rtask-bufferize{prefer-external=true}" if options.offload else "rtask-bufferize"


def nvvm_stages(options: CompileOptions, gpu: GpuTarget, has: Multiprocessors) -> tuple[Stage, ...]:
    """Return the stages up to a cubin for a GPU; ``has`` describes its multiprocessors."""
    return (
        *_gpu_stages(options, gpu.name, gpu.matrix_unit),
        Stage("target", step=steps.lower_to_blocks(gpu, "ptx")),
        Stage("llvm", step=steps.translate_to_nvvm),
        Stage("ptx", step=steps.compile_to_ptx(gpu.chip)),
        Stage("cubin", step=steps.assemble_cubin(gpu.chip, has)),
    )


def rocdl_stages(
    options: CompileOptions, gpu: GpuTarget, has: Multiprocessors
) -> tuple[Stage, ...]:
    """Return the stages up to a code object for a GPU; ``has`` describes its compute units."""
    return (
        *_gpu_stages(options, gpu.name, gpu.matrix_unit),
        Stage("target", step=steps.lower_to_blocks(gpu, "hsaco")),
        Stage("llvm", step=steps.translate_to_rocdl(gpu.chip)),
        Stage("object", step=steps.compile_for_amd(gpu.chip)),
        Stage("hsaco", step=steps.link_code_object(has)),
    )


def emulated_stages(
    options: CompileOptions, gpu: GpuTarget, *, checked: bool, traced: bool
) -> tuple[Stage, ...]:
    """Return the stages up to native code of this machine for a GPU's kernel.

    Args:
        options: options of the compilation.
        gpu: the emulated GPU.
        checked: whether the code checks memory accesses.
        traced: whether launches record memory accesses.
    """
    return (
        *_gpu_stages(options, f"emulator:{gpu.name}", gpu.matrix_unit),
        Stage("target", step=steps.lower_to_blocks(gpu, "ptx")),
        Stage("llvm", step=steps.translate_for_emulator(gpu, checked=checked, traced=traced)),
        Stage("object", step=steps.compile_to_object),
    )


def _gpu_stages(options: CompileOptions, target: str, unit: MatrixUnit | None) -> tuple[Stage, ...]:
    """Return the stages from `regions` to `program` for a GPU.

    ``target`` is the GPU's name as in ``--target``; ``unit`` has the GPU's matrix instruction, or
    is None if the GPU has none. Without offloading, there is no stage `regions`.
    """
    formed = (
        *_merged(options),
        *_PACKED_WEIGHTS,
        *_split(options, _GPU_SPLIT_ROWS),
        formed_operators(options),
    )
    buffers = (_bufferized(options),)
    passes = BudgetPasses(
        formed=(*(() if options.offload else _GENERAL_GRAPH), *formed),
        shaped=(*_fused_bodies(options), *_WIDE_INDICES),
        tasks=("rtask-inline-composites", _tiled_for_gpu(options, target, unit), *_SIMPLIFIED),
        buffers=buffers,
        program=partial(_scheduled, options),
        trial_buffers=buffers,
    )
    code = (_generated_regions(options, target),)
    return (
        *_regions(options, code, (*formed, *passes.shaped, *passes.tasks, *buffers)),
        *_to_program(options, passes),
    )


def _regions(
    options: CompileOptions,
    code: Sequence[str],
    trial: Sequence[str],
    finals: Sequence[Stage] | None = None,
) -> tuple[Stage, ...]:
    """Return the stage that forms regions for code generators; empty without code generators.

    If the options ask for a choice by cost, the stage keeps only the regions that make the program
    faster.

    Args:
        options: options of the compilation.
        code: passes that request the regions' code.
        trial: passes from regions to rKernels on buffers, whose plan is simulated.
        finals: stages after this stage, to compile and time programs; None for simulation only.
    """
    if not options.offload:
        return ()
    if options.given["offload_choice"] == "always" or options.offload == (HOST,):
        form = _formed(options, options.offload, code)
        if form.quantization is None:
            passes = (*_GENERAL_GRAPH, *form.outlined, *form.generated)
            warn = None if options.offload == (HOST,) else form.warn_if_nothing_is_taken
            return (Stage(REGIONS, passes, warn),)
        return (Stage(REGIONS, _GENERAL_GRAPH, quantized_regions(form)),)
    regions = [_formed(options, names, code) for names in _priorities(options.offload)]
    if finals is not None:
        # Small regions vary more: some may beat the host's code although their sum does not.
        regions.append(_formed(options, options.offload, code, merged=False))
    passes = TrialPasses(
        regions,
        trial,
        applied_costs(options),
        finals,
    )
    return (Stage(REGIONS, _GENERAL_GRAPH, choose_regions(passes)),)


def _priorities(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the orders of code generators to try.

    These are the rotations of the given order, and each code generator alone.
    """
    rotated = [(*names[n:], *names[:n]) for n in range(len(names))]
    return list(dict.fromkeys([*rotated, *((name,) for name in names)]))


def _formed(
    options: CompileOptions, codegens: tuple[str, ...], code: Sequence[str], *, merged: bool = True
) -> FormRegions:
    """Return a function that forms regions for ``codegens``, given in the order of priority.

    ``code`` are the passes that request the regions' code. With ``merged``, adjacent regions of the
    same code generator are merged.
    """
    names = ",".join(codegens)
    where = f'device="{options.device}" num-veus={options.num_veus}'
    marked = (
        f"rtask-match-composites{{table={names}}}",
        f"rtask-annotate-regions{{codegens={names}}}",
    )
    partitioned = (
        *(("rtask-merge-regions",) if merged else ()),
        f"rtask-split-regions{{{where}}}",
    )
    generated = (
        *code,
        "rtask-inline-regions",
        *_SIMPLIFIED,
    )
    quantization = quantization_of(options.given, codegens) if options.samples else None
    return FormRegions(codegens, marked, partitioned, generated, quantization)


def _generated_regions(options: CompileOptions, target: str) -> str:
    """Return the pass that requests the code of regions for ``target``.

    ``target`` is "" for this machine.
    """
    given = written({k: text_of(v) for k, v in options.given["module_options"].items()})
    fields = [f"target={target}"] if target else []
    fields += [f"options={given}"] if given else []
    return "rtask-generate-regions" + (f"{{{' '.join(fields)}}}" if fields else "")


def _merged(options: CompileOptions) -> tuple[str, ...]:
    if not options.merge_growth:
        return ()
    chosen = f' device="{options.device}" num-veus={options.num_veus}'
    merge = (
        f"rtask-merge-operators{{growth={options.merge_growth}"
        f"{chosen if name_of(options.policy) == Ios.name else ''}}}"
    )
    return (merge, "linalg-generalize-named-ops", *_SIMPLIFIED)


def _split(options: CompileOptions, rows: int) -> tuple[str, ...]:
    # A sequential schedule runs the parts of a product one by one, so splitting only adds work.
    if name_of(options.policy) == Sequential.name:
        return ()
    return (f"rtask-split-products{{rows={rows}}}", "linalg-generalize-named-ops")


def _split_for_cpu(options: CompileOptions) -> tuple[str, ...]:
    # A recurrent layer alone keeps a few cores busy; unsplit it reads input weights less often.
    return () if options.num_veus <= _FEW_VEUS else _split(options, _CPU_SPLIT_ROWS)


def _right_sides(options: CompileOptions, named: NamedMachine | None) -> tuple[str, ...]:
    # On a bulk-synchronous device, a copy is one more step of the schedule.
    if options.tile_bytes:
        return ()
    return (f"rtask-transpose-right-sides{{width={_panel_width(options, named)}}}",)


def _chunked(options: CompileOptions) -> tuple[str, ...]:
    # A vEU of other devices has no second-level cache of its own.
    return ("rtask-chunk-chains",) if _is_cpu(options) and not options.tile_bytes else ()


def _is_cpu(options: CompileOptions) -> bool:
    """Whether the device is a CPU, that is, a vEU is a single thread."""
    return find_device(options.device).threads_per_veu == 1


def _winograd(options: CompileOptions) -> tuple[str, ...]:
    # Its rTasks access more bytes than a vEU's memory holds on a bulk-synchronous device.
    return ("rtask-winograd",) if options.given["winograd"] and not options.tile_bytes else ()


def _tiled_for_cpu(options: CompileOptions, target: str) -> str:
    enough = max(_CPU_ENOUGH, _ENOUGH_FOR_EACH * options.num_veus)
    memory = f" memory={options.tile_bytes}" if options.tile_bytes else ""
    offered = _offered(options, target)
    return (
        f"rtask-tile{{candidates={_CANDIDATES}{memory} work={_CPU_WORK} enough={enough}{offered}}}"
    )


def _tiled_for_gpu(options: CompileOptions, target: str, unit: MatrixUnit | None) -> str:
    chosen = f'device="{options.device}" num-veus={options.num_veus}'
    names = ["tf32" if name == "f32" else name for name in (unit.steps if unit else ())]
    matrices = f" matrix-elements={','.join(names)}" if names else ""
    return f"rtask-tile{{candidates={_CANDIDATES} {chosen}{matrices}{_offered(options, target)}}}"


def _offered(options: CompileOptions, target: str) -> str:
    """Return the options ``providers`` and ``target`` of the pass `rtask-tile`, as pipeline text.

    The result is "" if the user names no provider of rKernels.
    """
    if not options.rkernels:
        return ""
    return f" providers={','.join(options.rkernels)} target={target}"


def _scheduled(options: CompileOptions, memory: int) -> tuple[str, ...]:
    """Return the passes of the stage `program`; ``memory`` limits intermediates, in bytes.

    A limit of 0 is no limit.
    """
    limit = f" memory={memory}" if memory else ""
    return (
        *([f"rtask-profile-kernels{{num-veus={options.num_veus}}}"] if options.measured else []),
        *applied_costs(options),
        f'rtask-schedule{{policy="{options.policy}" num-veus={options.num_veus}'
        f' device="{options.device}"{limit}'
        f"{' per-operator=true' if options.given['per_operator'] else ''}}}",
        "rtask-minimize-barriers",
        *_folded(options),
        "rtask-plan-memory",
        "rtask-verify-schedule",
    )


def applied_costs(options: CompileOptions) -> tuple[str, ...]:
    """Return the pass that queries the user's cost function, alone in a tuple.

    The tuple is empty if the user gives no cost function.
    """
    if not options.costs:
        return ()
    where = f'device="{options.device}" num-veus={options.num_veus}'
    return (f"rtask-apply-costs{{costs={options.costs} {where}}}",)


def _folded(options: CompileOptions) -> tuple[str, ...]:
    if not options.fold_to:
        return ()
    return ("rtask-verify-schedule", f"rtask-fold-veus{{num-veus={options.fold_to}}}")
