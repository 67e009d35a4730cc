"""Check and time a program on a GPU, by events of the GPU and by the host's clock."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rammer_mlir.benchmarks.comparison import Array, compare
from rammer_mlir.benchmarks.gpu.kit.cases import Tolerance
from rammer_mlir.benchmarks.gpu.kit.manifest import ProgramFacts
from rammer_mlir.errors import RammerError
from rammer_mlir.runtime.gpu.arrays import DeviceArray
from rammer_mlir.runtime.gpu.driver import Driver, Peaks
from rammer_mlir.runtime.gpu.executable import GpuExecutable
from rammer_mlir.scheduling.devices.catalog import device_for

_BATCH_SECONDS = 5e-3
"""Shortest time in seconds between the two events that time a batch of runs.

The resolution of the events' clock is half a microsecond.
"""

_FEWEST_BATCHES, _MOST_BATCHES, _MOST_RUNS = 3, 15, 1000

_GRAPH_SECONDS, _MOST_ROUNDS = 2e-4, 32
"""Seconds that the runs in a CUDA graph take, to hide its launch, and most runs in a graph."""

_WARM_SECONDS = 0.3
"""Seconds of untimed runs before the first timed one."""

_CHECKED_RUNS = 3
"""Number of runs whose outputs are compared.

Several runs are compared, because the step counters of barriers go on from run to run.
"""

_BEYOND_CACHES, _MOST_SETS = 200 << 20, 16
"""Size in bytes that all copies of the inputs approach, and largest number of copies.

The size exceeds the second-level cache.
"""


class WrongOutputs(RammerError):
    """The error that an output differs from the expected output by more than its tolerance."""


def check_outputs(
    executable: GpuExecutable,
    feeds: Mapping[str, Array],
    expected: Mapping[str, Array],
    tolerance: Tolerance,
) -> dict[str, Any]:
    """Run a program ``_CHECKED_RUNS`` times, and compare its outputs with ``expected``.

    Returns:
        A dictionary:
        - ``excess``: the largest error of an element divided by its tolerance;
        - ``repeats``: whether all runs gave bitwise equal outputs.

    Raises:
        WrongOutputs: if the error of an output exceeds its tolerance.
    """
    excess, first = 0.0, dict[str, Array]()
    repeats = True
    for number in range(_CHECKED_RUNS):
        found = executable.run(feeds)
        first = first or {name: array.copy() for name, array in found.items()}
        repeats &= all(np.array_equal(first[n], a, equal_nan=True) for n, a in found.items())
        excess = max(excess, excess_of(expected, found, tolerance, f"run {number + 1}"))
    return {"excess": excess, "repeats": repeats}


def floor_seconds(facts: ProgramFacts, peaks: Peaks, target: str, precision: str) -> float:
    """Return a lower bound of the seconds of a program's run.

    A run reads or writes all bytes once, and executes all operations at the peak rate. ``peaks``
    has the peak rate of f32 only. For a product of another precision, this rate is multiplied by
    the ratio of the precision's rate to f32's rate in the description of the target's device.

    Args:
        facts: the program's bytes and operations.
        peaks: the device's bandwidth, and its rate for f32.
        target: the program's target.
        precision: ``f32``, ``tf32`` or ``f16`` for a product, else empty.
    """
    rates = device_for(target.partition("+")[0]).flops_per_second
    rate = peaks.operations * rates.get(precision, rates["f32"]) / rates["f32"]
    return max(facts.num_bytes / peaks.bandwidth, facts.operations / rate)


def excess_of(
    expected: Mapping[str, Array], found: Mapping[str, Array], tolerance: Tolerance, where: str
) -> float:
    """Compare outputs by name; return the largest error of an element divided by its tolerance.

    ``where`` names the run in the error's message.

    Raises:
        WrongOutputs: if the result is above 1.
    """
    if not expected:
        return 0.0
    comparison = compare(expected, found, tolerance.relative, tolerance.absolute)
    if not comparison.ok:
        raise WrongOutputs(f"{where} computes wrong numbers: {comparison}")
    return 0.0 if comparison.worst is None else comparison.worst.excess


def time_program(
    executable: GpuExecutable, feeds: Mapping[str, Array], expected: Mapping[str, Array],
    tolerance: Tolerance, seconds: float, *, several_sets: bool,
) -> dict[str, Any]:  # fmt: skip
    """Time a program by launches and in a CUDA graph, with its arrays in device memory.

    Args:
        executable: the program.
        feeds: the program's inputs by name.
        expected: the outputs that the graph has to compute, by name.
        tolerance: tolerated error of the graph's outputs.
        seconds: duration of all timings together.
        several_sets: whether runs cycle through copies of the inputs, so that inputs are read from
            device memory instead of a cache.

    Returns:
        A dictionary:
        - ``sets``: the number of copies of the inputs;
        - ``graph_excess``: the largest error of the graph's outputs divided by the tolerance;
        - ``launch``: the seconds of a run by a launch;
        - ``graph``: the seconds of a run in a graph.

        The seconds are a dictionary with two entries: ``device``, by the device's clock, and
        ``wall``, by the CPU's clock. Each entry is a dictionary of ``summary_of``.

    Raises:
        WrongOutputs: if the error of the graph's outputs exceeds the tolerance.
    """
    sets = sets_beyond_caches(feeds) if several_sets else 1
    placed = [executable.to_device(feeds) for _ in range(sets)]
    captured = executable.capture(placed[0])
    outputs = captured.replay()
    captured.synchronize()
    found = {name: array.numpy() for name, array in outputs.items()}
    excess = excess_of(expected, found, tolerance, "a graph")
    # Run once per copy before timing: the first run allocates the outputs.
    places = [(inputs, executable.run_on_device(inputs)) for inputs in placed]
    program = executable.program

    def wait() -> None:
        program.check(program.stream)

    def launch_all() -> None:
        for inputs, out in places:
            executable.run_on_device(inputs, out)

    def launch() -> None:
        executable.run_on_device(*places[0])

    # Four timings below share the budget.
    share = seconds / 4
    graph, runs = _graph_of_many(executable, places)
    return {
        "sets": sets,
        "graph_excess": excess,
        "launch": {
            "device": device_seconds(program.driver, program.stream, launch_all, share, sets),
            "wall": wall_seconds(launch, wait, share),
        },
        "graph": {
            "device": device_seconds(program.driver, program.stream, graph, share, runs),
            "wall": wall_seconds(captured.replay, wait, share),
        },
    }


def sets_beyond_caches(feeds: Mapping[str, Array]) -> int:
    """Return the number of copies of the inputs that runs cycle through to miss the caches.

    As many copies are used as fit in ``_BEYOND_CACHES`` bytes, a size that exceeds the GPU's
    caches, but at least 1 and at most ``_MOST_SETS``.
    """
    num_bytes = sum(array.nbytes for array in feeds.values())
    return min(_MOST_SETS, max(1, _BEYOND_CACHES // max(num_bytes, 1)))


def rounds_of_graph(seconds: float) -> int:
    """Return the number of runs in a CUDA graph that makes the graph's launch cost negligible.

    ``seconds`` is the time of a run. The result is at most ``_MOST_ROUNDS``.
    """
    return min(_MOST_ROUNDS, math.ceil(_GRAPH_SECONDS / max(seconds, 1e-7)))


Places = Sequence[tuple[Mapping[str, DeviceArray], Mapping[str, DeviceArray]]]
"""Inputs and outputs on the device, for each copy of the inputs."""


def _graph_of_many(executable: GpuExecutable, places: Places) -> tuple[Callable[[], None], int]:
    """Capture a CUDA graph of many runs; return its launch function and its number of runs.

    ``places`` has the inputs and outputs, in device memory, of several runs; the graph repeats
    these runs in turn. There are so many runs that the cost of launching the graph is negligible.
    """
    driver, stream = executable.program.driver, executable.program.stream
    once = _graph_of(executable, places)
    seconds = device_seconds(driver, stream, once, 0.0)["median"]
    rounds = rounds_of_graph(seconds)
    graph = once if rounds == 1 else _graph_of(executable, [*places] * rounds)
    return graph, rounds * len(places)


def _graph_of(executable: GpuExecutable, places: Places) -> Callable[[], None]:
    """Capture a CUDA graph of several runs of a program; return a function that launches the graph.

    ``places`` has, for each run, its inputs and outputs in device memory, by name.
    """
    driver, stream = executable.program.driver, executable.program.stream
    driver.synchronize(stream)
    driver.begin_capture(stream)
    try:
        for inputs, outputs in places:
            executable.run_on_device(inputs, outputs)
    finally:
        graph = driver.end_capture(stream)
    return lambda: driver.replay(graph, stream)


def device_seconds(
    driver: Driver, stream: object, run: Callable[[], object], budget: float, runs_each: int = 1
) -> dict[str, Any]:
    """Time calls of ``run`` by events on ``stream``, which are recorded around batches of calls.

    Each call submits ``runs_each`` runs to ``stream``; ``budget`` is the duration of the timing in
    seconds.

    Returns:
        A dictionary of ``summary_of`` with the seconds of a run, a sample for each batch.
    """

    def batch(calls: int) -> float:
        begin = driver.record_event(stream)
        for _ in range(calls):
            run()
        end = driver.record_event(stream)
        driver.synchronize(stream)
        return driver.seconds_between(begin, end)

    batch(1)
    return time_batches(batch, budget, runs_each)


def wall_seconds(
    run: Callable[[], object], wait: Callable[[], object], budget: float
) -> dict[str, Any]:
    """Time calls of ``run`` by the clock of the CPU; ``wait`` waits for the end of each call.

    ``budget`` is the duration of the timing in seconds. Return a dictionary of ``summary_of`` with
    the seconds of a call and its wait.
    """

    def batch(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
            wait()
        return time.perf_counter() - begin

    batch(1)
    return time_batches(batch, budget, 1)


def time_batches(batch: Callable[[int], float], budget: float, runs_each: int) -> dict[str, Any]:
    """Time batches of calls for ``budget`` seconds, and summarize the seconds of a run.

    A batch has so many calls that the clock's resolution causes only a small error.

    Args:
        batch: makes the given number of calls, and returns their total seconds.
        budget: duration in seconds; at least three batches run.
        runs_each: number of runs in each call.

    Returns:
        A dictionary of ``summary_of`` with the seconds of a run, a sample for each batch.
    """
    # An idle GPU has a low clock, which rises within a few tenths of a second.
    begin = time.perf_counter()
    while time.perf_counter() - begin < min(_WARM_SECONDS, budget):
        batch(1)
    deadline = time.perf_counter() + budget
    calls = int(min(_MOST_RUNS, max(1, _BATCH_SECONDS / max(batch(1), 1e-7))))
    samples: list[float] = []
    while len(samples) < _MOST_BATCHES:
        if len(samples) >= _FEWEST_BATCHES and time.perf_counter() > deadline:
            break
        samples.append(batch(calls) / (calls * runs_each))
    return summary_of(samples, calls * runs_each * len(samples))


def summary_of(samples: Sequence[float], runs: int) -> dict[str, Any]:
    """Return a dictionary that summarizes times: ``median``, ``low``, ``high`` and ``runs``.

    ``low`` and ``high`` are the least and the largest of ``samples``; ``runs`` is the number of
    runs that were timed.
    """
    return {
        "median": statistics.median(samples), "low": min(samples), "high": max(samples),
        "runs": runs,
    }  # fmt: skip
