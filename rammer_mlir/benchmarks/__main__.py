"""Benchmark the compiler: ``python -m rammer_mlir.benchmarks [MODEL ...] [--parts PART ...]``.

A part is a kind of measurement, such as ``models`` (latencies and compile times of models) or
``launch`` (the cost of launching an empty program).
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rammer_mlir.benchmarks import report, this_cpu
from rammer_mlir.benchmarks.bench import POLICIES, Request, measure
from rammer_mlir.benchmarks.busy import BUSY_MODELS, BusyRequest, measure_busy
from rammer_mlir.benchmarks.calls import measure_calls
from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.contenders.table import CONTENDERS, REFERENCE
from rammer_mlir.benchmarks.fusion import tables as fusion
from rammer_mlir.benchmarks.fusion.boundaries import BoundaryRequest, measure_boundaries
from rammer_mlir.benchmarks.fusion.figure_21 import MODEL as FIGURE_21
from rammer_mlir.benchmarks.fusion.figure_21 import Figure21Request, measure_figure_21
from rammer_mlir.benchmarks.fusion.measure import FusionRequest, measure_fusion
from rammer_mlir.benchmarks.fusion.settings import SETTINGS
from rammer_mlir.benchmarks.launch import measure_launch
from rammer_mlir.benchmarks.models import ALL_MODELS, MODELS
from rammer_mlir.benchmarks.models.training_models import TRAINING_MODELS
from rammer_mlir.benchmarks.node_tests import run_all
from rammer_mlir.benchmarks.offload.measure import OffloadRequest, measure_offload
from rammer_mlir.benchmarks.offload.options import (
    add_codegen_options,
    chosen_codegens,
    module_options,
    plugin_paths,
)
from rammer_mlir.benchmarks.prediction import PredictionRequest, predict_and_measure
from rammer_mlir.benchmarks.quantized import (
    QUANTIZED_MODELS,
    QuantizedRequest,
    measure_quantized,
)
from rammer_mlir.benchmarks.roofline import measure_roofline
from rammer_mlir.benchmarks.server import SERVER_MODELS, ServerRequest, measure_server
from rammer_mlir.benchmarks.sweep.measure import CaseResult, SweepRequest, measure_sweep
from rammer_mlir.errors import OptionError

PARTS = (
    "models", "launch", "nodes", "prediction", "offload", "calls", "fusion", "boundaries", "busy",
    "server", "sweep", "quantized",
)  # fmt: skip
DEFAULT_PARTS = ("models", "launch")
"""The parts that are measured if the command names neither parts nor models.

All parts are in ``PARTS``: latency and compile time of models, the cost of an empty launch, the
share of ONNX's node tests that pass, predicted against measured time, code generators beside the
compiler's own rKernels, the cost of calling foreign code, fusion of training steps, fusion
boundaries of models of inference, latency beside busy processes, throughput with many clients,
random operators of random sizes, and networks of 8-bit integers.
"""

FUSION_PAGE = Path(__file__).with_name("results") / "fusion.md"
"""File of the fusion results, written only if all fusion models were measured at full scale."""

LAUNCH_VEUS = (1, 2, 3, 8)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks",
        description="Compile time, memory and latency beside other compilers, model by model.",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names or patterns; default all")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        help=f"default: {' and '.join(DEFAULT_PARTS)}, or only the models that are named",
    )
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument(
        "--contenders", nargs="*", choices=CONTENDERS, default=list(CONTENDERS),
        help=f"whom to measure beside {REFERENCE}, which is always there; default all",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=3.0, help="timing per number of threads")
    parser.add_argument(
        "--patience", type=float, default=90.0, help="seconds for a contender to open a model"
    )
    parser.add_argument(
        "--device", type=Path, metavar="FILE",
        help="description of this machine for predictions, by `this_cpu`; measured if left out",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for each model")
    parser.add_argument("--cases", type=int, default=1000, help="random cases of the sweep")
    parser.add_argument("--first", type=int, default=0, help="seed of the sweep's first case")
    add_codegen_options(parser)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="results folder")
    return parser


def select(patterns: Sequence[str], models: Iterable[str] = MODELS) -> list[str]:
    """Return the names of the benchmark models that ``patterns`` select.

    Args:
        patterns: names or shell patterns such as ``resnet*``; if empty, all models are selected.
        models: names of all models.

    Raises:
        OptionError: if a pattern matches no model.
    """
    if not patterns:
        return list(models)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = fnmatch.filter(models, pattern)
        if not found:
            raise OptionError(
                f"model: expected one of {', '.join(models)}; found '{pattern}'; see --list"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def measure_all(options: argparse.Namespace) -> report.Report:
    """Measure the requested parts of the benchmark; write the report to files, and return it.

    Progress is printed on standard error.
    """
    found = report.Report()
    parts = options.parts or (("models",) if options.models else DEFAULT_PARTS)
    if "launch" in parts:
        found.launches.extend(measure_launch(num_veus) for num_veus in LAUNCH_VEUS)
    for part, measure_part in _MEASURES.items():
        if part in parts:
            measure_part(options, found)
    if "calls" in parts:
        found.calls.extend(measure_calls())
    if "nodes" in parts:
        found.nodes.extend(run_all())
    report.write(found, options.output)
    return found


def _measure_models(options: argparse.Namespace, found: report.Report) -> None:
    names = select(options.models)
    _measure_rooflines(options, found)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name} ...", end=" ", file=sys.stderr, flush=True)
        start = time.perf_counter()
        request = Request(
            name,
            options.scale,
            options.batch,
            tuple(options.threads),
            tuple(options.policies),
            tuple(options.contenders),
            options.seconds,
            options.patience,
            options.timeout,
        )
        found.models.append(measure(request))
        outcome = found.models[-1].error or "done"
        print(f"{outcome} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
        report.write(found, options.output)  # each time, so that an interruption loses nothing


def _predict_models(options: argparse.Namespace, found: report.Report) -> None:
    options.output.mkdir(parents=True, exist_ok=True)
    device = options.device or options.output / "this_cpu.toml"
    if options.device is None:
        device.write_text(this_cpu.description(this_cpu.measure()), encoding="utf-8")
    names = select(options.models)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] predict {name} ...", file=sys.stderr, flush=True)
        request = PredictionRequest(
            name, str(device), tuple(options.threads), options.policies[0], options.scale,
            options.seconds,
        )  # fmt: skip
        outcome = in_child(predict_and_measure, request, options.timeout)
        if isinstance(outcome, Failure):
            found.unpredicted.append(f"{name}: {outcome.message}")
        else:
            found.predictions.extend(outcome)
        report.write(found, options.output)


def _measure_offload(options: argparse.Namespace, found: report.Report) -> None:
    codegens, names = chosen_codegens(options), select(options.models, ALL_MODELS)
    plugins, given = plugin_paths(options), module_options(options, codegens)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] offload {name} ...", file=sys.stderr, flush=True)
        for threads in options.threads:
            request = OffloadRequest(
                name, codegens, plugins, options.scale, options.batch, threads, options.seconds,
                options.timeout, given,
            )  # fmt: skip
            found.offloads.append(measure_offload(request))
        report.write(found, options.output)


def _figures_21(options: argparse.Namespace) -> list[Figure21Request]:
    """Return the measurement requests for figure 21 of the RAMMER paper, one per model size.

    At the scale "small", only the model's small size is requested. At the scale "full", two sizes
    are requested: the reduced size is predicted and measured; the published size needs too much
    memory for a measurement, and is only predicted. ``options`` are those of the command.
    """
    threads, seconds = max(options.threads), options.seconds
    if options.scale == "small":
        return [Figure21Request("small", threads, seconds, options.timeout)]
    return [
        Figure21Request("reduced", threads, seconds, options.timeout),
        Figure21Request("full", threads, 0.0, options.timeout),
    ]


def _measure_fusion(options: argparse.Namespace, found: report.Report) -> None:
    names = select(options.models, TRAINING_MODELS)
    # The published sizes need gigabytes; the scale says how far they are reduced.
    size = "small" if options.scale == "small" else "reduced"
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] fusion {name} ...", file=sys.stderr, flush=True)
        request = FusionRequest(name, size, tuple(SETTINGS), 4 * options.seconds, options.timeout)
        found.fusions.append(measure_fusion(request))
        report.write(found, options.output)
    if FIGURE_21 in names:
        print("figure 21 ...", file=sys.stderr, flush=True)
        found.figures_21.extend(map(measure_figure_21, _figures_21(options)))
    if options.scale == "full" and not options.models:
        tables = fusion.text(found.fusions, found.figures_21)
        FUSION_PAGE.write_text(f"{report.machine_line(found)}\n\n{tables}\n", encoding="utf-8")


def _each(options: argparse.Namespace, part: str, default: Sequence[str] = ()) -> Iterator[str]:
    """Yield the names of the models to measure for the benchmark's ``part``; print each name first.

    If the command names models, yield these models; otherwise yield ``default``, or all models if
    ``default`` is empty.
    """
    names = list(default) if default and not options.models else select(options.models)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {part} {name} ...", file=sys.stderr, flush=True)
        yield name


def _measure_boundaries(options: argparse.Namespace, found: report.Report) -> None:
    for name in _each(options, "boundaries"):
        request = BoundaryRequest(name, options.scale, 2 * options.seconds, options.timeout)
        found.boundaries.append(measure_boundaries(request))
        report.write(found, options.output)


def _measure_busy(options: argparse.Namespace, found: report.Report) -> None:
    for name in _each(options, "busy", BUSY_MODELS):
        request = BusyRequest(
            name, options.scale, max(options.threads), budget=4 * options.seconds,
            patience=options.patience, timeout=options.timeout,
        )  # fmt: skip
        found.busy.append(measure_busy(request))
        report.write(found, options.output)


def _measure_server(options: argparse.Namespace, found: report.Report) -> None:
    for name in _each(options, "server", SERVER_MODELS):
        request = ServerRequest(
            name, options.scale, max(options.threads), budget=2 * options.seconds,
            patience=options.patience, timeout=options.timeout,
        )  # fmt: skip
        found.servers.append(measure_server(request))
        report.write(found, options.output)


def _measure_quantized(options: argparse.Namespace, found: report.Report) -> None:
    for name in _each(options, "quantized", QUANTIZED_MODELS):
        for threads in options.threads:
            request = QuantizedRequest(
                name, options.scale, threads, options.seconds, options.patience, options.timeout
            )
            found.quantized.append(measure_quantized(request))
        report.write(found, options.output)


def _measure_sweep(options: argparse.Namespace, found: report.Report) -> None:
    _measure_rooflines(options, found)
    request = SweepRequest(
        options.cases, options.first, tuple(options.threads), options.seconds / 10, options.timeout
    )

    def keep(result: CaseResult) -> None:
        found.sweep.append(result)
        ratio = "-" if result.ratio is None else f"{result.ratio:.2f}"
        case = result.case
        print(f"[{case.seed}] {ratio} {result.threads} {case.title}", file=sys.stderr, flush=True)
        if len(found.sweep) % 50 == 0:
            report.write(found, options.output)

    measure_sweep(request, keep)
    report.write(found, options.output)


def _measure_rooflines(options: argparse.Namespace, found: report.Report) -> None:
    if not found.rooflines:
        threads = sorted(set(options.threads))
        found.rooflines.extend(measure_roofline(number) for number in threads)


_MEASURES: dict[str, Callable[[argparse.Namespace, report.Report], None]] = {
    "models": _measure_models,
    "prediction": _predict_models,
    "offload": _measure_offload,
    "fusion": _measure_fusion,
    "boundaries": _measure_boundaries,
    "busy": _measure_busy,
    "server": _measure_server,
    "sweep": _measure_sweep,
    "quantized": _measure_quantized,
}
"""For each part with several models or cases: the function that measures it and stores results."""


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if a measurement or prediction failed, else 0."""
    options = _parser().parse_args(arguments)
    if options.list:
        rows = [["model", "what"], *([n, model.description] for n, model in MODELS.items())]
        print(report.table(rows))
        return 0
    found = measure_all(options)
    print(report.text(found))
    print(f"written to {options.output}", file=sys.stderr)
    results = (
        *found.models, *found.offloads, *found.fusions, *found.figures_21, *found.boundaries,
        *found.busy, *found.servers,
    )  # fmt: skip
    return 1 if found.unpredicted or any(result.error for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
