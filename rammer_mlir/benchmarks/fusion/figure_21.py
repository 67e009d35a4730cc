"""Reproduce RAMMER's figure 21: the time of a training step of the model LSTM-TC.

The figure compares a launch for each operator with a single launch of all operators. Here, the
single launch is scheduled by the policy `sequential` or by the policy `wavefront`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import rammer_mlir
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.models.dali import Size
from rammer_mlir.benchmarks.models.training_models import build_step
from rammer_mlir.benchmarks.timing import interleave
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.per_operator import one_by_one
from rammer_mlir.scheduling.policies.sequential import Sequential
from rammer_mlir.scheduling.policies.wavefront import Wavefront
from rammer_mlir.scheduling.verifier import verify

MODEL = "lstm_tc_training"
DEVICE, TARGET = "v100", "nvvm:sm_70"
POLICIES = ("sequential", "wavefront")


@dataclass(frozen=True)
class Figure21Request:
    """Settings to reproduce RAMMER's figure 21 for one size of the model LSTM-TC.

    Attributes:
        size: size of the model: "full" as published, "reduced" or "small".
        threads: number of vEUs of the CPU program.
        budget: seconds of timing; 0 for predictions only.
        timeout: time limit in seconds for the whole measurement.
    """

    size: Size = "reduced"
    threads: int = 2
    budget: float = 10.0
    timeout: float = 2400.0


@dataclass(frozen=True)
class Figure21:
    """Predicted and measured seconds of a training step of LSTM-TC.

    Attributes:
        request: the settings of the measurement.
        operators: number of rOperators on the simulated GPU.
        base: predicted seconds with a launch for each operator.
        sequential: predicted seconds of a single launch that runs the operators in the order of
            ``base``.
        wavefront: predicted seconds of a single launch scheduled by the policy `wavefront`.
        measured: measured seconds on this machine's CPU, by policy; empty if the budget is 0.
        error: message of an error that replaces the numbers, or None.
    """

    request: Figure21Request
    operators: int = 0
    base: float = 0.0
    sequential: float = 0.0
    wavefront: float = 0.0
    measured: dict[str, float] = field(default_factory=dict[str, float])
    error: str | None = None


def measure_figure_21(request: Figure21Request) -> Figure21:
    """Predict and measure the seconds of a training step in a separate process.

    If the process fails, the result has only the error message.
    """
    found = in_child(_measure, request, request.timeout)
    return Figure21(request, error=found.message) if isinstance(found, Failure) else found


def _measure(request: Figure21Request) -> Figure21:
    model = build_step(MODEL, request.size).model
    options = check_options(TARGET, policy="wavefront", num_veus=None)
    graph = Compilation.of_model(model, options).task_graph()
    device = find_device(DEVICE).device()
    in_order, waves = Sequential().schedule(graph, device), Wavefront().schedule(graph, device)
    base = one_by_one(graph, in_order, device)
    for plan in (base, in_order, waves):
        verify(graph, plan)
    return Figure21(
        request,
        len(graph.operators),
        base.predicted_seconds,
        in_order.predicted_seconds,
        waves.predicted_seconds,
        _on_this_cpu(request) if request.budget else {},
    )


def _on_this_cpu(request: Figure21Request) -> dict[str, float]:
    step = build_step(MODEL, request.size)
    feeds = step.feeds(seed=1)
    with ExitStack() as stack:
        runs: dict[str, Callable[[], object]] = {}
        for policy in POLICIES:
            executable = rammer_mlir.compile(
                step.model, policy=policy, num_veus=request.threads, cache=False
            )
            runs[policy] = partial(stack.enter_context(executable).run, feeds)
        return {policy: found.median for policy, found in interleave(runs, request.budget).items()}
