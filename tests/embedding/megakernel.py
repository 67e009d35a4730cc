"""Compile a host function with launches to one persistent kernel for the emulator, and run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.emulation.codegen.kernel import compile_kernel
from rammer_mlir.emulation.device.emulator import Grid, launch
from rammer_mlir.emulation.records import EmulatedKernel
from rammer_mlir.lowering.gpu.program.program_to_gpu import GpuProgram, lower_to_gpu
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.lowering.targets import find_gpu
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES

Array = np.ndarray[Any, np.dtype[Any]]

TO_LAUNCHES = (
    "func.func(convert-linalg-to-parallel-loops,gpu-map-parallel-loops),"
    "convert-parallel-loops-to-gpu,gpu-kernel-outlining"
)
"""Upstream's way from linalg on memrefs to launches, one thread for each element."""

TO_TILED_LAUNCHES = (
    "func.func(convert-linalg-to-parallel-loops,"
    "scf-parallel-loop-tiling{parallel-loop-tile-sizes=TILES no-min-max-bounds=true},"
    "gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining,"
    "gpu.module(gpu.func(canonicalize,cse)),canonicalize"
)
"""Upstream's way from linalg on memrefs to launches, in blocks of several threads."""


@dataclass(frozen=True)
class Megakernel:
    """A persistent kernel, ready to run on arrays in the order of the host function's arguments.

    Attributes:
        program: the program of the kernel: its arguments, buffers and task table.
        kernel: the kernel, compiled for the emulator.
        schedule: text of the scheduled module, before it was lowered to the kernel.
    """

    program: GpuProgram
    kernel: EmulatedKernel
    schedule: str

    def run(self, *arrays: Array, runs: int = 1) -> list[Array]:
        """Launch the kernel ``runs`` times on copies of the arrays; return the copies."""
        program = self.program
        copies = [np.ascontiguousarray(array).copy() for array in arrays]
        sizes = dict(zip(program.arguments, program.argument_bytes, strict=True))
        buffers: list[Array] = []
        given = iter(copies)
        for name, size in sizes.items():
            if name.startswith(("input", "output")):
                buffers.append(next(given))
            elif name == "table":
                buffers.append(program.tables[0])
            else:
                buffers.append(np.zeros(size, np.uint8))
        arena = program.arguments.index("arena")
        grid = Grid(program.num_veus, program.block_threads, program.target.warp_size)
        for _ in range(runs):
            launch(
                self.kernel, buffers, grid, names=program.arguments, unwritten=[arena],
                idle_rounds=200,
            )  # fmt: skip
        return copies


def compile_launches(
    text: str,
    before: str = "",
    *,
    num_veus: int = 3,
    policy: str = "wavefront",
    target: str = "nvvm",
    checked: bool = True,
) -> Megakernel:
    """Compile a module with launches to a persistent kernel for the emulator.

    Args:
        text: the module.
        before: upstream passes that turn the module's operations into launches.
        num_veus: the number of resident blocks.
        policy: the policy that schedules the blocks of the launches.
        target: the GPU target.
        checked: whether the emulator checks accesses to memory.
    """
    gpu = find_gpu(target)
    assert gpu is not None
    context = ir.Context()
    dialects.register(context)
    subgroup = f"rtask-from-gpu{{subgroup={gpu.warp_size}}}"
    schedule = f"rtask-schedule{{policy={policy} num-veus={num_veus}}}"
    stages = [before, subgroup, schedule, "rtask-minimize-barriers", "rtask-plan-memory",
              "rtask-verify-schedule"]  # fmt: skip
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        pipeline = f"builtin.module({','.join(stage for stage in stages if stage)})"
        run_pipeline(module, pipeline, passes=(*PASSES, *LOWERING_PASSES))
        printed = str(module)
        program = lower_to_gpu(module, {}, num_veus, gpu)
        kernel = compile_kernel(module, "rammer_program", checked=checked)
    return Megakernel(program, kernel, printed)


def random_arrays(seed: int, *shapes: Sequence[int]) -> list[Array]:
    """Return random f32 arrays."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
