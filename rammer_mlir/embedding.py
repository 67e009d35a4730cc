"""Compiles host functions that launch GPU kernels, from IR that another compiler produced.

``compile_launches`` merges the launched kernels of a function into a single persistent kernel, and
returns an executable.
"""

from __future__ import annotations

import numpy as np

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.backends.gpu import GpuBackend
from rammer_mlir.compiler.options import CheckedOptions, check_options
from rammer_mlir.compiler.stage import Work
from rammer_mlir.compiler.stage_names import PORTABLE_STAGES
from rammer_mlir.errors import OptionError, UnsupportedError
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.ir.constants import argument_attributes
from rammer_mlir.passes.ir.entry import entry_function, functions, symbol_name
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.support.packages import narrow_floats

_DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "index": np.int64,
}  # fmt: skip


def compile_launches(
    module: ir.Module,
    *,
    target: str = "nvvm",
    policy: str = "wavefront",
    num_veus: int | None = None,
    costs: str | None = None,
    function: str = "",
    emulate: bool = False,
    check: bool = False,
    watchdog: int = 0,
    device: int = 0,
) -> GpuExecutable:
    """Compile the kernel launches of a host function to a single persistent kernel.

    Args:
        module: a module in the caller's context. The body of its host function consists of kernel
            launches (``gpu.launch_func``), allocations and constants. The module is modified: after
            the call it contains the persistent kernel.
        target: the GPU, such as ``nvvm:sm_90`` or ``rocdl:gfx90a``.
        policy: name of the scheduling policy.
        num_veus: number of blocks of the persistent kernel; None for one block per multiprocessor
            of the device.
        costs: device description with which the policy predicts times: a name, or the path of a
            file. None chooses the description of a device like the target.
        function: name of the host function to compile if the module has several; the other host
            functions are erased.
        emulate: execute the kernel on this machine's processor.
        check: let emulation detect races and accesses out of bounds.
        watchdog: number of polls after which a waiting vEU stops the program; 0 for no watchdog.
        device: index of the GPU to run on; the first run opens the GPU.

    Returns:
        An executable. Its inputs are the host function's arguments, named by their attribute
        ``rtask.name`` or else ``arg0``, ``arg1`` and so on. Its outputs are the arguments with the
        attribute ``rtask.output``. An input that kernels write is updated in place if its array is
        on the GPU, and ``run`` returns its new value. Arguments must not overlap in memory.

    Raises:
        RammerError: if an option is invalid, or if a launch cannot be part of a static program; the
            message names the option or the launch.
    """
    options = check_options(
        target, policy=policy, num_veus=num_veus, costs=costs, watchdog=watchdog
    )
    backend = options.backend
    if not isinstance(backend, GpuBackend) or (check and not emulate):
        raise OptionError(
            f"launches for target '{target}': expected a GPU, and emulation for checks; choose "
            "nvvm or rocdl, and emulate to check"
        )
    if emulate:
        options = options.emulated(checked=check)
    with module.context, ir.Location.unknown():
        _refuse_layouts(module, function)
        _schedule(module, options, backend.gpu, function)
        signature = _signature(entry_function(module))
    work = Work(module, signature, {}, options, reached=[*PORTABLE_STAGES])
    executable = options.backend.load(options.backend.compile(work), device)
    assert isinstance(executable, GpuExecutable)
    return executable


def _refuse_layouts(module: ir.Module, name: str) -> None:
    """Check the memory layouts of a host function's arguments; an empty ``name`` stands for any.

    Raises:
        UnsupportedError: if an argument is not dense and row-major, or has a memory space.
    """
    for host in functions(module):
        if name not in ("", symbol_name(host)):
            continue
        for number, value in enumerate(host.operation.regions[0].blocks[0].arguments):
            kind = value.type
            if not isinstance(kind, ir.MemRefType):
                continue
            row_major = ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank))
            if kind.layout != row_major or kind.memory_space is not None:
                raise UnsupportedError(
                    f"function '{symbol_name(host)}': expected a dense row-major memref without a "
                    f"memory space as argument {number}, found {kind}; copy it before the launches"
                )


def _schedule(module: ir.Module, options: CheckedOptions, gpu: GpuTarget, function: str) -> None:
    passes = (
        f'rtask-from-gpu{{subgroup={gpu.warp_size} function="{function}"}}',
        f'rtask-schedule{{policy="{options.policy}" num-veus={options.num_veus} '
        f"device={options.device}}}",
        "rtask-minimize-barriers",
        "rtask-plan-memory",
        "rtask-verify-schedule",
    )
    text = f"builtin.module({','.join(passes)})"
    run_pipeline(module, text, passes=(*PASSES, *LOWERING_PASSES))


def _signature(host: ir.OpView) -> Signature:
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    arguments = host.operation.regions[0].blocks[0].arguments
    for number, (value, marks) in enumerate(zip(arguments, argument_attributes(host), strict=True)):
        if "rtask.arena" in marks:
            continue
        name = ir.StringAttr(marks["rtask.name"]).value if "rtask.name" in marks else f"arg{number}"
        (outputs if "rtask.output" in marks else inputs).append(_spec(name, value.type))
    return Signature(tuple(inputs), tuple(outputs))


def _spec(name: str, kind: ir.Type) -> TensorSpec:
    memref = kind if isinstance(kind, ir.MemRefType) else None
    element = "" if memref is None else str(memref.element_type)
    if memref is None or element not in (*_DTYPES, "bf16"):
        raise UnsupportedError(
            f"argument '{name}': expected a memref of {', '.join(_DTYPES)} or bf16, found {kind}"
        )
    dtype = narrow_floats().bfloat16 if element == "bf16" else _DTYPES[element]
    return TensorSpec(name, tuple(memref.shape), np.dtype(dtype))
