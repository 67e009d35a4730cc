"""Time to compile a training step, and to read its program from the cache of programs."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.training_models import build_step

GRAPH_STAGES = ("linalg", "operators", "tasks", "buffers", "program")
"""Stages from the model to the schedule, before code generation.

They are the part that Dali calls "optimization".
"""

CACHE = "RAMMER_CACHE_DIR"
REPEATS = 5


@dataclass(frozen=True)
class Optimization:
    """Wall-clock seconds of compiling a model without and with the cache of programs.

    Attributes:
        first: from the model to an executable program, with an empty cache.
        graph: the part of ``first`` up to the schedule, without code generation.
        hashed: from the model to the cache key.
        cached: from the key to the executable program in the cache.
    """

    first: float
    graph: float
    hashed: float
    cached: float

    @property
    def saving(self) -> float:
        """The seconds of the first compilation divided by those of a compilation from the cache."""
        return self.first / (self.hashed + self.cached)


def measure_optimization(job: tuple[str, Size]) -> Optimization:
    """Return the seconds of compiling a training model without and with a cached program.

    ``job`` is the model's name and size. The time with the cache is the least of ``REPEATS``.
    """
    model = build_step(*job).model
    # Warm up: the first compilation also imports packages, which is not measured here.
    rammer_mlir.compile(build_step("softmax_cross_entropy", "small").model, cache=False).close()
    with tempfile.TemporaryDirectory(prefix="rammer-fusion-") as folder:
        os.environ[CACHE] = folder
        first, stages = _compile(model)
        graph = sum(stages.get(stage, 0.0) for stage in GRAPH_STAGES)
        again = [_compile(model) for _ in range(REPEATS)]
    # The stages' seconds cover reading the cached program; the rest is computing its key.
    whole, stages = min(again, key=lambda found: found[0])
    cached = sum(stages.values())
    return Optimization(first, graph, max(whole - cached, 0.0), cached)


def _compile(model: onnx.ModelProto) -> tuple[float, dict[str, float]]:
    begin = time.perf_counter()
    with rammer_mlir.compile(model, num_veus=1) as executable:
        seconds = time.perf_counter() - begin
        return seconds, dict(executable.stats["seconds"])
