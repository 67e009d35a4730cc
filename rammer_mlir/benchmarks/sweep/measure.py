"""Time random cases in all contenders.

A contender has one process for each number of threads. This process opens the cases one after the
other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rammer_mlir.benchmarks.bench import worst_error
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contender_process import Feeds, Lane, outputs, turn
from rammer_mlir.benchmarks.contenders.ours import Ours
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_rivals
from rammer_mlir.benchmarks.models import random_feeds
from rammer_mlir.benchmarks.sweep.cases import Case, draw
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.errors import RammerError, TargetError
from rammer_mlir.support.interleaved_timing import joined_rounds, paired_medians, take_rounds

OURS = "ours"

TURN_SECONDS = 2e-3
"""Seconds of a turn: short, so that each contender runs at each speed of the machine.

A machine that others share may run at half of its speed for some tens of milliseconds.
"""

RENEWED = 50
"""Number of cases after which processes start again, since old processes may become slow."""


@dataclass(frozen=True)
class SweepRequest:
    """The cases to measure, and the settings of their measurement.

    Attributes:
        cases: number of cases.
        first: seed of the first case; the next cases have the next seeds.
        threads: numbers of threads with which each case is measured.
        budget: seconds of timing of a case with one number of threads.
        timeout: seconds within which a contender must open a case.
    """

    cases: int = 1000
    first: int = 0
    threads: tuple[int, ...] = (1, 2)
    budget: float = 0.3
    timeout: float = 120.0


@dataclass(frozen=True)
class CaseResult:
    """The measurements of a case with one number of threads.

    Attributes:
        case: the case.
        threads: the number of threads.
        latencies: median and quartiles of the latency in seconds, by the contender's name. It is
            empty if a contender fails while it is timed.
        compared: typical latency in seconds by the contender's name, for comparisons between
            contenders: changes of the machine's speed during the measurement cancel, see
            ``paired_medians``.
        worst: the largest error of this compiler's outputs against those of ONNX Runtime, divided
            by the tolerance; 0 if one of the two cannot run the case.
        missing: the error messages of contenders that failed.
    """

    case: Case
    threads: int
    latencies: dict[str, Latency] = field(default_factory=dict[str, Latency])
    compared: dict[str, float] = field(default_factory=dict[str, float])
    worst: float = 0.0
    missing: list[str] = field(default_factory=list[str])

    @property
    def ratio(self) -> float | None:
        """The lowest latency of the other contenders, divided by this compiler's latency.

        Above 1, this compiler has the lowest latency. The latencies are those in ``compared``. The
        ratio is None if this compiler has no latency, or no other contender has one.
        """
        others = [seconds for name, seconds in self.compared.items() if name != OURS]
        ours = self.compared.get(OURS)
        return min(others) / ours if ours is not None and others else None


def openers() -> dict[str, Open]:
    """Return, for each contender by name, the function that opens a model in this contender.

    The first contender is ONNX Runtime, the last is this compiler.
    """
    return {**open_rivals(), OURS: partial(Ours, policy="wavefront")}


class ReopenableContender:
    """A contender that can open another model in the same process; it runs the latest model."""

    def __init__(self, model: Path, threads: int, opener: Open) -> None:
        """Open the first model.

        Args:
            model: path of an ONNX file.
            threads: number of threads.
            opener: opens a model, given the path and the number of threads.
        """
        self._threads, self._opener = threads, opener
        self.open(model)

    def open(self, model: Path) -> None:
        """Open the ONNX file ``model``; it replaces the open model."""
        self._contender = self._opener(model, self._threads)

    def run(self, feeds: Feeds) -> dict[str, Array]:
        """Run the open model with the inputs ``feeds``; return its outputs by name."""
        return self._contender.run(feeds)


def _opened(contender: Contender, _: Feeds, model: Path, feeds: Feeds) -> dict[str, Array]:
    assert isinstance(contender, ReopenableContender), "contenders of a sweep open several models"
    contender.open(model)
    return contender.run(feeds)


def _turn(contender: Contender, _: Feeds, feeds: Feeds) -> list[float]:
    return turn(contender, feeds, TURN_SECONDS)


class _Contenders:
    """The processes of all contenders for one number of threads."""

    def __init__(self, opens: Mapping[str, Open], threads: int, timeout: float) -> None:
        self._opens, self._threads, self._timeout = opens, threads, timeout
        self._lanes: dict[str, Lane] = {}

    def open(self, name: str, model: Path, feeds: Feeds) -> dict[str, Array]:
        """Open a case in the process of contender ``name``, run it once, and return the outputs.

        The process is started if it does not run yet.

        Args:
            name: name of the contender.
            model: ONNX file of the case.
            feeds: inputs by name.

        Returns:
            The outputs by name.

        Raises:
            TargetError: if the contender cannot open or run the case. Its process is then ended.
        """
        try:
            if name in self._lanes:
                call = partial(_opened, model=model, feeds=feeds)
                return self._lanes[name].call(call, self._timeout)
            opener = partial(ReopenableContender, opener=self._opens[name])
            lane = self._lanes[name] = Lane(name, opener, model, self._threads, feeds)
            lane.open(self._timeout)
            return lane.call(outputs, self._timeout)
        except TargetError:
            self._lanes.pop(name).close()
            raise

    def turn(self, name: str, feeds: Feeds) -> Callable[[], list[float]]:
        """Return a function that runs the open case several times in contender ``name``.

        Each call of the function makes these runs, and returns the seconds of each run. ``feeds``
        are the inputs by name.
        """
        return partial(self._lanes[name].call, partial(_turn, feeds=feeds))

    def close(self) -> None:
        """End the processes of all contenders."""
        while self._lanes:
            self._lanes.popitem()[1].close()


def measure_sweep(
    request: SweepRequest,
    report: Callable[[CaseResult], None],
    opens: Mapping[str, Open] | None = None,
) -> None:
    """Measure all cases; call ``report`` with each result as soon as it is measured.

    ``opens`` maps each contender to the function that opens a model; by default ``openers()``.
    """
    opens = opens or openers()
    with tempfile.TemporaryDirectory(prefix="rammer-sweep-") as folder, ExitStack() as stack:
        groups = {n: _Contenders(opens, n, request.timeout) for n in request.threads}
        for group in groups.values():
            stack.callback(group.close)
        for number in range(request.cases):
            case, model = draw(request.first + number)
            path = Path(folder) / f"{case.seed}.onnx"
            path.write_bytes(model.SerializeToString())
            feeds = random_feeds(model, seed=case.seed)
            for threads, group in groups.items():
                report(_measure(case, threads, path, feeds, group, tuple(opens), request.budget))
                if number % RENEWED == RENEWED - 1:
                    group.close()
            path.unlink()


def _measure(
    case: Case, threads: int, model: Path, feeds: Feeds, group: _Contenders,
    names: Sequence[str], budget: float,
) -> CaseResult:  # fmt: skip
    missing: list[str] = []
    found: dict[str, Mapping[str, Array]] = {}
    for name in names:
        try:
            found[name] = group.open(name, model, feeds)
        except RammerError as error:
            missing.append(str(error))
    worst = 0.0
    if OURS in found and REFERENCE in found:
        worst = worst_error(found[REFERENCE], found[OURS])
    try:
        rounds = take_rounds({name: group.turn(name, feeds) for name in found}, budget)
    except TargetError as error:
        group.close()
        return CaseResult(case, threads, worst=worst, missing=[*missing, str(error)])
    latencies = {name: Latency.of(runs) for name, runs in joined_rounds(rounds).items()}
    return CaseResult(case, threads, latencies, paired_medians(rounds), worst, missing)


def ratios(results: Iterable[CaseResult]) -> list[float]:
    """Return the latency ratios of the cases in ascending order.

    Above 1, this compiler has the lowest latency; see ``CaseResult.ratio``. Cases without a ratio
    are left out.
    """
    return sorted(ratio for result in results if (ratio := result.ratio) is not None)
