"""Defines the stages of a compilation, and runs them on a model."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.compile_options import CompileOptions
from rammer_mlir.compiler.memory_decision import MemoryDecision
from rammer_mlir.compiler.offload_decision import OffloadDecision
from rammer_mlir.compiler.quantization.decisions import QuantizationReport
from rammer_mlir.compiler.shared_code import KnownCode, KnownObjects
from rammer_mlir.compiler.weight_recipes import Recipe
from rammer_mlir.emulation.codegen.kernel import KernelCode
from rammer_mlir.lowering.cpu.kernel_objects import KernelObjects
from rammer_mlir.lowering.external.code import ForeignCode
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.ir.kernels import described_kernels
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.registry import PASSES
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.programs.gpu_image import GpuCode, GpuImage
from rammer_mlir.programs.signature import Signature
from rammer_mlir.support.log import log_progress, log_seconds

Image = CpuImage | GpuImage

_LONGEST_CONSTANT = 16
"""Largest number of elements of a constant that is printed in full."""


@dataclass
class Work:
    """A model during compilation; each stage changes it in place.

    Attributes:
        module: the IR, up to the last stage with IR.
        signature: the model's inputs and outputs.
        constants: the model's weights by name.
        options: options of the compilation.
        reached: names of the completed stages.
        seconds: duration in seconds of each stage, and of other parts of the compilation, by name.
        stats: statistics for users by name: sizes in bytes, number of scalar operations.
        image: the program's data, from the stage `target` on.
        text: LLVM IR, later assembly, from the stage `llvm` on.
        binary: an object or code for a device, from the first stage that produces one.
        kernel: the emulator's description of the kernel, if the target is emulated.
        foreign: foreign code that is linked with generated code, from the stage `target` on.
        objects: objects besides the binary: rKernels, and foreign code.
        is_separate: whether each rKernel is compiled to a separate object; else all rKernels are in
            a single, readable module.
        kernels: the objects of separate rKernels, from the stage `target` on.
        known: object files of other programs; a program with equal code reuses them and skips the
            stages that generate them.
        known_kernels: reusable kernels of NVIDIA GPUs, by their LLVM IR.
        identity: digest for look-ups: of a CPU program's code in ``known.programs``, or of a GPU
            kernel's LLVM IR in ``known_kernels``; empty if nothing is looked up.
        registers: most vector registers of a micro tile on a CPU, 0 for all; fewer registers mean
            less compile time and more run time.
        executor: runs measurements of rKernels; None to measure sequentially in this process.
        decision: the regions that foreign code generators compile; None unless chosen by cost.
        recipes: the recipe that packs each weight, by the index of the entry function's argument,
            from the stage `target` on.
        quantized: decisions about quantized regions; None without quantization.
        memory: the decision about the memory budget; None without a budget.
    """

    module: ir.Module
    signature: Signature
    constants: Mapping[str, NDArray[np.generic]]
    options: CompileOptions
    reached: list[str] = field(default_factory=list[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    stats: dict[str, int] = field(default_factory=dict[str, int])
    image: Image | None = None
    text: str = ""
    binary: bytes = b""
    kernel: KernelCode | None = None
    foreign: tuple[ForeignCode, ...] = ()
    objects: tuple[bytes, ...] = ()
    is_separate: bool = False
    kernels: KernelObjects | None = None
    known: KnownObjects = field(default_factory=KnownObjects)
    known_kernels: KnownCode[GpuCode] | None = None
    identity: bytes = b""
    registers: int = 0
    executor: Executor | None = None
    decision: OffloadDecision | None = None
    recipes: Mapping[int, Recipe] = field(default_factory=dict[int, Recipe])
    quantized: QuantizationReport | None = None
    memory: MemoryDecision | None = None

    @contextmanager
    def timed(self, part: str) -> Generator[None]:
        """Return a context manager that enters the module's MLIR context and measures the time.

        The seconds of its ``with`` block are added to ``seconds``, under the key ``part``.
        """
        begin = time.perf_counter()
        with self.module.context, ir.Location.unknown():
            yield
        seconds = time.perf_counter() - begin
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds
        log_seconds(part, seconds)

    def printed(self) -> bytes:
        """Return the result of the last stage: IR or assembly as text, or the bytes of a binary."""
        if self.binary or self.text:
            return self.binary or self.text.encode()
        return dialects.get_asm(
            self.module,
            large_elements_limit=_LONGEST_CONSTANT,
            large_resource_limit=_LONGEST_CONSTANT,
        ).encode()


Step = Callable[[Work], None]
"""A function that transforms a model in place, for the parts of a stage that are not passes."""


@dataclass(frozen=True)
class Stage:
    """A named form of a model, and the passes and step that produce it from the previous form.

    Attributes:
        name: the stage's name, as in the option ``--emit``.
        passes: passes on the module, in order.
        step: function that transforms the model after the passes; None for no function.
    """

    name: str
    passes: tuple[str, ...] = ()
    step: Step | None = None

    @property
    def pipeline(self) -> str:
        """The textual pipeline of the passes, in the syntax of `rammer-opt`."""
        return f"builtin.module({','.join(self.passes)})"

    def run(self, work: Work) -> None:
        """Run the stage's passes, then its step, on a model that has reached the previous stage.

        Raises:
            RammerError: if a pass or step fails.
        """
        with work.timed(self.name):
            log_progress(self.name, lambda: _size_text(work.module))
            if self.passes:
                # Verifying a program of thousands of rOperators takes as long as some passes.
                own = (*PASSES, *LOWERING_PASSES)
                run_pipeline(work.module, self.pipeline, passes=own, verify_each=False)
            if self.step is not None:
                self.step(work)
        work.reached.append(self.name)


def _size_text(module: ir.Module) -> str:
    """Return the size of a module as text for the log, such as "12 rKernels".

    If the module has no rKernels, the text has the number of operations.
    """
    kernels = len(described_kernels(module))
    if kernels:
        return f"{kernels} rKernels"
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    blocks = (block for op in functions for block in op.operation.regions[0].blocks)
    return f"{sum(len(block.operations) for block in blocks)} operations"


def run_stages(work: Work, stages: Sequence[Stage], last: str) -> None:
    """Run the stages up to ``last`` that a model has not reached yet.

    After an error, stop compiling rKernels in the background.
    """
    names = [stage.name for stage in stages]
    try:
        for stage in stages[: names.index(last) + 1]:
            if stage.name not in work.reached:
                stage.run(work)
    except BaseException:
        if work.kernels is not None:
            work.kernels.stop()
        raise
