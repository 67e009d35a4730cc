"""Write the report of the benchmark: measurements as tables and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rammer_mlir.benchmarks.bench import Result
from rammer_mlir.benchmarks.busy import BusyResult, busy_text
from rammer_mlir.benchmarks.calls import CALLS, CallTime, call_table
from rammer_mlir.benchmarks.contenders.ours import CompileCost
from rammer_mlir.benchmarks.decoding import decode
from rammer_mlir.benchmarks.fusion import boundaries
from rammer_mlir.benchmarks.fusion import tables as fusion
from rammer_mlir.benchmarks.fusion.boundaries import BoundaryResult
from rammer_mlir.benchmarks.fusion.figure_21 import Figure21
from rammer_mlir.benchmarks.fusion.measure import FusionResult
from rammer_mlir.benchmarks.latencies import (
    latency_table,
    missing_lines,
    ratio_table,
    summary_table,
)
from rammer_mlir.benchmarks.launch import LaunchTime
from rammer_mlir.benchmarks.limits import limit_table, limits
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.node_cases import Result as NodeResult
from rammer_mlir.benchmarks.node_tests import summary
from rammer_mlir.benchmarks.offload import verdict as offload
from rammer_mlir.benchmarks.offload.measure import OffloadResult
from rammer_mlir.benchmarks.prediction import Prediction, prediction_table
from rammer_mlir.benchmarks.quantized import QuantizedResult, quantized_text
from rammer_mlir.benchmarks.roofline import Roofline, roofline_table
from rammer_mlir.benchmarks.server import ServerResult, server_text
from rammer_mlir.benchmarks.sweep import tables as sweep
from rammer_mlir.benchmarks.sweep.measure import CaseResult

MB = 1e6

JSON, TEXT = "bench.json", "bench.md"

LIMITS = (
    "Limits: the model's arithmetic at the processor's best rate, its memory traffic at the "
    "bandwidth of a working set as large as its weights, inputs, outputs and arena, and an empty "
    "launch; reached: the highest of these "
    "bounds over the measured time of the first policy; waiting: share of the vEUs' time that they "
    "spend at barriers"
)


@dataclass
class Report:
    """All measurements of the benchmark so far, with a field for each part of the benchmark.

    The fields of parts that were not requested are empty. ``machine`` has properties of the machine
    by name.
    """

    models: list[Result] = field(default_factory=list[Result])
    rooflines: list[Roofline] = field(default_factory=list[Roofline])
    launches: list[LaunchTime] = field(default_factory=list[LaunchTime])
    nodes: list[NodeResult] = field(default_factory=list[NodeResult])
    predictions: list[Prediction] = field(default_factory=list[Prediction])
    unpredicted: list[str] = field(default_factory=list[str])
    offloads: list[OffloadResult] = field(default_factory=list[OffloadResult])
    calls: list[CallTime] = field(default_factory=list[CallTime])
    fusions: list[FusionResult] = field(default_factory=list[FusionResult])
    boundaries: list[BoundaryResult] = field(default_factory=list[BoundaryResult])
    busy: list[BusyResult] = field(default_factory=list[BusyResult])
    servers: list[ServerResult] = field(default_factory=list[ServerResult])
    quantized: list[QuantizedResult] = field(default_factory=list[QuantizedResult])
    sweep: list[CaseResult] = field(default_factory=list[CaseResult])
    figures_21: list[Figure21] = field(default_factory=list[Figure21])
    machine: dict[str, str | int | None] = field(default_factory=machine)


def compile_table(results: Iterable[Result]) -> str:
    """Return a Markdown table with the cost of compiling each model.

    A row has the seconds of each compile stage, and sizes in MB: of the compiling process, and of
    the program's arena and intermediates.
    """
    measured = [(result, result.compile) for result in results if result.compile is not None]
    stages = list(dict.fromkeys(stage for _, cost in measured for stage in cost.stages))
    sizes = ["peak MB", "before MB", "arena MB", "live MB", "tensors MB"]
    heading = ["model", "compile s", *stages, *sizes]
    return table([heading, *(_compile_row(result, cost, stages) for result, cost in measured)])


def _compile_row(result: Result, cost: CompileCost, stages: Sequence[str]) -> list[str]:
    sizes = (cost.peak_bytes, cost.base_bytes, cost.arena_bytes, cost.live_bytes,
             cost.intermediate_bytes)  # fmt: skip
    return [
        result.request.model,
        f"{cost.seconds:.2f}",
        *(f"{cost.stages[stage]:.2f}" if stage in cost.stages else "-" for stage in stages),
        *(f"{size / MB:.2f}" for size in sizes),
    ]


def machine_line(report: Report) -> str:
    """Return a line with the properties of the report's machine, such as versions of packages."""
    return ", ".join(f"{key} {value}" for key, value in report.machine.items() if value is not None)


def text(report: Report) -> str:
    """Return the report as Markdown: all tables, and lists of failed measurements."""
    parts = [machine_line(report), *_models(report.models)]
    if report.rooflines:
        parts += ["The processor at its best", roofline_table(report.rooflines)]
    if report.rooflines and any(result.works for result in report.models):
        parts += [
            LIMITS,
            limit_table(limits(report.models, report.rooflines)),
        ]
    if report.predictions:
        parts += [
            "Predicted against measured time of programs",
            prediction_table(report.predictions),
        ]
    if report.unpredicted:
        parts += ["Not predicted", "\n".join(report.unpredicted)]
    if report.offloads:
        parts += [offload.summary(report.offloads), offload.verdict_table(report.offloads)]
        if missing := offload.failures(report.offloads):
            parts += ["Not measured", "\n".join(missing)]
    if report.fusions:
        parts.append(fusion.text(report.fusions, report.figures_21))
    if report.boundaries:
        parts.append(boundaries.text(report.boundaries))
    return "\n\n".join([*parts, *_surroundings(report), *_small_parts(report)]) + "\n"


def _surroundings(report: Report) -> list[str]:
    """Return the report's paragraphs about the parts `busy`, `server`, `quantized` and `sweep`.

    These parts measure models beside busy processes, models with many clients, networks of 8-bit
    integers, and random operators.
    """
    parts: list[str] = []
    if report.busy:
        parts += busy_text(report.busy)
    if report.servers:
        parts += server_text(report.servers)
    if report.quantized:
        parts += quantized_text(report.quantized)
    if report.sweep:
        parts += sweep.text(report.sweep, report.rooflines)
    return parts


def _small_parts(report: Report) -> list[str]:
    """Return the paragraphs about launches, calls of foreign code, and ONNX's node tests."""
    parts: list[str] = []
    if report.launches:
        parts += ["Launch of an empty program, medians", launch_table(report.launches)]
    if report.calls:
        parts += [CALLS, call_table(report.calls)]
    if report.nodes:
        parts += ["ONNX's node tests through the whole compiler", summary(report.nodes)]
    return parts


def _models(results: Sequence[Result]) -> list[str]:
    if not results:
        return []
    parts = [
        "Ratios: a contender's median latency over ours; above 1, we are faster",
        summary_table(results),
        ratio_table(results),
        "Latency: median [quartiles]; error: our worst, as a share of the tolerance",
        latency_table(results),
    ]
    if missing := missing_lines(results):
        parts += ["Without a latency", "\n".join(f"- {line}" for line in missing)]
    parts += ["Compilation, by the first policy with the most vEUs", compile_table(results)]
    if failed := [f"- {r.request.model}: {r.error}" for r in results if r.error]:
        parts += ["Failed", "\n".join(failed)]
    return parts


def launch_table(launches: Iterable[LaunchTime]) -> str:
    """Return a Markdown table of launch times in microseconds with a row for each number of vEUs.

    A row has the time of a launch alone, and the time of ``Executable.run``, which includes a
    launch.
    """
    rows = [[str(one.num_veus), f"{one.native:.2f}", f"{one.run:.2f}"] for one in launches]
    return table([["vEUs", "native launch us", "Executable.run us"], *rows])


def write(report: Report, folder: Path) -> list[Path]:
    """Write ``bench.json`` and ``bench.md`` into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / JSON, folder / TEXT]
    paths[0].write_text(encode(report))
    paths[1].write_text(text(report))
    return paths


def encode(report: Report) -> str:
    """Return a report as JSON, with a line for each measurement."""
    parts: list[str] = []
    for key, value in dataclasses.asdict(report).items():
        lines = [json.dumps(one) for one in value] if isinstance(value, list) else None
        body = json.dumps(value) if lines is None else "[\n" + ",\n".join(lines) + "\n]"
        parts.append(f"{json.dumps(key)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read(path: Path) -> Report:
    """Return the report that ``write`` stored in the JSON file ``path``."""
    return decode(Report, json.loads(path.read_text()))
