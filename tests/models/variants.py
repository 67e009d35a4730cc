"""Many schedules of one model that share the import and the code of their rKernels.

Importing a model and compiling its rKernels take nearly all the time of a compilation, and neither
depends on the schedule. Here, a model is imported once, and each set of rKernels is compiled once.
Every schedule goes through the same passes as always and brings its own task table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from rammer_mlir import dialects
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.bindings import ir
from rammer_mlir.compiler.options import check_options
from rammer_mlir.compiler.weights import packed_weights
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.lowering.cpu.native_image import build_image, lower_program
from rammer_mlir.lowering.llvm.codegen import emit_object
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.lowering.llvm.translation import to_llvm_ir
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.programs.cpu_table import encode_for_cpu
from rammer_mlir.programs.records import KernelSymbol, Program
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import NativeCode, native_code
from rammer_mlir.scheduling.memory import MemorySizes

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Variant:
    """A model that is compiled with one schedule.

    Attributes:
        executable: the compiled model.
        kernels: names of the rKernels that the plan calls, one for each rOperator.
        memory: sizes of the program's memory.
    """

    executable: Executable
    kernels: tuple[str, ...]
    memory: MemorySizes


@dataclass(frozen=True)
class _Code:
    native: NativeCode
    object_file: bytes
    kernels: tuple[KernelSymbol, ...]


class Variants:
    """A model, random inputs, ONNX Runtime's outputs for the inputs, and schedules of the model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Import the model, lower it to the `buffers` stage, and compute the expected outputs."""
        self.feeds = random_feeds(model)
        self.expected: Mapping[str, Any] = OnnxRuntime(model).run(self.feeds)
        self._imported = import_model(model)
        self._code: dict[frozenset[str], _Code] = {}
        with _context(), ir.Location.unknown():
            module = ir.Module.parse(self._imported.bytecode)
            for stage in check_options(num_veus=1).portable_stages():
                if stage.name != "program":
                    run_pipeline(module, stage.pipeline)
            self._buffers = str(module)

    def schedule(self, policy: str, num_veus: int) -> Variant:
        """Return the model scheduled by ``policy`` for ``num_veus`` vEUs, verified and loaded."""
        program = check_options(policy=policy, num_veus=num_veus).portable_stages()[-1]
        with _context(), ir.Location.unknown():
            module = ir.Module.parse(self._buffers)
            run_pipeline(module, program.pipeline)
            weights = packed_weights(entry_function(module), self._imported.constants)
            memory = memory_sizes(entry_function(module))
            kernels = tuple(call.kernel for call in read_plan(module).calls)
            image = build_image(module, weights, self._imported.signature, num_veus)
            code = self._shared_code(module, image.program)
        table = encode_for_cpu(_renumbered(image.program, code.kernels))
        executable = Executable(
            replace(image, table=table), code.native, lambda: link_shared(code.object_file)
        )
        return Variant(executable, kernels, memory)

    def _shared_code(self, module: ir.Module, program: Program) -> _Code:
        key = frozenset(kernel.name for kernel in program.kernels)
        if key not in self._code:
            lower_program(module, program, host_machine(), straight_line_limit=0)
            object_file = emit_object(to_llvm_ir(module), host_machine())
            library = load_object(object_file)
            native = native_code(library.address, library)
            self._code[key] = _Code(native, object_file, program.kernels)
        return self._code[key]


def _context() -> ir.Context:
    context = ir.Context()
    dialects.register(context)
    return context


def _renumbered(program: Program, kernels: tuple[KernelSymbol, ...]) -> Program:
    """Return a copy of ``program`` that refers to the rKernels of shared code.

    ``kernels`` has these rKernels in the code's order. Each rOperator of the copy has its rKernel's
    index in ``kernels``, instead of the index in the program's list.
    """
    operators = (
        replace(operator, kernel=kernels.index(program.kernels[operator.kernel]))
        for operator in program.operators
    )
    return replace(program, kernels=kernels, operators=tuple(operators))
