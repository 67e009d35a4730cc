"""Runs a program on calibration data, with intermediate values as outputs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.bindings import ir
from rammer_mlir.compiler.stage import Work
from rammer_mlir.passes.ir.entry import entry_function
from rammer_mlir.passes.ir.structured import element_bytes
from rammer_mlir.passes.manager import run_pipeline
from rammer_mlir.passes.quantization.region_calls import body_of
from rammer_mlir.programs.signature import Signature, TensorSpec
from rammer_mlir.runtime.compiled import CompiledModel

Array = NDArray[Any]

_FEW_SAMPLES = 64
"""Number of samples up to which fast compilation matters more than fast code."""

_FEW_REGISTERS = 4
"""Number of vector registers of a micro tile for fast compilation.

Compilation takes half of the time, a run up to three times as long.
"""


@dataclass(frozen=True)
class Observations:
    """A compiled program with intermediate values as outputs.

    Attributes:
        executable: the program.
        names: names of the program's outputs.
    """

    executable: CompiledModel
    names: Sequence[str]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs, in the order of ``names``, for the inputs ``feeds`` by name."""
        found = self.executable.run(feeds)
        return [found[name] for name in self.names]


@dataclass(frozen=True)
class Observer:
    """Compiles programs for this machine's processor, and runs them on calibration data.

    Attributes:
        inputs: inputs of the model.
        feeds: for each sample, arrays by the inputs' names.
        constants: the model's weights by name.
        num_veus: count of vEUs for which the programs are compiled.
    """

    inputs: tuple[TensorSpec, ...]
    feeds: Sequence[Mapping[str, Array]]
    constants: Mapping[str, Array]
    num_veus: int

    @contextmanager
    def observe(
        self, module: ir.Module, more: Sequence[TensorSpec] = ()
    ) -> Generator[Observations]:
        """Compile ``module`` with all regions inlined, and yield the compiled program.

        The compiler's own rKernels then compute all regions, instead of code generators.

        Args:
            module: the program after the outlining of regions; modified.
            more: inputs in addition to the model's inputs.
        """
        # The options import the stages, one of which observes: a global import would be cyclic.
        from rammer_mlir.compiler.options import check_options

        run_pipeline(module, "builtin.module(rtask-inline-regions,canonicalize,cse)")
        outputs = _outputs(module)
        options = check_options("cpu", num_veus=self.num_veus, winograd=False)
        signature = Signature((*self.inputs, *more), outputs)
        registers = _FEW_REGISTERS if len(self.feeds) <= _FEW_SAMPLES else 0
        work = Work(module, signature, self.constants, options, ["linalg"], registers=registers)
        executable = options.backend.load(options.backend.compile(work))
        try:
            yield Observations(executable, [spec.name for spec in outputs])
        finally:
            executable.close()


def _outputs(module: ir.Module) -> tuple[TensorSpec, ...]:
    *_, end = body_of(entry_function(module)).operations
    return tuple(
        spec_of(f"output {number}", value) for number, value in enumerate(end.operation.operands)
    )


def spec_of(name: str, value: ir.Value) -> TensorSpec:
    """Return a spec with the name ``name``, and with shape and dtype of the tensor ``value``."""
    kind = ir.RankedTensorType(value.type)
    return TensorSpec(name, tuple(kind.shape), _dtype(kind))


def _dtype(kind: ir.RankedTensorType) -> np.dtype[Any]:
    """Return float32 for a tensor of f32, else raw bytes, such as ``V2`` for 2-byte elements."""
    if isinstance(kind.element_type, ir.F32Type):
        return np.dtype(np.float32)
    return np.dtype(f"V{element_bytes(kind)}")
