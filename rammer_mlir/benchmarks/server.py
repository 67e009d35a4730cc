"""Measure throughput and latency with many clients: ``--parts server``.

Each client is a thread that calls a contender's model again and again, without a pause. All clients
of a contender are in the contender's process, which is stopped while another contender is timed.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from rammer_mlir.benchmarks.bench import Request, worst_error
from rammer_mlir.benchmarks.busy import BUSY_MODELS
from rammer_mlir.benchmarks.contender_process import Feeds, Lane, outputs
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.benchmarks.contenders.servers import OpenVinoServer, open_ours, open_serial
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.lanes import gaps
from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.model_lanes import open_model_lanes
from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.errors import RammerError

SERVER_MODELS = BUSY_MODELS
"""Models measured if none is named."""

OURS = "ours"

SERIAL = "onnxruntime, 1 thread each"
"""ONNX Runtime without threads of its own, as servers often configure it."""

OPENERS: dict[str, Open] = {
    REFERENCE: partial(open_contender, name=REFERENCE),
    SERIAL: open_serial,
    "openvino": OpenVinoServer,
    OURS: open_ours,
}
"""For each contender by name, the function that loads a model into it."""

ROUNDS = 3
"""Number of times that each contender serves each number of clients."""

SERVER = (
    "Many clients: runs per second, and median / 99 % of the latencies in ms; throughput: ours "
    "over the best of the others; p99: the least of the others over ours"
)


@dataclass(frozen=True)
class ServerRequest:
    """A model to measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        scale: "full", or "small" for a model of reduced sizes.
        threads: number of threads of each contender, besides the clients' threads.
        clients: the numbers of clients to measure with, one after the other.
        budget: seconds for which a contender serves a number of clients, in ``ROUNDS`` rounds.
        patience: seconds within which contenders must be ready to run, except this compiler and the
            reference.
        timeout: seconds within which this compiler and the reference (ONNX Runtime) must be ready
            to run.
    """

    model: str
    scale: Scale = "full"
    threads: int = 2
    clients: tuple[int, ...] = (1, 2, 4, 8, 16)
    budget: float = 6.0
    patience: float = 90.0
    timeout: float = 1200.0


@dataclass(frozen=True)
class Load:
    """Throughput and latency of a contender with a number of clients.

    Attributes:
        name: the contender.
        clients: number of clients.
        throughput: runs per second, of all clients together.
        median, p99: quantiles of the latency in seconds, from a client's call to its return.
        runs: number of runs.
        worst: largest error against ONNX Runtime, divided by the tolerance.
    """

    name: str
    clients: int
    throughput: float
    median: float
    p99: float
    runs: int
    worst: float

    def __str__(self) -> str:
        """Return the throughput, and the median and 99% quantile in milliseconds, as text."""
        return f"{self.throughput:.0f}: {1e3 * self.median:.2f} / {1e3 * self.p99:.2f}"


@dataclass(frozen=True)
class ServerResult:
    """All measurements of a model with many clients.

    ``missing`` has a line for each contender without measurements, with the reason; ``error`` is
    the message of an error that ended the measurement, or None.
    """

    request: ServerRequest
    loads: list[Load] = field(default_factory=list[Load])
    missing: list[str] = field(default_factory=list[str])
    error: str | None = None

    def load(self, name: str, clients: int) -> Load | None:
        """Return the measurement of contender ``name`` with ``clients`` clients, or None."""
        found = [load for load in self.loads if (load.name, load.clients) == (name, clients)]
        return found[0] if found else None


def serve(
    contender: Contender, feeds: Feeds, *, clients: int, seconds: float
) -> tuple[list[float], float]:
    """Let clients call a contender for some seconds, each from a thread of its own.

    Args:
        contender: a loaded model that several threads may run.
        feeds: inputs of all runs, by name.
        clients: number of clients.
        seconds: no client begins another run after this time; each client makes at least one run.

    Returns:
        The seconds of each run, and the seconds from the begin of the first run to the end of the
        last run.

    Raises:
        Exception: the error of a client.
    """
    start = threading.Barrier(clients + 1)
    samples: list[list[float]] = [[] for _ in range(clients)]
    problems: list[Exception] = []

    def client(number: int) -> None:
        try:
            contender.run(feeds)  # untimed: memory of this thread
            start.wait()
            clock, own = time.perf_counter, samples[number]
            begin = clock()
            deadline = begin + seconds
            while not own or begin < deadline:
                contender.run(feeds)
                end = clock()
                own.append(end - begin)
                begin = end
        except Exception as problem:  # in the thread of the caller
            problems.append(problem)
            start.abort()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        start.wait()
    except threading.BrokenBarrierError:
        pass
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return [sample for own in samples for sample in own], time.perf_counter() - begin


def measure_server(request: ServerRequest, opens: Mapping[str, Open] | None = None) -> ServerResult:
    """Measure all contenders with each number of clients; return all measurements.

    A RammerError that ends the measurement is stored in the result.

    Args:
        request: the model and the settings.
        opens: for each contender by name, a function that loads a model into it; ``OPENERS`` by
            default.
    """
    found = ServerResult(request)
    entrants = {name: (opener, request.threads) for name, opener in (opens or OPENERS).items()}
    with ExitStack() as stack:
        try:
            lanes, missing = open_model_lanes(
                stack, Request(request.model, request.scale), entrants, (REFERENCE, OURS),
                timeout=request.timeout, patience=request.patience,
            )  # fmt: skip
            found.missing.extend(missing)
            expected = lanes[REFERENCE].call(outputs)
            for clients in request.clients:
                found.loads.extend(_loads(request, lanes, clients, expected))
        except RammerError as error:
            return ServerResult(request, found.loads, found.missing, str(error))
    return found


def _loads(
    request: ServerRequest, lanes: Mapping[str, Lane], clients: int, expected: Feeds
) -> list[Load]:
    """Return the measurements of all contenders with ``clients`` clients.

    ``lanes`` has the process of each contender by name. The outputs of each contender are compared
    with ``expected``, the outputs of ONNX Runtime.
    """
    served = partial(serve, clients=clients, seconds=request.budget / ROUNDS)
    rounds = [{name: lane.call(served) for name, lane in lanes.items()} for _ in range(ROUNDS)]
    found: list[Load] = []
    for name, lane in lanes.items():
        samples = [sample for each in rounds for sample in each[name][0]]
        cuts = statistics.quantiles([*samples, *samples[:1]], n=100, method="inclusive")
        # The median round: other processes disturb single rounds.
        throughput = statistics.median(len(each[name][0]) / each[name][1] for each in rounds)
        worst = worst_error(expected, lane.call(outputs))
        found.append(Load(name, clients, throughput, cuts[49], cuts[98], len(samples), worst))
    return found


def server_table(results: Iterable[ServerResult]) -> str:
    """Return a Markdown table with a row for each model and number of clients.

    A row has throughput and latency of each contender. The last three columns are: this compiler's
    throughput divided by the best other throughput; the best other 99% quantile of the latency
    divided by this compiler's; and this compiler's largest error.
    """
    results = list(results)
    names = list(dict.fromkeys(load.name for result in results for load in result.loads))
    rows = [["model", "clients", *names, "throughput", "p99", "error"]]
    for result in results:
        for clients in result.request.clients:
            loads = {name: result.load(name, clients) for name in names}
            ours = loads.get(OURS)
            others = [load for name, load in loads.items() if load is not None and name != OURS]
            if ours is None or not others:
                continue
            rows.append([
                result.request.model, str(clients), *(str(load or "-") for load in loads.values()),
                f"{ours.throughput / max(load.throughput for load in others):.2f}",
                f"{min(load.p99 for load in others) / ours.p99:.2f}", f"{ours.worst:.2g}",
            ])  # fmt: skip
    return table(rows)


def server_text(results: Sequence[ServerResult]) -> list[str]:
    """Return the section of a report about models with many clients, as a list of paragraphs.

    The paragraphs are a caption, the table of throughputs, and the contenders without measurements.
    """
    return [
        SERVER,
        server_table(results),
        *gaps((r.request.model, r.missing, r.error) for r in results),
    ]
