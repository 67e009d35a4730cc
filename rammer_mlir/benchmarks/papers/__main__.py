"""Reproduce RAMMER's and IOS's figures and tables: ``python -m rammer_mlir.benchmarks.papers``."""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.machine import machine
from rammer_mlir.benchmarks.papers.catalog import STUDIES
from rammer_mlir.benchmarks.papers.page import PLOTS, page, plots
from rammer_mlir.benchmarks.papers.plots import draw
from rammer_mlir.benchmarks.papers.study import (
    Case,
    Records,
    Study,
    measure_all,
    read_records,
)
from rammer_mlir.errors import OptionError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.papers", description=__doc__
    )
    parser.add_argument(
        "studies", nargs="*", metavar="STUDY",
        help="measure these and keep the records of others; by default all: "
        + ", ".join(repr(study.name) for study in STUDIES),
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="the small cases alone, which tests measure again"
    )
    parser.add_argument(
        "--missing", action="store_true", help="only cases without figures, after an interruption"
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing, write the page from the records"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="cases at the same time"
    )
    parser.add_argument("--output", type=Path, default=Path("docs"), help="folder of the page")
    return parser


def chosen(names: Sequence[str]) -> list[Study[Any]]:
    """Return the studies with the names ``names``, or all studies if ``names`` is empty.

    Raises:
        OptionError: if a name is unknown.
    """
    known = {study.name: study for study in STUDIES}
    for name in names:
        if name not in known:
            raise OptionError(f"study: expected one of {', '.join(known)}; found '{name}'")
    return [known[name] for name in names] or list(STUDIES)


def commit() -> str:
    """Return the git commit of this code, followed by "-dirty" if tracked files were changed.

    The result is "unknown" if git or the repository is missing.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        found = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure studies, store their records, write the page; return 1 if a case failed, else 0.

    With ``--quick``, no page is written.

    Raises:
        OptionError: if the number of workers is below 1, a study is unknown, or stored records
            cannot be read.
    """
    options = _parser().parse_args(arguments)
    if options.workers < 1:
        raise OptionError(f"workers: expected at least 1, found {options.workers}")
    path = options.output / "papers.json"
    records = read_records(path) if path.exists() or options.render else Records()
    studies = [] if options.render else chosen(options.studies)
    work: list[tuple[Study[Any], Case]] = [
        (study, case)
        for study in studies
        for case in (study.quick if options.quick else (*study.cases, *study.quick))
        if not options.missing or "error" in records.get(study.name, case.key, {"error": ""})
    ]
    origin = {"commit": commit(), "date": datetime.date.today().isoformat(),
              "processor": machine()["processor"]}  # fmt: skip
    failures: list[str] = []
    begin = time.perf_counter()
    for number, (study, case, record) in enumerate(measure_all(work, options.workers), start=1):
        spent = time.perf_counter() - begin
        note = record.get("error", "done")
        print(f"{number}/{len(work)} {spent:.0f} s  {study.name}: {case.key}: {note}", flush=True)
        if "error" in record:
            failures.append(f"{study.name}: {case.key}: {record['error']}")
        records.add(study.name, case.key, {**record, **origin})
        records.write(path)
    if not options.quick:
        for plot in plots(records):
            draw(plot, options.output / PLOTS)
        (options.output / "papers.md").write_text(page(records), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
