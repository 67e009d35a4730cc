"""Write measurements as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rammer_mlir.benchmarks.bench import REFERENCE, CompileCost, Result
from rammer_mlir.benchmarks.launch import LaunchTime
from rammer_mlir.benchmarks.machine import machine, table
from rammer_mlir.benchmarks.node_cases import Result as NodeResult
from rammer_mlir.benchmarks.node_tests import summary
from rammer_mlir.benchmarks.prediction import Prediction, prediction_table

MB = 1e6


@dataclass
class Report:
    """Everything that was measured so far; empty where a part was not asked for."""

    models: list[Result] = field(default_factory=list[Result])
    launches: list[LaunchTime] = field(default_factory=list[LaunchTime])
    nodes: list[NodeResult] = field(default_factory=list[NodeResult])
    predictions: list[Prediction] = field(default_factory=list[Prediction])
    unpredicted: list[str] = field(default_factory=list[str])


def latency_table(results: Iterable[Result]) -> str:
    """One row per model and number of threads: medians in ms, and ONNX Runtime's time over ours.

    The quartiles stand beside the median; a ratio above 1 means that we are faster.
    """
    rows: list[list[str]] = []
    policies: tuple[str, ...] = ()
    for result in results:
        policies = result.request.policies
        for threads in result.request.threads:
            rows.append(_latency_row(result, threads))
    columns = [column for policy in policies for column in (f"{policy} ms", "ratio", "error")]
    return table([["model", "threads", f"{REFERENCE} ms", *columns], *rows])


def _latency_row(result: Result, threads: int) -> list[str]:
    name, reference = result.request.model, result.latency(REFERENCE, threads)
    if reference is None:
        return [name, str(threads), "-"] + ["-"] * 3 * len(result.request.policies)
    row = [name, str(threads), str(reference)]
    for timing in result.timings:
        if timing.threads == threads and timing.name != REFERENCE:
            ratio = f"{reference.median / timing.latency.median:.2f}"
            row += [str(timing.latency), ratio, f"{timing.worst:.2g}"]
    return row


def compile_table(results: Iterable[Result]) -> str:
    """One row per model, of its first compilation: seconds by stage, memory, arena."""
    measured = [(result, result.compiles[0]) for result in results if result.compiles]
    stages = list(dict.fromkeys(stage for _, cost in measured for stage in cost.stages))
    heading = ["model", "compile s", *stages, "peak MB", "before MB", "arena MB", "tensors MB"]
    return table([heading, *(_compile_row(result, cost, stages) for result, cost in measured)])


def _compile_row(result: Result, cost: CompileCost, stages: Sequence[str]) -> list[str]:
    sizes = (cost.peak_bytes, result.base_bytes, cost.arena_bytes, cost.intermediate_bytes)
    return [
        result.request.model,
        f"{cost.seconds:.2f}",
        *(f"{cost.stages[stage]:.2f}" if stage in cost.stages else "-" for stage in stages),
        *(f"{size / MB:.2f}" for size in sizes),
    ]


def text(report: Report) -> str:
    """All tables, and what failed."""
    parts = [", ".join(f"{key} {value}" for key, value in machine().items())]
    if report.models:
        parts += [
            "Latency: median [quartiles]; ratio: ONNX Runtime's median over ours; error: share of "
            "the tolerance",
            latency_table(report.models),
            "Compilation, by the first policy with the most vEUs",
            compile_table(report.models),
        ]
    failed = [f"{result.request.model}: {result.error}" for result in report.models if result.error]
    if failed:
        parts += ["Failed", "\n".join(failed)]
    if report.predictions:
        parts += [
            "Predicted against measured time of programs",
            prediction_table(report.predictions),
        ]
    if report.unpredicted:
        parts += ["Not predicted", "\n".join(report.unpredicted)]
    if report.launches:
        parts += ["Launch of an empty program, medians", launch_table(report.launches)]
    if report.nodes:
        parts += ["ONNX's node tests through the whole compiler", summary(report.nodes)]
    return "\n\n".join(parts) + "\n"


def launch_table(launches: Iterable[LaunchTime]) -> str:
    """One row for each number of vEUs."""
    rows = [[str(one.num_veus), f"{one.native:.2f}", f"{one.run:.2f}"] for one in launches]
    return table([["vEUs", "native launch us", "Executable.run us"], *rows])


def write(report: Report, folder: Path) -> list[Path]:
    """Write ``bench.json`` and ``bench.md`` into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **dataclasses.asdict(report)}
    paths = [folder / "bench.json", folder / "bench.md"]
    paths[0].write_text(json.dumps(content, indent=1) + "\n")
    paths[1].write_text(text(report))
    return paths
