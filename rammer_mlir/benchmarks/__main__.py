"""Benchmark the compiler: ``python -m rammer_mlir.benchmarks [MODEL ...]``."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks import report
from rammer_mlir.benchmarks.bench import POLICIES, Request, Result, measure_in_child
from rammer_mlir.benchmarks.models import MODELS
from rammer_mlir.errors import OptionError, RammerError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks",
        description="Compile time, memory and latency against ONNX Runtime, model by model.",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names or patterns; default all")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--seconds", type=float, default=3.0, help="timing per number of threads")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for each model")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="results folder")
    return parser


def select(patterns: Sequence[str]) -> list[str]:
    """Expand names and patterns to model names; raise OptionError for one that fits nothing."""
    if not patterns:
        return list(MODELS)
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = fnmatch.filter(MODELS, pattern)
        if not found:
            raise OptionError(
                f"model: expected one of {', '.join(MODELS)}; found '{pattern}'; see --list"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def measure_all(options: argparse.Namespace) -> list[Result]:
    """Measure model after model, saying on standard error which one is under way."""
    results: list[Result] = []
    names = select(options.models)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name} ...", end=" ", file=sys.stderr, flush=True)
        start = time.perf_counter()
        request = Request(
            name,
            options.scale,
            options.batch,
            tuple(options.threads),
            tuple(options.policies),
            options.seconds,
        )
        results.append(measure_in_child(request, options.timeout))
        outcome = results[-1].error or "done"
        print(f"{outcome} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
        report.write(results, options.output)  # each time, so that an interruption loses nothing
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 where a model failed."""
    options = _parser().parse_args(arguments)
    if options.list:
        rows = [["model", "what"], *([n, model.description] for n, model in MODELS.items())]
        print(report.table(rows))
        return 0
    try:
        results = measure_all(options)
    except RammerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(report.text(results))
    print(f"written to {options.output}", file=sys.stderr)
    return 1 if any(result.error for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
