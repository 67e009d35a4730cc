"""Measure the time to compile a training step, and to load its program from the program cache."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.training_models import build_step
from rammer_mlir.compiler import cache
from rammer_mlir.compiler.caching.programs import PROGRAM
from rammer_mlir.errors import RammerError

GRAPH_STAGES = ("linalg", "operators", "tasks", "buffers", "program")
"""Stages from the model to the schedule, before code generation.

They are the part that Dali calls "optimization".
"""

REPEATS = 5


@dataclass(frozen=True)
class Optimization:
    """Wall-clock seconds of compiling a model without and with the cache of programs.

    Attributes:
        first: seconds to compile the model with an empty cache.
        graph: part of ``first`` until the schedule is ready, without code generation.
        hashed: seconds to compute the cache key of a copy of the model in which nodes and values
            have other names.
        cached: seconds to make an executable program from the cache's entry for this key.
        same: seconds to compile the unchanged model again, when the cache key is a hash of the
            model's bytes.
    """

    first: float
    graph: float
    hashed: float
    cached: float
    same: float

    @property
    def saving(self) -> float:
        """The seconds of the first compilation divided by the seconds to compile the renamed copy.

        The latter are ``hashed`` + ``cached``.
        """
        return self.first / (self.hashed + self.cached)


def measure_optimization(job: tuple[str, Size]) -> Optimization:
    """Return the seconds of compiling a training model without and with a cached program.

    ``job`` is the model's name and size. Each time with the cache is the shortest of ``REPEATS``
    compilations.

    Raises:
        RammerError: if the cache does not find the program at the expected level.
    """
    model = build_step(*job).model
    # Warm up: the first compilation also imports packages, which is not measured here.
    rammer_mlir.compile(build_step("softmax_cross_entropy", "small").model, cache=False).close()
    with tempfile.TemporaryDirectory(prefix="rammer-fusion-") as folder:
        os.environ[cache.FOLDER_VARIABLE] = folder
        worth = cache.WORTH_SECONDS
        # This process measures nothing else, and small steps may compile in less time.
        cache.WORTH_SECONDS = 0.0
        first = _compile(model, None)
        # As for users, whose hits of programs do not also store an artifact.
        cache.WORTH_SECONDS = worth
        graph = sum(first.stages.get(stage, 0.0) for stage in GRAPH_STAGES)
        same = min(_compile(model, cache.ARTIFACT).whole for _ in range(REPEATS))
        # Each copy has names of its own, because a hit may also store the artifact of the copy.
        renamed = [_compile(with_other_names(model, f".{n}"), PROGRAM) for n in range(REPEATS)]
    best = min(renamed, key=lambda found: found.whole)
    cached = best.stages["cache"]
    return Optimization(first.whole, graph, best.whole - cached, cached, same)


def with_other_names(model: onnx.ModelProto, suffix: str) -> onnx.ModelProto:
    """Return a copy of a model in which names of nodes and of values end with ``suffix``.

    Inputs, outputs and weights keep their names. The model has no nested graphs.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    kept = {each.name for each in (*graph.input, *graph.output, *graph.initializer)} | {""}

    def renamed(name: str) -> str:
        return name if name in kept else name + suffix

    for node in graph.node:
        node.name += suffix
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
    for value in graph.value_info:
        value.name = renamed(value.name)
    return copy


@dataclass(frozen=True)
class _Compiled:
    whole: float
    stages: Mapping[str, float]


def _compile(model: onnx.ModelProto, level: str | None) -> _Compiled:
    """Compile a model; return the seconds of the whole compilation and of each stage.

    ``level`` is the expected level of the cache hit; None if a miss is expected.

    Raises:
        RammerError: if the cache hits at another level, or misses against expectation.
    """
    begin = time.perf_counter()
    with rammer_mlir.compile(model, num_veus=1) as executable:
        seconds = time.perf_counter() - begin
        found = executable.stats.get("cache")
        if found != level:
            raise RammerError(f"cache: expected a hit of level {level}, found {found}")
        return _Compiled(seconds, dict(executable.stats["seconds"]))
