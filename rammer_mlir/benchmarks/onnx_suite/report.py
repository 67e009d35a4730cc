"""Make tables of the results of ONNX's backend test suite, by kind of test and by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rammer_mlir.benchmarks.machine import table
from rammer_mlir.benchmarks.onnx_suite.cases import Case
from rammer_mlir.benchmarks.onnx_suite.engines import outcome
from rammer_mlir.benchmarks.onnx_suite.exclusions import exclusion

_HEADING = """# ONNX's backend test suite

Written by `make onnx-suite`. Every test of `onnx.backend.test` that the onnx package brings along
runs through `rammer_mlir.backend`, with all inputs given at run time and compared by the
suite's own rules; ONNX Runtime takes the same tests beside it.
"""


@dataclass(frozen=True)
class Result:
    """The result of a test with our compiler and with ONNX Runtime.

    Attributes:
        name: name of the test.
        group: kind of the test; for a node test outside of ONNX's own domain, also the domain.
        operator: the tested operator, or several operators joined by "+".
        reason: why the test fails with our compiler; None if it passes.
        runtime_reason: why the test fails with ONNX Runtime; None if it passes.
        excluded: why the test is excluded; None if it should pass.
    """

    name: str
    group: str
    operator: str
    reason: str | None
    runtime_reason: str | None
    excluded: str | None


def collect(
    cases: Sequence[Case], ours: Mapping[str, str | None], theirs: Mapping[str, str | None] | None
) -> list[Result]:
    """Return the results of all tests, in the order of ``cases``.

    Args:
        cases: the tests.
        ours: maps the name of each test to the reason why it fails with our compiler, or to None if
            it passes.
        theirs: the same for ONNX Runtime; if it is None, the results say that ONNX Runtime passes
            all tests.
    """
    operators = {case.name: "+".join(case.operators) for case in cases}
    return [
        Result(
            case.name,
            _group(case),
            # A test of an expanded function counts for the operator that the function defines.
            operators.get(case.name.partition("_expanded")[0], operators[case.name]),
            ours[case.name],
            theirs[case.name] if theirs else None,
            exclusion(case),
        )
        for case in cases
    ]


def _group(case: Case) -> str:
    return f"{case.kind}, {case.domain}" if case.kind == "node" and case.domain else case.kind


def counts(results: Sequence[Result]) -> str:
    """Return a Markdown table of the results: a row for each kind of test, and a row for all tests.

    A row has the numbers of tests that passed, were refused, gave wrong outputs, or had a fault
    with our compiler, and the number of tests that passed with ONNX Runtime.
    """
    rows = [["tests", "all", "passed", "refused", "wrong", "fault", "ONNX Runtime passed"]]
    groups = dict.fromkeys(result.group for result in results)
    for group in groups:
        rows.append(_row(group, [r for r in results if r.group == group]))
    rows.append(_row("all", results))
    return table(rows)


def _row(name: str, results: Sequence[Result]) -> list[str]:
    found = Counter(outcome(result.reason) for result in results)
    runtime = sum(result.runtime_reason is None for result in results)
    kinds = ("passed", "refused", "wrong", "fault")
    return [name, str(len(results)), *(str(found[kind]) for kind in kinds), str(runtime)]


def text(results: Sequence[Result]) -> str:
    """Return the report of the suite in Markdown."""
    parts = [_HEADING, counts(results), "\n## Excluded\n", _exclusions(results)]
    parts += ["\n## By operator\n", _by_operator([r for r in results if r.group[:4] == "node"])]
    failing = [r for r in results if r.reason is not None and r.excluded is None]
    parts += ["\n## Failing\n", *(f"- `{r.name}`: {r.reason}" for r in failing)]
    return "\n".join(parts) + "\n"


def _exclusions(results: Sequence[Result]) -> str:
    found = Counter(result.excluded for result in results if result.excluded)
    return table([["reason", "tests"], *([why, str(n)] for why, n in found.most_common())])


def _by_operator(results: Sequence[Result]) -> str:
    rows = [["operator", "all", "passed", "refused", "wrong", "fault", "ONNX Runtime passed"]]
    for operator in sorted({result.operator for result in results}):
        rows.append(_row(operator, [r for r in results if r.operator == operator]))
    return table(rows)
