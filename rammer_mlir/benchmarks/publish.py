"""Publish measurements: ``python -m rammer_mlir.benchmarks.publish NAME [--input bench.json]``.

Writes NAME.json, NAME.md and NAME.svg into the folder of results, and updates the README.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.latencies import summary_table
from rammer_mlir.benchmarks.plot import plot_ratios
from rammer_mlir.benchmarks.report import JSON, Report, encode, machine_line, read, text
from rammer_mlir.errors import OptionError

RESULTS = Path(__file__).resolve().parent / "results"
ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- results: written by make results -->", "<!-- end of results -->"


def publish(source: Path, name: str, results: Path = RESULTS, readme: Path | None = None) -> None:
    """Write a report's plot, numbers and tables to files, and update the README's section about it.

    Args:
        source: JSON file of the report, as `make bench` writes it.
        name: stem of the written files, with the suffixes .svg, .json and .md.
        results: folder of the written files.
        readme: the README, by default the repository's; a missing README is not written.

    Raises:
        OptionError: if ``source`` is missing or has no latencies of models.
        TargetError: if matplotlib is not installed.
    """
    report = _read(source)
    plot_ratios(report.models, results / f"{name}.svg")
    (results / f"{name}.json").write_text(encode(report))
    (results / f"{name}.md").write_text(f"![ratios]({name}.svg)\n\n{text(report)}")
    path = readme or ROOT / "README.md"
    if path.exists():
        path.write_text(replace_part(path.read_text(), readme_part(report, name)))


def _read(source: Path) -> Report:
    try:
        report = read(source)
    except (OSError, ValueError, TypeError) as error:
        raise OptionError(
            f"input '{source}': expected what the benchmark writes, found {error}; run make bench"
        ) from error
    if not any(result.timings for result in report.models):
        raise OptionError(f"input '{source}': expected latencies of models, found none; measure")
    return report


def readme_part(report: Report, name: str) -> str:
    """Return the README's section about a report: plot, table of ratios, and link to all numbers.

    ``name`` is the stem of the report's files.
    """
    folder = "rammer_mlir/benchmarks/results"
    return "\n\n".join([
        f"![latency of other runtimes divided by ours, for each model]({folder}/{name}.svg)",
        summary_table(report.models),
        "Medians of one run in which all runtimes took turns, batch 1, f32; "
        f"{machine_line(report)}. "
        f"All numbers of this run, and the limits of each model: [{name}.md]({folder}/{name}.md).",
    ])  # fmt: skip


def replace_part(readme: str, part: str) -> str:
    """Return ``readme`` with the text between the lines ``BEGIN`` and ``END`` replaced by ``part``.

    The two lines themselves, which are HTML comments, stay.

    Raises:
        OptionError: if ``readme`` does not have these lines.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise OptionError(f"README: expected the lines '{BEGIN}' and '{END}', found none; add them")
    return f"{before}{BEGIN}\n{part}\n{END}{after}"


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the report that the command line names, and return 0.

    The report's plot, numbers and tables are written to the folder of results, and the README's
    section about results is replaced.
    """
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.publish")
    parser.add_argument("name", metavar="NAME", help="of the machine, as cpu-xeon-2-cores")
    parser.add_argument("--input", type=Path, default=Path("build/bench") / JSON)
    options = parser.parse_args(arguments)
    publish(options.input, options.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
