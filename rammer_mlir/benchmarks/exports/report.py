"""Format the results of exported models as a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.benchmarks.exports.result import Result

_COLUMNS = (
    "sizes run", "matched", "worst error / tolerance", "slowest first run, s", "times ONNX Runtime"
)  # fmt: skip


def page(results: Sequence[Result], source: str = "exporter") -> str:
    """Return a summary and a table with a row for each model.

    ``source`` is the heading of the column with the exporter of each model.
    """
    valid = [result for result in results if not result.invalid]
    right = [result for result in valid if result.is_right]
    models = {result.name for result in valid}
    failed = models - {result.name for result in right}
    rows = "".join(map(_row, results))
    columns = f"| {' | '.join(['model', source, *_COLUMNS, 'remark'])} |\n"
    rule = f"| --- | --- |{' ---: |' * len(_COLUMNS)} --- |\n"
    return (
        f"{len(models - failed)} of {len(models)} models, in {len(right)} of {len(valid)} valid "
        f"files, compile without shapes and match ONNX Runtime at all sizes run.\n\n"
        f"{columns}{rule}{rows}"
    )


def line(result: Result) -> str:
    """Return the result of a model as text.

    The first line has the verdict, the largest error, the times, and the number of cases. A line
    follows for each error message, wrong output, or case whose sizes the exported model rejects.
    """
    verdict = "invalid" if result.invalid else "ok" if result.is_right else "FAIL"
    skipped = [f"{case.case}: {case.not_exported}" for case in result.cases if case.not_exported]
    faults = [*result.refusals, *result.wrong, *skipped, *([result.invalid] * bool(result.invalid))]
    first = f"{verdict} {result.name}.{result.exporter}: {result.excess:.3g} of the tolerance"
    first += f", {_speeds(result)} times ONNX Runtime" * bool(result.speeds)
    return "\n  ".join([f"{first}, {result.seconds:.1f} s, {len(result.ran)} sizes", *faults])


def _row(result: Result) -> str:
    right = [case for case in result.ran if not case.refusal and not case.wrong]
    skipped = len(result.cases) - len(result.ran)
    remarks = [*result.refusals, *result.wrong]
    if skipped:
        remarks.append(f"{skipped} sizes that the exported model itself does not take")
    if result.invalid:
        remarks.append(f"not a valid model: {result.invalid[:200]}")
    cells = (result.name, result.exporter, len(result.ran), len(right))
    numbers = (f"{result.excess:.2g}", f"{result.seconds:.1f}", _speeds(result))
    text = "<br>".join(remark.replace("|", "\\|")[:300] for remark in remarks)
    return f"| {' | '.join(map(str, (*cells, *numbers, text)))} |\n"


def _speeds(result: Result) -> str:
    """Return "MIN to MAX" of ONNX Runtime's time divided by this compiler's; empty if not timed.

    MIN and MAX are the smallest and the largest quotient over all cases; equal numbers appear once.
    """
    ends = [f"{choose(result.speeds):.2f}" for choose in (min, max) if result.speeds]
    return " to ".join(dict.fromkeys(ends))
