"""Measure latency while other processes keep cores busy: ``--parts busy``.

Each contender has its own process, which is stopped while another contender is timed. During all
measurements, a number of additional processes spin on the cores. The slowest runs are of interest,
so quantiles over all runs are reported.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from rammer_mlir.benchmarks.bench import Request, worst_error
from rammer_mlir.benchmarks.contender_process import Lane, outputs, turn
from rammer_mlir.benchmarks.contenders.ours import Ours
from rammer_mlir.benchmarks.contenders.protocol import Open
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_rivals
from rammer_mlir.benchmarks.lanes import gaps
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.model_lanes import open_model_lanes
from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.errors import RammerError
from rammer_mlir.support.interleaved_timing import take_turns

BUSY_MODELS = (
    "light_squeezenet", "light_shufflenet", "light_resnet50", "light_inception_v1", "squeezenet",
    "resnet18", "mobilenet_v2", "inception_v3", "transformer_4_layers", "lstm_tc",
)  # fmt: skip
"""Models measured if the command names none: short and long runs, many and few barriers."""

OURS, ALONE = "ours", "ours, one vEU"

BUSY = (
    "Latency beside processes that spin, in ms: median / 90 % / 99 % of the runs; best: the least "
    "median of the others over ours; alone: our median with one vEU over that with all"
)

_SPIN = """
import ctypes, signal
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the parent
while True:
    pass
"""


@dataclass(frozen=True)
class BusyRequest:
    """A model to measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        scale: "full", or "small" for a model of reduced sizes.
        threads: number of threads of each contender, and of vEUs of this compiler's program; this
            program is also measured with a single vEU.
        busy: the numbers of spinning processes to measure with, one after the other.
        budget: seconds of timing for each number in ``busy``.
        patience: seconds within which contenders must be ready to run, except this compiler and the
            reference.
        timeout: seconds within which this compiler and the reference (ONNX Runtime) must be ready
            to run.
    """

    model: str
    scale: Scale = "full"
    threads: int = 2
    busy: tuple[int, ...] = (0, 1, 2)
    budget: float = 12.0
    patience: float = 90.0
    timeout: float = 1200.0


@dataclass(frozen=True)
class Tail:
    """Quantiles of the times of a contender's runs while a number of processes keep cores busy.

    Attributes:
        name: the contender.
        busy: number of processes that spin.
        median, p90, p99: quantiles in seconds.
        runs: number of runs.
        worst: largest error against ONNX Runtime, divided by the tolerance.
    """

    name: str
    busy: int
    median: float
    p90: float
    p99: float
    runs: int
    worst: float

    @classmethod
    def of(cls, name: str, busy: int, samples: Sequence[float], worst: float) -> Tail:
        """Return the quantiles of ``samples``, the seconds of at least two runs of ``name``.

        ``name`` is a contender, which ran beside ``busy`` spinning processes. ``worst`` is its
        largest error divided by the tolerance.
        """
        cuts = statistics.quantiles(samples, n=100, method="inclusive")
        return cls(name, busy, cuts[49], cuts[89], cuts[98], len(samples), worst)

    def __str__(self) -> str:
        """Return median, 90% and 99% quantile in milliseconds, as text separated by slashes."""
        return " / ".join(f"{1e3 * value:.2f}" for value in (self.median, self.p90, self.p99))


@dataclass(frozen=True)
class BusyResult:
    """All measurements of a model while other processes keep cores busy.

    ``missing`` has a line for each contender without latency, with the reason; ``error`` is the
    message of an error that ended the measurement, or None.
    """

    request: BusyRequest
    tails: list[Tail] = field(default_factory=list[Tail])
    missing: list[str] = field(default_factory=list[str])
    error: str | None = None

    def tail(self, name: str, busy: int) -> Tail | None:
        """Return the quantiles of contender ``name`` with ``busy`` spinning processes.

        The result is None if this contender was not measured with ``busy`` processes.
        """
        found = [tail for tail in self.tails if (tail.name, tail.busy) == (name, busy)]
        return found[0] if found else None


@contextmanager
def spinning(count: int) -> Generator[None]:
    """Run ``count`` processes that spin on the cores while the context is open."""
    processes = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def openers() -> dict[str, Open]:
    """Return, for each contender by name, the function that loads a model into this contender.

    The first contender is ONNX Runtime.
    """
    ours = partial(Ours, policy="wavefront")
    return {**open_rivals(), OURS: ours, ALONE: ours}


def measure_busy(request: BusyRequest, opens: Mapping[str, Open] | None = None) -> BusyResult:
    """Time all contenders with each number of spinning processes; return all measurements.

    A RammerError that ends the measurement is stored in the result.

    Args:
        request: the model and the settings.
        opens: for each contender by name, a function that loads a model into it; by default
            ``openers()``.
    """
    found = BusyResult(request)
    entrants = {
        name: (opener, 1 if name == ALONE else request.threads)
        for name, opener in (opens or openers()).items()
    }
    with ExitStack() as stack:
        try:
            lanes, missing = open_model_lanes(
                stack, Request(request.model, request.scale), entrants, (REFERENCE, OURS, ALONE),
                timeout=request.timeout, patience=request.patience,
            )  # fmt: skip
            found.missing.extend(missing)
            worst = _check(lanes)
            for busy in request.busy:
                turns = {name: partial(lane.call, turn) for name, lane in lanes.items()}
                with spinning(busy):
                    samples = take_turns(turns, request.budget)
                found.tails.extend(Tail.of(n, busy, s, worst[n]) for n, s in samples.items())
        except RammerError as error:
            return BusyResult(request, found.tails, found.missing, str(error))
    return found


def _check(lanes: Mapping[str, Lane]) -> dict[str, float]:
    """Return each contender's largest error against ONNX Runtime, divided by the tolerance."""
    expected = lanes[REFERENCE].call(outputs)
    return {n: worst_error(expected, lane.call(outputs)) for n, lane in lanes.items()}


def busy_table(results: Iterable[BusyResult]) -> str:
    """Return a table of quantiles of latencies by model and number of busy processes."""
    results = list(results)
    names = list(dict.fromkeys(tail.name for result in results for tail in result.tails))
    rows = [["model", "busy", *names, "best / ours", "alone / ours", "error"]]
    for result in results:
        for busy in result.request.busy:
            tails = {name: result.tail(name, busy) for name in names}
            if (ours := tails.get(OURS)) is None:
                continue
            medians = {name: tail.median for name, tail in tails.items() if tail is not None}
            best = min(value for name, value in medians.items() if name not in (OURS, ALONE))
            rows.append([
                result.request.model, str(busy), *(str(tail or "-") for tail in tails.values()),
                f"{best / ours.median:.2f}", f"{medians[ALONE] / ours.median:.2f}",
                f"{ours.worst:.2g}",
            ])  # fmt: skip
    return table(rows)


def busy_text(results: Sequence[BusyResult]) -> list[str]:
    """Return the paragraphs of a report: caption, table, and contenders missing from the table."""
    return [
        BUSY,
        busy_table(results),
        *gaps((r.request.model, r.missing, r.error) for r in results),
    ]
