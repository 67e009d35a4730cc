"""Compare predicted with measured times, per operator and per program, on this processor."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.compiler.compilation import Compilation
from rammer_mlir.compiler.options import check_options
from rammer_mlir.lowering.llvm.jit import load_object
from rammer_mlir.passes.program.program_ir import read_plan
from rammer_mlir.programs.cpu_image import CpuImage
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.runtime.execution_context import Context
from rammer_mlir.runtime.feeds import check_inputs, check_outputs
from rammer_mlir.runtime.pool import ThreadPool, native_code
from rammer_mlir.scheduling.devices.catalog import find_device
from rammer_mlir.scheduling.graph import TaskGraph
from rammer_mlir.timeline.predicted import predicted_timeline
from rammer_mlir.timeline.spans import Timeline

MIN_ROUNDS, MAX_ROUNDS = 5, 200
SAMPLE_SECONDS = 1e-3

Feeds = Mapping[str, NDArray[np.generic]]
OperatorSeconds = dict[tuple[str, str], float]
"""Seconds of all rTasks of an operator, summed over vEUs, by (operator name, rKernel name)."""


@dataclass(frozen=True)
class PredictionRequest:
    """A model to predict and measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        device: path of the TOML file that describes this machine.
        threads: the vEU counts to predict and measure with.
        policy: policy that schedules the model.
        scale: "full", or "small" for a model of reduced sizes.
        budget: seconds of measuring for each vEU count.
    """

    model: str
    device: str
    threads: tuple[int, ...] = (1, 2)
    policy: str = "wavefront"
    scale: Scale = "full"
    budget: float = 3.0
    """Seconds of timing for each number of threads."""


@dataclass(frozen=True)
class Prediction:
    """Predicted and measured times of a program in seconds, and relative errors of the predictions.

    There are two predictions. The prediction ``profiled`` uses measured times of the rKernels. The
    prediction ``modelled`` uses only the device description.

    Attributes:
        model: name of the model.
        threads: number of vEUs.
        operators: number of operators.
        measured: measured time of a run, the median of the faster half of the runs. The time in
            which Python checks and binds arrays is excluded.
        profiled: time of a run, predicted from measured times of the rKernels.
        modelled: time of a run, predicted from the device description only.
        profiled_operators, modelled_operators: error of each prediction over all operators: the sum
            of the absolute differences between predicted and measured time, divided by the sum of
            the measured times.
        median_operator: median over all operators of the error of ``profiled``: the absolute
            difference between predicted and measured time, divided by the measured time.
    """

    model: str
    threads: int
    operators: int
    measured: float
    profiled: float
    modelled: float
    profiled_operators: float
    modelled_operators: float
    median_operator: float


def predict_and_measure(request: PredictionRequest) -> list[Prediction]:
    """Predict and measure a model's time for each count of vEUs; return the times.

    The policy that schedules the model uses the measured times of the rKernels as costs.
    """
    model = build(request.model, 1, request.scale)
    feeds = random_feeds(model, seed=1)
    found: list[Prediction] = []
    for threads in request.threads:
        costs = f"measured:{request.device}"
        options = check_options("cpu", policy=request.policy, num_veus=threads, costs=costs)
        compilation = Compilation.of_model(model, options)
        # Stops after scheduling, so that the plan can be read before lowering erases it.
        compilation.emit("program")
        scheduled = read_plan(compilation.module)
        graph, device = scheduled.builder.graph(), find_device(request.device).device(threads)
        profiled = predicted_timeline(graph, scheduled.plan, device, "profiled")
        modelled = predicted_timeline(_without_profiles(graph), scheduled.plan, device, "modelled")
        with compilation.executable() as executable, _bound_run(compilation, feeds) as run:
            assert isinstance(executable, Executable)
            measured, operators = _measure(executable, run, feeds, request.budget)
        by_profile, by_model = operator_seconds(profiled), operator_seconds(modelled)
        found.append(
            Prediction(
                request.model, threads, len(operators), measured,
                profiled.seconds, modelled.seconds,
                total_error(by_profile, operators), total_error(by_model, operators),
                statistics.median(errors(by_profile, operators)),
            )
        )  # fmt: skip
    return found


def _without_profiles(graph: TaskGraph) -> TaskGraph:
    kernels = {
        kernel: replace(kernel, measured=None) for o in graph.operators for kernel in o.kernels
    }
    operators = tuple(
        replace(o, kernels=tuple(kernels[kernel] for kernel in o.kernels)) for o in graph.operators
    )
    return replace(graph, operators=operators)


@contextmanager
def _bound_run(compilation: Compilation, feeds: Feeds) -> Generator[Callable[[], None]]:
    """Yield a function that runs the compiled program once on ``feeds``, the inputs by name.

    The function passes the inputs, and outputs that are already allocated, to the program and runs
    it.
    """
    code = compilation.code()
    assert isinstance(code.image, CpuImage)
    inputs = check_inputs(code.image.signature, feeds)
    outputs = check_outputs(code.image.signature, {}, inputs)
    library = load_object(code.binary, *code.objects)
    native = native_code(library.address, library)
    num_veus = code.image.launch.busy_veus
    pool = ThreadPool(native, num_veus)
    pool.need_threads(num_veus)
    job = pool.take_job(num_veus)
    context = Context(code.image, job)

    def run() -> None:
        context.bind(inputs, outputs)
        native.launch(job.address, native.entry)

    try:
        yield run
    finally:
        pool.close()


def _measure(
    executable: Executable, run: Callable[[], None], feeds: Feeds, budget: float
) -> tuple[float, OperatorSeconds]:
    """Measure an executable; return the seconds of a run, and the seconds of each operator.

    Two kinds of runs alternate for ``budget`` seconds: a group of runs that is timed as a whole,
    and a run in which each rTask is recorded. The results are medians of the faster half of the
    groups and of the recorded runs.

    A group has several runs if a run is short, because reading the clock takes as long as some
    programs do. An untimed run precedes each group, to wake threads that slept while Python
    processed the times of the previous recorded run.

    Args:
        executable: makes the recorded runs.
        run: makes a run that is not recorded.
        feeds: inputs of the recorded runs, by name.
        budget: seconds of measuring.
    """
    # One vEU is the caller's thread: its processor time does not advance while others run.
    clock = time.thread_time if executable.num_veus == 1 else time.perf_counter

    def seconds(runs: int) -> float:
        # Untimed: wakes threads that slept while Python read the last record.
        run()
        begin = clock()
        for _ in range(runs):
            run()
        return (clock() - begin) / runs

    together = ceil(SAMPLE_SECONDS / max(seconds(1), 1e-6))
    runs: list[float] = []
    operators: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    deadline = time.perf_counter() + budget
    while len(runs) < MIN_ROUNDS or (len(runs) < MAX_ROUNDS and time.perf_counter() < deadline):
        runs.append(seconds(together))
        for operator, spent in operator_seconds(executable.record(feeds)).items():
            operators[operator].append(spent)
    return low(runs), {operator: low(spent) for operator, spent in operators.items()}


def low(seconds: list[float]) -> float:
    """Return the median of the faster half of ``seconds``, the times of repeated runs.

    Slow runs are ignored, since other work on the machine can only slow a run.
    """
    return statistics.median(sorted(seconds)[: (len(seconds) + 1) // 2])


def operator_seconds(timeline: Timeline) -> OperatorSeconds:
    """Return the seconds that the rTasks of each operator take in a timeline, summed over all vEUs.

    A key is a pair (operator name, rKernel name). The seconds of operators with equal keys are
    added.
    """
    found: OperatorSeconds = {}
    for span in timeline.spans:
        if span.kind == "rtask":
            key = span.name, span.kernel
            found[key] = found.get(key, 0.0) + span.seconds
    return found


def errors(predicted: OperatorSeconds, measured: OperatorSeconds) -> list[float]:
    """Return each operator's absolute prediction error divided by its measured time.

    Both arguments map operators to seconds. Operators with a measured time of 0 are left out.
    """
    return [abs(predicted[key] - seconds) / seconds for key, seconds in measured.items() if seconds]


def total_error(predicted: OperatorSeconds, measured: OperatorSeconds) -> float:
    """Return the sum of all absolute errors divided by the sum of the measured times.

    An error is the difference of an operator's predicted and measured time. Both arguments map
    operators to seconds.
    """
    return sum(abs(predicted[k] - s) for k, s in measured.items()) / sum(measured.values())


def prediction_table(predictions: Iterable[Prediction]) -> str:
    """Return a Markdown table of predicted and measured times, followed by a summary.

    The table has a row for each program and number of vEUs. The summary has the mean, median and
    largest error of each of the two predictions over all rows.
    """
    rows = [["model", "threads", "operators", "measured ms", "profiled ms", "error", "per operator",
             "median operator", "modelled ms", "error", "per operator"]]  # fmt: skip
    found = list(predictions)
    for p in found:
        rows.append([
            p.model, str(p.threads), str(p.operators), f"{1e3 * p.measured:.3f}",
            f"{1e3 * p.profiled:.3f}", f"{p.profiled / p.measured - 1:+.0%}",
            f"{p.profiled_operators:.0%}", f"{p.median_operator:.0%}",
            f"{1e3 * p.modelled:.3f}", f"{p.modelled / p.measured - 1:+.0%}",
            f"{p.modelled_operators:.0%}",
        ])  # fmt: skip
    return f"{table(rows)}\n\n{_summary(found)}"


def _summary(found: list[Prediction]) -> str:
    lines: list[str] = []
    for name, ratios in (
        ("profiled", [p.profiled / p.measured for p in found]),
        ("modelled", [p.modelled / p.measured for p in found]),
    ):
        off = [abs(ratio - 1) for ratio in ratios]
        center = exp(statistics.fmean(log(ratio) for ratio in ratios))
        lines.append(
            f"{name}: mean error {statistics.fmean(off):.1%}, median {statistics.median(off):.1%}, "
            f"at most {max(off):.0%}; predicted over measured {center:.2f} (geometric mean)"
        )
    return "\n".join(lines)
