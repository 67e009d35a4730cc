"""Measure the cost of compiling a model, and its latency in this compiler and in other runtimes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import ABSOLUTE, RELATIVE, Array, compare
from rammer_mlir.benchmarks.contender_process import Feeds, Lane, outputs, turn
from rammer_mlir.benchmarks.contenders.ours import CompileCost, Ours, Work
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.benchmarks.contenders.table import CONTENDERS, REFERENCE, open_contender
from rammer_mlir.benchmarks.models import Scale, build, random_feeds
from rammer_mlir.benchmarks.models.counts import Counts, count
from rammer_mlir.benchmarks.timing import Latency, take_turns
from rammer_mlir.errors import RammerError, TargetError

POLICIES = ("wavefront", "sequential")


@dataclass(frozen=True)
class Request:
    """A model to measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        scale: "full", or "small" for a model of reduced sizes.
        batch: number of samples in an input.
        threads: the thread counts to measure with; for this compiler, the vEU counts.
        policies: policies of this compiler to measure.
        contenders: names in ``CONTENDERS`` of the other implementations to measure.
        budget: seconds of timing for each number of threads.
        patience: seconds within which contenders must be ready to run, except those that
            ``timeout`` limits.
        timeout: seconds within which this compiler and the reference (ONNX Runtime) must be ready
            to run.
    """

    model: str
    scale: Scale = "full"
    batch: int = 1
    threads: tuple[int, ...] = (1, 2)
    policies: tuple[str, ...] = POLICIES
    contenders: tuple[str, ...] = tuple(CONTENDERS)
    budget: float = 3.0
    """Seconds of timing for each number of threads."""
    patience: float = 90.0
    """Seconds for contenders other than this compiler and the reference to be ready to run."""
    timeout: float = 1200.0
    """Seconds within which this compiler and the reference must be ready to run."""


@dataclass(frozen=True)
class Timing:
    """A contender's latency with a number of threads, and the largest error of its outputs.

    ``name`` is the contender, or a policy of this compiler. ``threads`` is the number of threads,
    or of vEUs for this compiler. ``worst`` is the largest error against
    the outputs of ONNX Runtime, divided by the tolerance.
    """

    name: str
    threads: int
    latency: Latency
    worst: float
    """Largest error against ONNX Runtime, divided by the tolerance; above 1 is wrong."""


@dataclass(frozen=True)
class Missing:
    """The reason why contender ``name`` has no latency with ``threads`` threads."""

    name: str
    threads: int
    reason: str


@dataclass(frozen=True)
class Result:
    """All measurements of a model.

    Attributes:
        request: the model and the settings.
        counts: numbers of the model's weights and operations; they do not depend on contenders.
        compile: cost of compiling the model by this compiler.
        timings: latencies of contenders and policies.
        works: operations, bytes and waiting time of this compiler's programs.
        missing: the contenders without a latency.
        error: the message of an error that ended the measurement, or None.
    """

    request: Request
    counts: Counts | None = None
    compile: CompileCost | None = None
    """Cost of compiling with the first policy and the most vEUs."""
    timings: list[Timing] = field(default_factory=list[Timing])
    works: list[Work] = field(default_factory=list[Work])
    """Work of the programs compiled with the first policy, for each number of vEUs."""
    missing: list[Missing] = field(default_factory=list[Missing])
    error: str | None = None

    def latency(self, name: str, threads: int) -> Latency | None:
        """Return the latency of contender ``name`` on ``threads`` threads; None if not measured."""
        found = [t.latency for t in self.timings if (t.name, t.threads) == (name, threads)]
        return found[0] if found else None

    def work(self, threads: int) -> Work | None:
        """Return the work of the program that the first requested policy made for ``threads`` vEUs.

        The work is the program's floating-point operations, bytes and waiting time. The result is
        None if the program was not measured.
        """
        return next((work for work in self.works if work.num_veus == threads), None)


def openers(request: Request) -> dict[str, Open]:
    """Return, for each contender by name, the function that loads a model into this contender.

    A key is the name of a requested contender, or of a policy of this compiler.
    """
    others = dict.fromkeys((REFERENCE, *request.contenders))
    found: dict[str, Open] = {name: partial(open_contender, name=name) for name in others}
    return found | {policy: partial(Ours, policy=policy) for policy in request.policies}


def measure(request: Request, opens: Mapping[str, Open] | None = None) -> Result:
    """Measure a model with every contender and each count of threads; return all measurements.

    If this compiler or the reference (ONNX Runtime) fails, the measurement ends, and the message is
    stored in ``Result.error``. If another contender fails, the reason is stored in
    ``Result.missing``, and the measurement continues without this contender.

    Args:
        request: the model, the contenders and the settings.
        opens: for each contender by name, a function that loads a model into it; by default
            ``openers(request)``.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-bench-") as folder:
        path = Path(folder) / "model.onnx"
        written = in_child(write_model, (request, path), request.timeout)
        if isinstance(written, Failure):
            return Result(request, error=written.message)
        feeds, counts = written
        measuring = _Measuring(request, opens or openers(request), path, feeds)
        try:
            for threads in sorted(request.threads, reverse=True):
                measuring.measure(threads)
        except RammerError as error:
            measuring.error = str(error)
        return measuring.result(counts)


def write_model(job: tuple[Request, Path]) -> tuple[Feeds, Counts]:
    """Build a model and write it to a file.

    This runs in a child process, so that the memory is freed when that process ends.

    Args:
        job: the request, which names the model and its sizes, and the path of the file.

    Returns:
        Random inputs by name, and the counts of the model's weights and operations.
    """
    request, path = job
    model = build(request.model, request.batch, request.scale)
    path.write_bytes(model.SerializeToString())
    return random_feeds(model, seed=1), count(model)


class _Measuring:
    """Measures one model: times all contenders with each count of threads, and stores results."""

    def __init__(
        self, request: Request, opens: Mapping[str, Open], model: Path, feeds: Feeds
    ) -> None:
        self._request = request
        self._opens = dict(opens)
        self._model = model
        self._feeds = feeds
        self._compile: CompileCost | None = None
        self._timings: list[Timing] = []
        self._works: list[Work] = []
        self._missing: list[Missing] = []
        self.error: str | None = None

    def result(self, counts: Counts) -> Result:
        return Result(
            self._request, counts, self._compile, self._timings, self._works, self._missing,
            self.error,
        )  # fmt: skip

    def measure(self, threads: int) -> None:
        """Time all contenders with ``threads`` threads, and store their latencies.

        Also store the work (operations, bytes and waiting time) of the program that the first
        requested policy made.
        """
        with ExitStack() as stack:
            lanes = self._open_all(stack, threads)
            worst = self._check(lanes, threads)
            turns = {name: partial(lanes[name].call, turn) for name in worst}
            latencies = take_turns(turns, self._request.budget)
            self._timings += [Timing(n, threads, found, worst[n]) for n, found in latencies.items()]
            for policy in self._request.policies[:1]:
                self._works += filter(None, [lanes[policy].call(_work)])

    def _open_all(self, stack: ExitStack, threads: int) -> dict[str, Lane]:
        """Start a process per contender, and load the model; return the processes by contender.

        While this compiler compiles the model with the first policy, no other contender loads it,
        because this compile time is reported. Then all other contenders load the model in parallel.
        A contender that cannot load the model is left out of the result. The processes end when
        ``stack`` is closed.
        """
        # Started by this thread: a lane ends with the thread that started it, and the pool's
        # threads end early.
        lanes = {
            name: stack.enter_context(Lane(name, opens, self._model, threads, self._feeds))
            for name, opens in self._opens.items()
        }
        for policy in self._request.policies[:1]:
            lanes[policy].open(self._patience(policy))
            self._compile = self._compile or lanes[policy].call(_cost)
        names = [name for name in lanes if name not in self._request.policies[:1]]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            opening = {n: pool.submit(lanes[n].open, self._patience(n)) for n in names}
        for name, opened in opening.items():
            if (error := opened.exception()) is not None:
                self._give_up(name, error)
                self._missing.append(Missing(name, threads, str(error)))
                lanes.pop(name).close()
        return lanes

    def _patience(self, name: str) -> float:
        return self._request.timeout if self._is_needed(name) else self._request.patience

    def _give_up(self, name: str, error: BaseException) -> None:
        """Raise ``error`` of contender ``name``, unless the measurement can go on without it.

        The measurement can go on without a contender if the contender is neither the reference nor
        this compiler, and the error is a RammerError.
        """
        if self._is_needed(name) or not isinstance(error, RammerError):
            raise error

    def _is_needed(self, name: str) -> bool:
        return name in (REFERENCE, *self._request.policies)

    def _check(self, lanes: Mapping[str, Lane], threads: int) -> dict[str, float]:
        """Run each contender once and return the largest error of its outputs, by contender name.

        Outputs are compared with those of the reference (ONNX Runtime) by ``worst_error``. If this
        compiler cannot run the model, its error is raised. Any other contender that cannot run the
        model is left out of the result, and added to ``missing`` with the reason.
        """
        expected = lanes[REFERENCE].call(outputs)
        worst = {REFERENCE: 0.0}
        for name in (name for name in lanes if name != REFERENCE):
            try:
                worst[name] = worst_error(expected, lanes[name].call(outputs))
            except TargetError as error:
                self._give_up(name, error)
                self._missing.append(Missing(name, threads, str(error)))
        return worst


def worst_error(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    relative: float = RELATIVE,
    absolute: float = ABSOLUTE,
) -> float:
    """Return the largest error of any output element, divided by that element's tolerance.

    A result above 1 means that an output is wrong. The result is infinite if output names, shapes
    or element types differ.

    Args:
        expected: the expected outputs, by name.
        found: the outputs to check, by name.
        relative: tolerated error as a fraction of the expected element.
        absolute: tolerated error as a fraction of the largest element of the expected output; the
            tolerance is the sum of both.
    """
    comparison = compare(expected, found, relative, absolute)
    exact = comparison.worst.excess if comparison.worst else 0.0
    return float("inf") if comparison.mismatches else exact


def _cost(contender: Contender, _: Feeds) -> CompileCost | None:
    return contender.cost if isinstance(contender, Ours) else None


def _work(contender: Contender, feeds: Feeds) -> Work | None:
    return contender.work(feeds) if isinstance(contender, Ours) else None
