"""Measure models with several fusion settings on one core; runs of the settings alternate."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.contenders.onnx_runtime import OnnxRuntime
from rammer_mlir.benchmarks.fusion.optimization import Optimization, measure_optimization
from rammer_mlir.benchmarks.fusion.settings import SETTINGS
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.training_models import build_step
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.runtime.compiled import CompiledModel
from rammer_mlir.support.interleaved_timing import take_turns

ONNX_RUNTIME = "onnxruntime"


@dataclass(frozen=True)
class FusionRequest:
    """A model to measure, and the settings of its measurement.

    Attributes:
        model: the name of a training model.
        size: "full" as published, "reduced" or "small".
        settings: names of fusion settings, keys of ``SETTINGS``.
        budget: seconds of timing for all settings together.
        timeout: time limit in seconds for the whole model.
    """

    model: str
    size: Size = "reduced"
    settings: tuple[str, ...] = tuple(SETTINGS)
    budget: float = 20.0
    timeout: float = 2400.0


@dataclass(frozen=True)
class Fused:
    """Measurements of a model, such as a training step, compiled with one fusion setting.

    Attributes:
        setting: the name of the setting.
        seconds: processor seconds of a step on one core, the median of the faster half of its runs.
        operators: number of rOperators of the program.
        arena_bytes: bytes of the arena, in which intermediate tensors of disjoint live ranges share
            memory.
        intermediate_bytes: sum of the sizes of all intermediate tensors in bytes.
        compile_seconds: processor seconds of the compiler's thread.
        worst: largest error against ONNX Runtime, divided by the tolerance; above 1 is wrong.
        digest: hash of the program, including all names in it, and of the machine code.
    """

    setting: str
    seconds: float
    operators: int
    arena_bytes: int
    intermediate_bytes: int
    compile_seconds: float
    worst: float
    digest: str = ""


@dataclass(frozen=True)
class FusionResult:
    """All measurements of a training step.

    Attributes:
        request: the model and the settings that were measured.
        nodes: number of nodes of the step's ONNX graph.
        reference_seconds: processor seconds of a step by ONNX Runtime on one core.
        ways: measurements of each fusion setting.
        optimization: compile times without and with the cache of programs; None after an error.
        error: message of an error that ended the measurement, or None.
    """

    request: FusionRequest
    nodes: int = 0
    reference_seconds: float = 0.0
    ways: list[Fused] = field(default_factory=list[Fused])
    optimization: Optimization | None = None
    error: str | None = None

    def way(self, setting: str) -> Fused | None:
        """Return the result of a fusion setting, or None if it was not measured."""
        return next((way for way in self.ways if way.setting == setting), None)


def measure_fusion(request: FusionRequest) -> FusionResult:
    """Measure a model with all settings, and its compile times, in separate processes.

    If a process fails, the result has the error message, and no numbers of that process.
    """
    found = in_child(_measure, request, request.timeout)
    if isinstance(found, Failure):
        return FusionResult(request, error=found.message)
    optimization = in_child(measure_optimization, (request.model, request.size), request.timeout)
    if isinstance(optimization, Failure):
        return replace(found, error=optimization.message)
    return replace(found, optimization=optimization)


@dataclass(frozen=True)
class _Compiled:
    executable: CompiledModel
    operators: int
    seconds: float


def _measure(request: FusionRequest) -> FusionResult:
    step = build_step(request.model, request.size)
    feeds = step.feeds(seed=1)
    reference, ways = measure_ways(step.model, feeds, request.settings, request.budget)
    return FusionResult(request, len(step.model.graph.node), reference, ways)


def measure_ways(
    model: onnx.ModelProto, feeds: Mapping[str, Array], settings: Sequence[str], budget: float
) -> tuple[float, list[Fused]]:
    """Compile a model with several fusion settings, and run all programs alternately on one core.

    Args:
        model: the model; all shapes are static.
        feeds: the values of the model's inputs, by name.
        settings: names of fusion settings, keys of ``SETTINGS``.
        budget: seconds of timing for all settings together.

    Returns:
        The processor seconds of a run by ONNX Runtime, and the measurements of each setting.
    """
    reference = OnnxRuntime(model)
    expected = reference.run(feeds)
    with ExitStack() as stack:
        compiled = {name: _compile(model, name) for name in settings}
        for one in compiled.values():
            stack.enter_context(one.executable)
        runs = {name: partial(one.executable.run, feeds) for name, one in compiled.items()}
        worst = {name: _worst(expected, run()) for name, run in runs.items()}
        turns = {ONNX_RUNTIME: partial(reference.run, feeds), **runs}
        taken = take_turns({n: partial(_timed, run) for n, run in turns.items()}, budget)
        ways = [
            Fused(
                name,
                _low(taken[name]),
                one.operators,
                int(one.executable.stats["arena_bytes"]),
                int(one.executable.stats["intermediate_bytes"]),
                one.seconds,
                worst[name],
                _digest(one.executable),
            )
            for name, one in compiled.items()
        ]
    return _low(taken[ONNX_RUNTIME]), ways


def _compile(model: onnx.ModelProto, setting: str) -> _Compiled:
    begin = time.thread_time()
    options = check_options("cpu", **{**SETTINGS[setting], "num_veus": 1})
    compilation = Compilation.of_model(model, options)
    operators = len(compilation.schedule().builder.graph().operators)
    return _Compiled(compilation.executable(), operators, time.thread_time() - begin)


def _digest(executable: CompiledModel) -> str:
    artifact = executable.artifact()
    program = repr(artifact.image.program).encode()
    return hashlib.sha256(program + artifact.code).hexdigest()


def _timed(run: Callable[[], object]) -> list[float]:
    """Time a call of ``run``; return this thread's processor seconds in a list of one element.

    ``take_turns`` expects such a list. An untimed call of ``run`` warms the caches first. A program
    with one vEU does all work in this thread, whose processor time does not advance while other
    processes have the core.
    """
    run()
    begin = time.thread_time()
    run()
    return [time.thread_time() - begin]


def _low(seconds: list[float]) -> float:
    return statistics.median(sorted(seconds)[: (len(seconds) + 1) // 2])


def _worst(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    comparison = compare(expected, found)
    if comparison.mismatches or comparison.worst is None:
        return float(np.inf)
    return comparison.worst.excess
