"""From a model to an executable: drives the stages and keeps what each one gives."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.pipeline import (
    BINARY_STAGES,
    CompileOptions,
    check_stage,
    portable_stages,
)
from rammer_mlir.compiler.weights import packed_weights
from rammer_mlir.emulation.codegen.gpu_to_func import kernel_names
from rammer_mlir.emulation.codegen.kernel import compile_kernel
from rammer_mlir.emulation.device.executable import EmulatedExecutable
from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.lowering.cpu.image import build_image, lower_program
from rammer_mlir.lowering.gpu.program.program_to_gpu import GpuProgram, lower_to_gpu
from rammer_mlir.lowering.gpu.target import GpuTarget
from rammer_mlir.lowering.llvm.codegen import emit_object, to_llvm_ir
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.profiling.profiler import profile_kernels
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.lowering.targets import GPU_BACKENDS, binary_stages, find_gpu
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import ScheduledModule, read_plan
from rammer_mlir.passes.program.task_graph import graph_of_operators
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.signature import Signature
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.runtime.gpu.opening import check_device, open_driver
from rammer_mlir.runtime.pool import native_code
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.scheduling.minimize import minimize
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.scheduling.policies.checked import ask
from rammer_mlir.scheduling.report import summary
from rammer_mlir.scheduling.supersteps import supersteps
from rammer_mlir.timeline.predicted import predicted_timeline
from rammer_mlir.timeline.spans import Timeline

Source = str | os.PathLike[str] | bytes | onnx.ModelProto
"""A model: a path, its bytes, or the parsed ONNX model."""

_LONGEST_CONSTANT = 16
"""Elements up to which constants are printed whole."""


def compile_model(
    source: Source,
    options: CompileOptions,
    shapes: Mapping[str, Sequence[int]] | None = None,
    device: int = 0,
    executor: Executor | None = None,
) -> Executable | GpuExecutable:
    """Compile a model; see ``rammer_mlir.compile``."""
    compilation = Compilation.of_model(source, options, shapes)
    if executor is not None:
        compilation.profile(executor)
    return compilation.compiled(device)


def emulate_model(
    source: Source,
    options: CompileOptions,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    check: bool = False,
) -> EmulatedExecutable:
    """Compile a model for a GPU, to be executed by the emulator; see ``rammer_mlir.compile``."""
    if find_gpu(options.target) is None:
        raise OptionError(
            f"target '{options.target}': expected a GPU to emulate, found the CPU; choose "
            f"{' or '.join(GPU_BACKENDS)}, or do not emulate"
        )
    return Compilation.of_model(source, options, shapes).emulated(checked=check)


class Compilation:
    """One model on its way through the stages."""

    def __init__(
        self,
        bytecode: bytes,
        constants: Mapping[str, NDArray[np.generic]],
        signature: Signature,
        options: CompileOptions,
    ) -> None:
        """Begin with IR at the `linalg` stage and the values of its weights."""
        self._constants = constants
        self._signature = signature
        self._options = options
        self._gpu = find_gpu(options.target)
        self._stages = list(portable_stages(options))
        self.seconds: dict[str, float] = {}
        self._context = ir.Context()
        dialects.register(self._context)
        with self._context:
            self.module = ir.Module.parse(bytecode)

    @staticmethod
    def of_model(
        source: Source,
        options: CompileOptions,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> Compilation:
        """Import an ONNX model.

        Raises:
            RammerError: if it is not valid, uses what is not supported, or has unknown shapes.
        """
        begin = time.perf_counter()
        imported = import_model(source, shapes=shapes)
        compilation = Compilation(
            imported.bytecode, imported.constants, imported.signature, options
        )
        compilation.seconds["linalg"] = time.perf_counter() - begin
        return compilation

    @contextmanager
    def _stage(self, name: str) -> Generator[None]:
        begin = time.perf_counter()
        with self._context, ir.Location.unknown():
            yield
        self.seconds[name] = time.perf_counter() - begin

    def _run_stages(self, last: str) -> None:
        """Go on to a stage; those that were reached before stay as they are."""
        names = [stage.name for stage in portable_stages(self._options)]
        wanted = names[: names.index(last) + 1] if last in names else names
        ahead = sum(stage.name in wanted for stage in self._stages)
        for stage in self._stages[:ahead]:
            with self._stage(stage.name):
                run_pipeline(self.module, stage.pipeline, passes=(*PASSES, *LOWERING_PASSES))
        del self._stages[:ahead]

    def profile(self, executor: Executor | None = None) -> int:
        """Measure the rKernels that no measurement is known of; return their number.

        Compiling with measured costs does so by itself, but on no executor.
        """
        self._run_stages("buffers")
        with self._stage("profile"):
            return profile_kernels(self.module, executor=executor)

    def task_graph(self) -> TaskGraph:
        """Return the tiled rOperators on buffers as what policies schedule."""
        self._run_stages("buffers")
        with self._context, ir.Location.unknown():
            return graph_of_operators(self.module).graph()

    def _text(self) -> str:
        return self.module.operation.get_asm(
            large_elements_limit=_LONGEST_CONSTANT, large_resource_limit=_LONGEST_CONSTANT
        )

    def emit(self, stage: str) -> bytes:
        """Compile up to a stage and return it: IR as text, objects as they are.

        Raises:
            OptionError: if there is no such stage, or the target does not have it.
            TargetError: if a tool that the stage needs is missing or fails.
        """
        self._check_stage(stage)
        if stage == "linalg":
            return self._text().encode()
        self._run_stages(stage)
        if stage not in ("target", "llvm", *BINARY_STAGES):
            return self._text().encode()
        if self._gpu is not None:
            return self._emit_gpu(self._gpu, stage)
        self._lower()
        if stage == "target":
            return self._text().encode()
        with self._stage("llvm"):
            text = to_llvm_ir(self.module)
        return text.encode() if stage == "llvm" else emit_object(text, host_machine())

    def _check_stage(self, stage: str) -> None:
        check_stage(stage)
        target = self._options.target
        offered = binary_stages(target)
        if stage in BINARY_STAGES and stage not in offered:
            raise OptionError(
                f"stage '{stage}': expected one that target '{target}' has, {', '.join(offered)}; "
                "choose one of these, or another target"
            )

    def _emit_gpu(self, gpu: GpuTarget, stage: str) -> bytes:
        self._lower_to_gpu(gpu)
        if stage == "target":
            return self._text().encode()
        with self._stage(stage):
            emit = GPU_BACKENDS[gpu.kind].emit
            return emit(self.module, gpu, self._resident_blocks(), stage)

    def _lower_to_gpu(self, gpu: GpuTarget) -> GpuProgram:
        options = self._options
        with self._stage("target"):
            weights = packed_weights(entry_function(self.module), self._constants)
            return lower_to_gpu(
                self.module, weights, options.num_veus, gpu,
                watchdog=options.watchdog, per_operator=options.per_operator,
            )  # fmt: skip

    def gpu_program(self) -> GpuProgram:
        """Compile for a GPU up to the gpu dialect, which ``module`` then holds.

        Raises:
            OptionError: if the target is not a GPU.
        """
        if self._gpu is None:
            raise OptionError(f"target '{self._options.target}': expected a GPU; choose another")
        self._run_stages("program")
        return self._lower_to_gpu(self._gpu)

    def compiled(self, device: int = 0) -> Executable | GpuExecutable:
        """Compile for the target that the options name; ``device`` is the GPU to run on."""
        return self.executable() if self._gpu is None else self.gpu_executable(device)

    def gpu_executable(self, device: int = 0) -> GpuExecutable:
        """Compile to what a GPU's driver loads.

        Args:
            device: number of the GPU to run on; it is opened with the first run.

        Raises:
            OptionError: if the target is not a GPU, or its number is none.
            TargetError: if a tool fails, or not all vEUs can be resident at once.
        """
        check_device(device)
        words, operations = self._describe()
        program = self.gpu_program()
        gpu = program.target
        with self._stage("object"):
            code = GPU_BACKENDS[gpu.kind].code(self.module, gpu, self._resident_blocks())
        image = program.image(self._signature, code.kind, code.resources, words)
        stats = {
            "seconds": dict(self.seconds),
            "constant_bytes": int(program.constants.nbytes),
            "code_bytes": len(code.data),
            "operations": operations,
        }
        return GpuExecutable(image, code.data, partial(open_driver, gpu.name, device), stats)

    def _resident_blocks(self) -> int:
        """Return how many blocks have to be resident at once: launches per operator may queue."""
        return 1 if self._options.per_operator else self._options.num_veus

    def schedule(self) -> ScheduledModule:
        """Compile up to the `program` stage, and read the schedule back; lowering erases it."""
        self._run_stages("program")
        with self._context, ir.Location.unknown():
            return read_plan(self.module)

    def _describe(self) -> tuple[str, int]:
        """Return the schedule in words, and a run's scalar operations; lowering erases both."""
        scheduled = self.schedule()
        with self._context, ir.Location.unknown():
            graph = scheduled.builder.graph()
            memory = memory_sizes(entry_function(self.module))
        choices = zip(graph.operators, scheduled.plan.kernels, strict=True)
        chosen = [operator.kernels[number] for operator, number in choices]
        operations = sum(kernel.flops_per_rtask * kernel.num_rtasks for kernel in chosen)
        return summary(graph, scheduled.plan, memory), operations

    def emulated(self, *, checked: bool = False, traced: bool = False) -> EmulatedExecutable:
        """Compile the GPU's kernel to native code of this machine.

        Raises:
            OptionError: if the target is not a GPU.
            UnsupportedError: if the kernel uses what cannot be emulated.
        """
        words, _ = self._describe()
        return self.emulate(self.gpu_program(), words, checked=checked, traced=traced)

    def emulate(
        self, program: GpuProgram, words: str = "", *, checked: bool = False, traced: bool = False
    ) -> EmulatedExecutable:
        """Compile the gpu dialect's kernel that ``module`` holds to native code of this machine.

        Args:
            program: what ``gpu_program`` returned.
            words: the schedule in words.
            checked: whether accesses are checked.
            traced: whether launches record accesses.
        """
        with self._stage("object"):
            (name,) = kernel_names(self.module)
            kernel = compile_kernel(self.module, name, checked=checked, traced=traced)
        image = program.image(self._signature, "ptx", summary=words)
        stats = {"seconds": dict(self.seconds)}
        return EmulatedExecutable(image, kernel, program.target.warp_size, stats)

    def predict(self, policies: Sequence[str] = ()) -> list[Timeline]:
        """Simulate the program, then what other policies make of the same rOperators.

        Raises:
            OptionError: if there is no such policy.
        """
        for name in policies:
            get_policy(name)
        device = find_device(self._options.device).device(self._options.num_veus)
        if self._options.measured:
            self.profile()
        graph = self.task_graph()
        own = self.schedule()
        with self._context, ir.Location.unknown():
            runs = [(self._options.policy, own.builder.graph(), own.plan)]
        if self._options.fold_to:  # what is executed here is not what the device would execute
            runs, policies = [], (self._options.policy, *policies)
        for name in policies:
            plan = minimize(ask(get_policy(name), graph, device))
            if device.is_bulk_synchronous:
                plan = supersteps(graph, plan, device)
            runs.append((name, graph, plan))
        place = f"predicted on '{device.name}' with {device.num_veus} vEUs"
        return [
            predicted_timeline(graph, plan, device, f"{name}, {place}")
            for name, graph, plan in runs
        ]

    def _lower(self) -> CpuImage:
        with self._stage("target"):
            weights = packed_weights(entry_function(self.module), self._constants)
            image = build_image(self.module, weights, self._signature, self._options.launched_veus)
            lower_program(self.module, image.program, host_machine())
        return image

    def executable(self) -> Executable:
        """Compile to native code in this process, for the CPU."""
        self._run_stages("program")
        memory = memory_sizes(entry_function(self.module))
        image = self._lower()
        with self._stage("llvm"):
            text = to_llvm_ir(self.module)
        with self._stage("object"):
            object_file = emit_object(text, host_machine())
        with self._stage("load"):
            library = load_object(object_file)
            code = native_code(library.address, library)
        stats: dict[str, Any] = {
            "seconds": dict(self.seconds),
            "arena_bytes": memory.arena_bytes,
            "intermediate_bytes": memory.sum_bytes,
            "live_bytes": memory.live_bytes,
            "constant_bytes": int(image.constants.nbytes),
            "code_bytes": len(object_file),
        }
        return Executable(image, code, lambda: link_shared(object_file), stats)
