"""Measure a model with no region offloaded, all regions offloaded, and regions chosen by cost.

A region is a group of operations that a foreign code generator can compile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rammer_mlir.benchmarks.bench import Request, worst_error, write_model
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contender_process import Feeds, Lane, outputs, turn
from rammer_mlir.benchmarks.contenders.offloaded import Offloaded, RunSeconds, StartupSeconds
from rammer_mlir.benchmarks.contenders.protocol import Contender, Open
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import Scale
from rammer_mlir.benchmarks.offload.agreement import agreement
from rammer_mlir.benchmarks.offload.partition import Job, Partition, partition
from rammer_mlir.benchmarks.timing import Latency
from rammer_mlir.errors import TargetError
from rammer_mlir.support.interleaved_timing import joined_rounds, paired_medians, take_rounds

HOST = "host"
ALWAYS, COST = "always", "cost"
"""Values of the option ``offload_choice``.

With ``always``, the code generator compiles all regions that it supports, with ``cost``, those in
which it is predicted to be faster.
"""


@dataclass(frozen=True)
class OffloadRequest:
    """A model to measure, and the settings of its measurement.

    Attributes:
        model: name of a benchmark model.
        codegens: names of code generators, which are measured one after the other.
        plugins: modules or files that register code generators.
        scale: "full", or "small" for a model of reduced sizes.
        batch: batch size.
        threads: number of threads of every contender, and number of vEUs of our programs.
        budget: seconds of timing for each code generator.
        patience: time limit in seconds to open each contender, and to count regions.
        module_options: values of code generators' own options, keyed by ``NAME.OPTION``.
    """

    model: str
    codegens: tuple[str, ...]
    plugins: tuple[str, ...] = ()
    scale: Scale = "full"
    batch: int = 1
    threads: int = 2
    budget: float = 3.0
    patience: float = 1200.0
    module_options: Mapping[str, str] = field(default_factory=dict[str, str])

    def options_of(self, codegen: str) -> dict[str, str]:
        """Return the items of ``module_options`` whose key ``NAME.OPTION`` names ``codegen``."""
        return {
            name: value
            for name, value in self.module_options.items()
            if name.startswith(f"{codegen}.")
        }

    def title(self, codegen: str) -> str:
        """Return the name and options of ``codegen``, such as "openvino precision=bf16"."""
        options = self.options_of(codegen).items()
        return " ".join([codegen, *(f"{n.partition('.')[2]}={value}" for n, value in options)])


@dataclass(frozen=True)
class Measured:
    """Measurements of a contender: of a model in ONNX Runtime or in our compiler.

    The reference is the outputs of ONNX Runtime.

    Attributes:
        name: ``onnxruntime`` for ONNX Runtime; ``host`` for our compiler without a code generator;
            with a code generator, ``always`` if all regions are offloaded, ``cost`` if regions are
            chosen by predicted cost.
        latency: latency, timed in rounds; in a round, each contender of the same code generator
            runs in turn.
        paired_seconds: seconds of a run as ``paired_medians`` returns them, from comparisons within
            each round; only comparable between contenders of the same code generator.
        worst: largest error against the reference, divided by the tolerance.
        scaled_error: largest error against the reference, divided by the output's largest element.
        agreement: fraction of the reference's detections that were found; None if the model is not
            a detector.
        beginning: seconds of compiling, and of the first run; None for ONNX Runtime.
        spent: seconds of a run by kind of work; None for ONNX Runtime.
        kept: number of regions that the choice by cost offloads; None for contenders that make no
            such choice, and if a part of the model has open dimensions.
        digest: digest of the program; None for ONNX Runtime, and for a model that is not a single
            program of fixed sizes.
    """

    name: str
    latency: Latency
    paired_seconds: float
    worst: float
    scaled_error: float
    agreement: float | None = None
    beginning: StartupSeconds | None = None
    spent: RunSeconds | None = None
    kept: int | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The results of a code generator for a model.

    Attributes:
        codegen: name of the code generator.
        partition: the share of the model that the code generator compiles; None if counting failed.
        runs: measurements of the model with and without the code generator.
        reasons: a line for each missing result, with the reason.
    """

    codegen: str
    partition: Partition | None = None
    runs: list[Measured] = field(default_factory=list[Measured])
    reasons: list[str] = field(default_factory=list[str])

    def run(self, name: str) -> Measured | None:
        """Return the measurements of the contender ``name``, such as "always"; None without any."""
        return next((run for run in self.runs if run.name == name), None)

    def seconds(self, name: str) -> float | None:
        """Return ``paired_seconds`` of the contender ``name``, or None if it was not measured.

        These seconds are only comparable with those of the other contenders in this object.
        """
        run = self.run(name)
        return None if run is None else run.paired_seconds


@dataclass(frozen=True)
class OffloadResult:
    """All measurements of a model.

    Attributes:
        request: the model, and the settings of the measurement.
        outcomes: the results, one for each code generator.
        error: why there are no outcomes; None if the measurement succeeded.
    """

    request: OffloadRequest
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    error: str | None = None


def measure_offload(request: OffloadRequest) -> OffloadResult:
    """Measure a model with each code generator; return all measurements.

    A failure raises no error. Its message is returned in place of the missing measurements.
    """
    with tempfile.TemporaryDirectory(prefix="rammer-offload-") as folder, ExitStack() as stack:
        path = Path(folder) / "model.onnx"
        model = Request(request.model, request.scale, request.batch)
        written = in_child(write_model, (model, path), request.patience)
        if isinstance(written, Failure):
            return OffloadResult(request, error=written.message)
        feeds, _ = written
        measuring = _Measuring(request, path, feeds)
        try:
            common = {
                REFERENCE: measuring.open(
                    stack, partial(open_contender, name=REFERENCE), REFERENCE
                ),
                HOST: measuring.open(stack, Offloaded, HOST),
            }
            return OffloadResult(request, [measuring.outcome(c, common) for c in request.codegens])
        except TargetError as error:
            return OffloadResult(request, error=str(error))


@dataclass(frozen=True)
class _Measuring:
    request: OffloadRequest
    path: Path
    feeds: Feeds

    def open(self, stack: ExitStack, opens: Open, name: str) -> Lane:
        """Start a process that opens the model by calling ``opens``, and return the process.

        The process ends when ``stack`` closes. Messages call the process ``name``.

        Raises:
            TargetError: if the model cannot be opened.
        """
        lane = stack.enter_context(Lane(name, opens, self.path, self.request.threads, self.feeds))
        lane.open(self.request.patience)
        return lane

    def outcome(self, codegen: str, common: Mapping[str, Lane]) -> Outcome:
        """Measure the model with the code generator ``codegen``, and return the results.

        ``common`` maps names to the processes of contenders that use no code generator. These
        contenders are timed again for each code generator, in turns with the contenders that use
        the code generator, so that latencies measured at about the same time are compared.
        """
        request = self.request
        options = request.options_of(codegen)
        job = Job(self.path, codegen, request.plugins, request.threads, options)
        counted = in_child(partition, job, request.patience)
        reasons = [f"regions: {counted.message}"] if isinstance(counted, Failure) else []
        found = None if isinstance(counted, Failure) else counted
        with ExitStack() as stack:
            lanes = {**common, **self._open_choices(stack, codegen, reasons)}
            runs: list[Measured] = []
            try:
                runs += self._time(lanes, reasons)
            except TargetError as error:
                reasons.append(str(error))
            return Outcome(codegen, found, runs, reasons)

    def _open_choices(self, stack: ExitStack, codegen: str, reasons: list[str]) -> dict[str, Lane]:
        lanes: dict[str, Lane] = {}
        for choice in (ALWAYS, COST):
            opens = partial(
                Offloaded, codegens=codegen, choice=choice, plugins=self.request.plugins,
                module_options=self.request.options_of(codegen),
            )  # fmt: skip
            try:
                lanes[choice] = self.open(stack, opens, choice)
            except TargetError as error:
                reasons.append(str(error))
        return lanes

    def _time(self, lanes: Mapping[str, Lane], reasons: list[str]) -> list[Measured]:
        expected = lanes[REFERENCE].call(outputs)
        results: dict[str, dict[str, Array]] = {}
        for name, lane in lanes.items():
            try:
                results[name] = lane.call(outputs)
            except TargetError as error:
                reasons.append(str(error))
        turns = {name: partial(lanes[name].call, turn) for name in results}
        rounds = take_rounds(turns, self.request.budget)
        runs, paired = joined_rounds(rounds), paired_medians(rounds)
        return [
            Measured(
                name, Latency.of(runs[name]), paired[name],
                worst_error(expected, found),
                worst_error(expected, found, relative=0.0, absolute=1.0),
                agreement(expected, found),
                lanes[name].call(_beginning), lanes[name].call(_spent), lanes[name].call(_kept),
                lanes[name].call(_digest),
            )
            for name, found in results.items()
        ]  # fmt: skip


def _beginning(contender: Contender, _: Feeds) -> StartupSeconds | None:
    return contender.beginning() if isinstance(contender, Offloaded) else None


def _kept(contender: Contender, _: Feeds) -> int | None:
    return contender.kept_regions() if isinstance(contender, Offloaded) else None


def _digest(contender: Contender, _: Feeds) -> str | None:
    return contender.digest() if isinstance(contender, Offloaded) else None


def _spent(contender: Contender, feeds: Feeds) -> RunSeconds | None:
    return contender.spent(feeds) if isinstance(contender, Offloaded) else None
