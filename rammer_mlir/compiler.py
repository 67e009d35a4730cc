"""From a model to an executable: drives the stages and keeps what each one gives."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.errors import OptionError
from rammer_mlir.frontends.onnx import import_model
from rammer_mlir.image import CpuImage
from rammer_mlir.lowering.cpu.image import build_image, lower_program
from rammer_mlir.lowering.llvm.codegen import emit_object, to_llvm_ir
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.lowering.llvm.link import link_shared
from rammer_mlir.lowering.llvm.machine import host_machine
from rammer_mlir.passes.entry import entry_function
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.rtask_plan_memory import memory_sizes
from rammer_mlir.pipeline import CompileOptions, check_stage, portable_stages
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.pool import native_code
from rammer_mlir.scheduling.device import cpu_device
from rammer_mlir.scheduling.policies import get_policy
from rammer_mlir.signature import Signature
from rammer_mlir.weights import packed_weights

Source = str | os.PathLike[str] | bytes | onnx.ModelProto
"""A model: a path, its bytes, or the parsed ONNX model."""

TARGETS = ("cpu",)

_LONGEST_CONSTANT = 16
"""Elements up to which constants are printed whole."""


def check_options(target: str, policy: str, num_veus: int | None) -> CompileOptions:
    """Return checked options; ``num_veus`` defaults to the number of cores.

    Raises:
        OptionError: if the target, the policy or the number of vEUs is not one that exists.
    """
    if target.split(":")[0] in ("nvvm", "rocdl"):
        raise OptionError(
            f"target '{target}' is not available yet: expected one of {', '.join(TARGETS)}"
        )
    if target not in TARGETS:
        raise OptionError(f"unknown target '{target}': expected one of {', '.join(TARGETS)}")
    get_policy(policy)
    if num_veus is None:
        num_veus = len(os.sched_getaffinity(0))
    cpu_device(num_veus)
    return CompileOptions(policy=policy, num_veus=num_veus)


def compile_model(
    source: Source,
    *,
    target: str = "cpu",
    policy: str = "wavefront",
    num_veus: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Executable:
    """Compile a model; see ``rammer_mlir.compile``."""
    options = check_options(target, policy, num_veus)
    return Compilation.of_model(source, options, shapes).executable()


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
        for stage in portable_stages(self._options):
            with self._stage(stage.name):
                run_pipeline(self.module, stage.pipeline)
            if stage.name == last:
                return

    def _text(self) -> str:
        return self.module.operation.get_asm(
            large_elements_limit=_LONGEST_CONSTANT, large_resource_limit=_LONGEST_CONSTANT
        )

    def emit(self, stage: str) -> bytes:
        """Compile up to a stage and return it: IR as text, objects as they are.

        Raises:
            OptionError: if there is no such stage.
        """
        check_stage(stage)
        if stage == "linalg":
            return self._text().encode()
        self._run_stages(stage)
        if stage not in ("target", "llvm", "object"):
            return self._text().encode()
        self._lower()
        if stage == "target":
            return self._text().encode()
        with self._stage("llvm"):
            text = to_llvm_ir(self.module)
        return text.encode() if stage == "llvm" else emit_object(text, host_machine())

    def _lower(self) -> CpuImage:
        with self._stage("target"):
            weights = packed_weights(entry_function(self.module), self._constants)
            image, tables = build_image(
                self.module, weights, self._signature, self._options.num_veus
            )
            lower_program(self.module, tables, host_machine())
        return image

    def executable(self) -> Executable:
        """Compile to native code in this process."""
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
