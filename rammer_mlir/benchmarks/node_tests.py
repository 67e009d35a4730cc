"""Measure the fraction of ONNX's node tests that this compiler passes.

``python -m rammer_mlir.benchmarks.node_tests [--filter TEXT] [--json OUT] [--processes N]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

import rammer_mlir
from rammer_mlir.benchmarks.node_cases import Array, Result, check, node_tests
from rammer_mlir.benchmarks.test_workers import Check, check_all


def run_compiled(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Compile a model for one vEU, run it, and return its outputs by name."""
    with rammer_mlir.compile(model, policy="sequential", num_veus=1, cache=False) as executable:
        return executable.run(inputs)


def run_all(only: str = "", processes: int = 2) -> list[Result]:
    """Run every test whose name contains ``only``; return all results.

    The tests are distributed over ``processes`` processes.
    """
    operators = {test.name: test.operators for test in node_tests(only)}
    reasons = check_all(_make_check, list(operators), processes)
    return [Result(name, kinds, reasons[name]) for name, kinds in operators.items()]


def _make_check() -> Check:
    tests = {test.name: test for test in node_tests()}
    return lambda name: check(tests[name], run_compiled).reason


def summary(results: Sequence[Result]) -> str:
    """Return a report as text: the fraction of passed tests, then a line for each failing operator.

    The line has the number of the operator's failed tests, the operator, and the most frequent
    reason. Tests with the same combination of several operators have a line of their own, in which
    the names of the operators are joined.
    """
    passed = sum(result.reason is None for result in results)
    lines = [f"node tests: {passed} of {len(results)} pass ({passed / max(len(results), 1):.1%})"]
    failing: dict[str, Counter[str]] = {}
    for result in results:
        if result.reason is not None:
            failing.setdefault("+".join(result.operators), Counter())[result.reason] += 1
    for operators, reasons in sorted(failing.items(), key=lambda item: -item[1].total()):
        lines.append(f"{reasons.total():5d}  {operators}: {reasons.most_common(1)[0][0]}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests that the command line selects and print a summary; return 0."""
    parser = argparse.ArgumentParser(prog="node_tests", description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write why each test fails")
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    options = parser.parse_args(arguments)
    results = run_all(options.filter, options.processes)
    if options.json:
        options.json.write_text(json.dumps({r.name: r.reason for r in results}, indent=1))
    print(summary(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
