"""Run ONNX's backend test suite: ``python -m rammer_mlir.benchmarks.onnx_suite [--filter TEXT]``.

Our compiler runs through ``rammer_mlir.backend``. As in the suite, no input is a constant at
compile time: all inputs are given to the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks.onnx_suite import report
from rammer_mlir.benchmarks.onnx_suite.cases import KINDS, suite
from rammer_mlir.benchmarks.onnx_suite.engines import make_our_check, make_runtime_check
from rammer_mlir.benchmarks.publish import RESULTS
from rammer_mlir.benchmarks.test_workers import check_all

_SECONDS = 300
"""Time limit in seconds of a network; the largest takes long beside other work."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onnx_suite", description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--alone", action="store_true", help="without ONNX Runtime beside us")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    parser.add_argument("--output", type=Path, default=Path("build/onnx-suite"))
    parser.add_argument(
        "--keep", action="store_true", help=f"write the table to {RESULTS.name} too"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; write a table of results and a file of failures; print the counts."""
    options = _parser().parse_args(arguments)
    cases = suite(options.filter, options.kinds)
    names = [case.name for case in cases]
    how = options.processes, _SECONDS
    ours = check_all(make_our_check, names, *how)
    theirs = None if options.alone else check_all(make_runtime_check, names, *how)
    results = report.collect(cases, ours, theirs)
    options.output.mkdir(parents=True, exist_ok=True)
    failing = {r.name: r.reason for r in results if r.reason is not None}
    (options.output / "failing.json").write_text(json.dumps(failing, indent=1) + "\n")
    text = report.text(results)
    for folder in (options.output, *([RESULTS] if options.keep else [])):
        (folder / "onnx-suite.md").write_text(text)
    print(report.counts(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
