"""Run a model with this compiler, with some regions compiled by foreign code generators."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import rammer_mlir
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.hosted_models.interpreter import Interpreter
from rammer_mlir.hosted_models.model import HostedModel
from rammer_mlir.hosted_models.parts import Part, Value
from rammer_mlir.runtime.compiled import RunnableModel
from rammer_mlir.runtime.executable import Executable
from rammer_mlir.support.plugins import load_plugins
from rammer_mlir.timeline.spans import Span, Timeline

RECORDS = 5
"""Number of recorded runs; the fastest is evaluated."""

_CHOICE_SECONDS = 60.0
"""Time limit of the search by simulation, and of compiling the programs that are timed."""

_COPIES = ("copy", "border", "constant", "insert_slice", "pad", "concat")
"""Prefixes of the names of rKernels that only move data."""


@dataclass(frozen=True)
class RunSeconds:
    """Seconds of the fastest of ``RECORDS`` recorded runs, by kind of work.

    A kind's time is averaged over the vEUs. ``total`` is the sum of ``foreign``, ``own``,
    ``copies``, ``invocation`` and ``host``.

    Attributes:
        total: time of the run.
        foreign: time of rTasks that foreign code computes.
        own: time of rTasks of this compiler's rKernels, without ``copies``.
        copies: time of rTasks of this compiler's rKernels that only move data.
        invocation: time of a program's run outside of rTasks: launches, waits, and idle vEUs.
        host: time outside of compiled programs.
        rtasks: number of rTasks that foreign code computes.
    """

    total: float
    foreign: float
    own: float
    copies: float
    invocation: float
    host: float
    rtasks: int


@dataclass(frozen=True)
class StartupSeconds:
    """Seconds of compiling a model, and of its first run."""

    compiling: float
    first_run: float


class Offloaded:
    """A model compiled for the CPU, in which foreign code generators compute some regions.

    The model may be a host program of several parts.
    """

    def __init__(
        self,
        model: Path,
        threads: int,
        codegens: str = "",
        choice: str = "cost",
        plugins: Sequence[str] = (),
        module_options: Mapping[str, str] | None = None,
    ) -> None:
        """Compile an ONNX file with measured costs; do not use the cache of compiled programs.

        Args:
            model: the ONNX file.
            threads: number of vEUs.
            codegens: names of code generators, separated by commas; empty to use only rKernels of
                this compiler.
            choice: the compile option ``offload_choice``: ``always`` or ``cost``.
            plugins: modules or files that register code generators.
            module_options: values of options that the code generators declare, by name.
        """
        load_plugins(plugins)
        begin = time.perf_counter()
        self._model: RunnableModel = rammer_mlir.compile(
            model, num_veus=threads, cache=False, offload=codegens, offload_choice=choice,
            costs="measured", offload_seconds=_CHOICE_SECONDS,
            module_options=module_options or {},
        )  # fmt: skip
        self._compiling = time.perf_counter() - begin
        self._first_run: float | None = None

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model on ``feeds``, inputs by name; return the outputs by name."""
        begin = time.perf_counter()
        found = self._model.run(feeds)
        if self._first_run is None:
            self._first_run = time.perf_counter() - begin
        return found

    def beginning(self) -> StartupSeconds:
        """Return the seconds of compiling and of the first run; the model must have run."""
        return StartupSeconds(self._compiling, self._first_run or 0.0)

    def kept_regions(self) -> int | None:
        """Return the number of regions that predicted times assigned to foreign code generators.

        The result is None unless the compile option ``offload_choice`` was ``cost``. It is also
        None if a part of the model has open dimensions, because such a part is compiled for each
        binding of its dimensions.
        """
        parts = self._model.parts if isinstance(self._model, HostedModel) else (self._model,)
        found = [part.stats.get("offload") for part in parts]
        chosen = [each["kept"] for each in found if each is not None]
        return sum(chosen) if len(chosen) == len(found) else None

    def digest(self) -> str | None:
        """Return a hash of the compiled program and its code, in hexadecimal, to compare programs.

        The result is None if the model is not a single program of fixed sizes.
        """
        if not isinstance(self._model, Executable):
            return None
        image = self._model.image
        return hashlib.sha256(repr((image.program, image.modules)).encode()).hexdigest()

    def spent(self, feeds: Mapping[str, Array]) -> RunSeconds:
        """Record timelines of ``RECORDS`` runs; return the times of the fastest run."""
        runs = [self._record(feeds) for _ in range(RECORDS)]
        total, lines = min(runs, key=lambda run: run[0])
        return run_seconds(total, lines)

    def _record(self, feeds: Mapping[str, Array]) -> tuple[float, list[Timeline]]:
        """Run the model on ``feeds``; return the seconds of the run, and its programs' timelines.

        For a host program, the seconds are those of another run without recording. There are no
        timelines if the model is neither an executable nor a host program.
        """
        if isinstance(self._model, Executable):
            line = self._model.record(feeds)
            return line.seconds, [line]
        lines: list[Timeline] = []
        # Timed without recording, because a recorded part runs twice.
        begin = time.perf_counter()
        self._model.run(feeds)
        seconds = time.perf_counter() - begin
        if isinstance(self._model, HostedModel):
            parts = [_RecordedPart(part, lines) for part in self._model.parts]
            Interpreter(self._model.program, parts).run(feeds)
        return seconds, lines


class _RecordedPart(Part):
    """A part of a host program that records a timeline of each of its runs.

    The timelines are appended to the list ``lines``. A part that is not an ``Executable`` is not
    recorded.
    """

    def __init__(self, model: RunnableModel, lines: list[Timeline]) -> None:
        super().__init__(model)
        self._lines = lines

    def call(self, values: Sequence[Value]) -> list[Value]:
        """Record a run of the part on the inputs ``values``; run again, and return the outputs.

        The second run is needed because a recorded run returns no outputs.
        """
        if isinstance(self.model, Executable):
            self._lines.append(self.model.record(dict(zip(self.names, values, strict=True))))
        # A recorded run returns no outputs, so the part runs again for them.
        return super().call(values)


def run_seconds(total: float, lines: Sequence[Timeline]) -> RunSeconds:
    """Return the times of a run by kind of work.

    Args:
        total: seconds of the whole run.
        lines: recorded timelines of the run's programs. If they are from a slower run, so that
            their total duration exceeds ``total``, this duration replaces ``total``.
    """
    inside = sum(line.seconds for line in lines)
    # The recorded runs may have been slower than the timed run.
    total = max(total, inside)
    shares = {"foreign": 0.0, "own": 0.0, "copies": 0.0}
    rtasks = 0
    for line in lines:
        for span in line.spans:
            if span.kind == "rtask":
                kind = _kind(span)
                shares[kind] += span.seconds / len(line.veus)
                rtasks += span.count if kind == "foreign" else 0
    rest = inside - sum(shares.values())
    return RunSeconds(total=total, **shares, invocation=rest, host=total - inside, rtasks=rtasks)


def _kind(span: Span) -> str:
    if span.module:
        return "foreign"
    return "copies" if span.kernel.startswith(_COPIES) else "own"
