"""Stages of a compilation, and the model on its way through them."""

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
"""Elements up to which constants are printed whole."""


@dataclass
class Work:
    """A model on its way to a binary; each stage changes it in place.

    Attributes:
        module: the IR, up to the last stage that has some.
        signature: the model's inputs and outputs.
        constants: its weights by name.
        options: what the user decides.
        reached: stages that it has been through.
        seconds: time of each stage and of other parts of the compilation.
        stats: what stages say of their result, for people: sizes in bytes, operations.
        image: the program's data, from the stage `target` on.
        text: LLVM IR, later assembly, from the stage `llvm` on.
        binary: an object or code for a device, from the first stage that gives one on.
        kernel: what the emulator knows of the kernel, where the target is emulated.
        foreign: code from elsewhere that is linked with ours, from the stage `target` on.
        objects: objects beside the binary: of rKernels, and code from elsewhere.
        is_separate: whether each rKernel is compiled to an object of its own. Else all are in one
            module, which people can read.
        kernels: those objects, from the stage `target` on.
        known: objects of other programs; a program of equal code takes them, and leaves out the
            stages that would make them again.
        known_kernels: the same for an NVIDIA GPU's kernels, by their LLVM IR.
        identity: of the program's code, where ``known`` has programs and none of it, or of the
            kernel's, where ``known_kernels`` is given.
        registers: most vector registers that a micro tile takes on a CPU, 0 for all: with few, code
            is compiled sooner and runs longer.
        executor: where rKernels are measured; here, one by one, if None.
        decision: which regions foreign code generators compile, where that was chosen by cost.
        recipes: how each weight argument is made, from the stage `target` on.
        quantized: what became of regions that were to be quantized.
        memory: how a budget for intermediates is kept, where there is one.
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
        """Work in the module's context, and add the time to that of a part."""
        begin = time.perf_counter()
        with self.module.context, ir.Location.unknown():
            yield
        seconds = time.perf_counter() - begin
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds
        log_seconds(part, seconds)

    def printed(self) -> bytes:
        """Return the form that the last stage gave: IR and assembly as text, binaries as such."""
        if self.binary or self.text:
            return self.binary or self.text.encode()
        return dialects.get_asm(
            self.module,
            large_elements_limit=_LONGEST_CONSTANT,
            large_resource_limit=_LONGEST_CONSTANT,
        ).encode()


Step = Callable[[Work], None]
"""Makes a stage's form from the one before it, where passes do not."""


@dataclass(frozen=True)
class Stage:
    """One named form of a model, and what makes it from the form before.

    Attributes:
        name: as ``--emit`` takes it.
        passes: run on the module, in order.
        step: runs after them.
    """

    name: str
    passes: tuple[str, ...] = ()
    step: Step | None = None

    @property
    def pipeline(self) -> str:
        """Return the passes as a textual pipeline, as `rammer-opt` takes it."""
        return f"builtin.module({','.join(self.passes)})"

    def run(self, work: Work) -> None:
        """Take a model to this stage.

        Raises:
            RammerError: if a pass or step does not succeed.
        """
        with work.timed(self.name):
            log_progress(self.name, lambda: _size_text(work.module))
            if self.passes:
                # Verifying a program of thousands of rOperators takes as long as many a pass.
                own = (*PASSES, *LOWERING_PASSES)
                run_pipeline(work.module, self.pipeline, passes=own, verify_each=False)
            if self.step is not None:
                self.step(work)
        work.reached.append(self.name)


def _size_text(module: ir.Module) -> str:
    """Return how much a stage begins with: rKernels, or operations of the model."""
    kernels = len(described_kernels(module))
    if kernels:
        return f"{kernels} rKernels"
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    blocks = (block for op in functions for block in op.operation.regions[0].blocks)
    return f"{sum(len(block.operations) for block in blocks)} operations"


def run_stages(work: Work, stages: Sequence[Stage], last: str) -> None:
    """Take a model through those stages, up to ``last``, that it has not reached yet."""
    names = [stage.name for stage in stages]
    for stage in stages[: names.index(last) + 1]:
        if stage.name not in work.reached:
            stage.run(work)
