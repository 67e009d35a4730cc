"""Check results of MLIR from other projects: ``python -m rammer_mlir.benchmarks.foreign FOLDER``.

A separate process compiles each public function of each ``.mlir`` file, and runs the function on
random inputs. If IREE is installed (``pip install iree-base-compiler iree-base-runtime``), the
results are compared with IREE's. Lines ``// -----`` separate the modules of a file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.foreign.parts import files_of, parts_of
from rammer_mlir.benchmarks.foreign.reference import missing_reference

STATUSES = {
    "right": "ran, and equal to the reference",
    "ran": "ran, without a reference",
    "refused": "refused, with a place and a reason",
    "refused without a place": "refused, without a place",
    "not valid": "refused by MLIR's parser or verifiers",
    "wrong": "ran, and differs from the reference",
    "internal error": "an exception that is no error of ours",
    "crash": "the process died",
    "time": "did not end in time",
}
"""Possible outcomes of a function, and their description in the table."""

_FAULTS = ("wrong", "internal error", "crash", "time", "refused without a place")

_PLACE = re.compile(r"(?:the module|\.mlir):\d+(?::\d+)?")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a function, or of a file or module that cannot be read.

    Attributes:
        where: the file, the module's index in the file, and the name of the function. If the file
            cannot be read, only the file; if the module cannot be read, only the file and the
            index.
        status: a key of ``STATUSES``.
        detail: the reason of the status, such as an error message; empty if the results are right.
    """

    where: str
    status: str
    detail: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the functions of all files, and print the table of outcomes.

    Return 1 if the compiler is at fault for an outcome or the folder does not exist, else 0.
    """
    options = _parser().parse_args(arguments)
    folder: Path = options.folder
    if not folder.exists():
        print(f"error: expected a folder of .mlir files, found no '{folder}'", file=sys.stderr)
        return 1
    missing = "--no-reference" if options.no_reference else missing_reference()
    options.no_reference = bool(missing)
    found: list[Outcome] = []
    for outcome in _outcomes(folder, options):
        found.append(outcome)
        if outcome.status != "right" or options.all:
            print(f"{outcome.status:<24} {outcome.where}  {outcome.detail}", flush=True)
    if missing:
        print(f"not compared with IREE: {missing}")
    print(table(found))
    return 1 if any(outcome.status in _FAULTS for outcome in found) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.foreign",
        description="Compile and run the public functions of MLIR files, each by itself.",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a folder of .mlir files, or one file")
    add("--seconds", type=float, default=60.0, help="limit of each function's process")
    add("--size", type=int, default=4, help="of dimensions that are open")
    add("--seed", type=int, default=0, help="of random inputs")
    add("--no-reference", action="store_true", help="do not compare with IREE")
    add("--all", action="store_true", help="print functions that are right as well")
    return parser


def table(found: Sequence[Outcome]) -> str:
    """Return a table with the count of functions for each status of ``STATUSES``."""
    counts = Counter(outcome.status for outcome in found)
    lines = [f"| {'outcome':<45} | functions |", f"| {'-' * 45} | --------: |"]
    lines += [f"| {words:<45} | {counts[status]:>9} |" for status, words in STATUSES.items()]
    lines.append(f"| {'all':<45} | {len(found):>9} |")
    return "\n".join(lines)


def _outcomes(folder: Path, options: argparse.Namespace) -> Iterator[Outcome]:
    for path in files_of(folder):
        try:
            parts = parts_of(path)
        except (OSError, UnicodeDecodeError) as error:
            yield Outcome(str(path), "not valid", f"cannot be read: {error}")
            continue
        for part in parts:
            yield from _part_outcomes(path, part.number, options)


def _part_outcomes(path: Path, number: int, options: argparse.Namespace) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory(prefix="rammer-foreign-") as folder:
        listed = _child("list", path, number, "", folder, options)
        where = f"{path}#{number}"
        if "status" in listed:
            yield Outcome(where, listed["status"], listed["detail"])
            return
        if "problem" in listed:
            yield Outcome(where, "not valid", listed["problem"])
        for name in listed["functions"]:
            yield _outcome(f"{where} @{name}", path, number, name, folder, options)


def _outcome(
    where: str, path: Path, number: int, name: str, folder: str, options: argparse.Namespace
) -> Outcome:
    answer = _child("run", path, number, name, folder, options)
    if answer["status"] == "ran" and not options.no_reference:
        compared = _child("compare", path, number, name, folder, options)
        crashed = compared["status"] in ("crash", "time")
        answer = {"status": "ran", "detail": "the reference crashes"} if crashed else compared
    status = answer["status"]
    if status == "refused" and not _PLACE.search(answer["detail"]):
        status = "refused without a place"
    return Outcome(where, status, answer["detail"])


def _child(
    step: str, path: Path, number: int, name: str, folder: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Do a task of ``foreign.child`` in a separate process; return its answer, decoded from JSON.

    Args:
        step: the task: "list" the functions of a module, "run" a function, or "compare" the
            results of an earlier "run" with IREE's.
        path: the MLIR file.
        number: index of the module in the file.
        name: the function; empty to list functions.
        folder: where "run" stores inputs and outputs, and "compare" reads them.
        options: options of the command.

    Returns:
        - after "list": "functions", a list of names; if the module is not valid, the list is
          empty, and "problem" is an error message;
        - after "run" or "compare": "status", a key of ``STATUSES``, and "detail", a line of text;
        - after a crash or timeout of any task: "status" and "detail" only.
    """
    command = [
        sys.executable, "-m", "rammer_mlir.benchmarks.foreign.child",
        step, str(path), str(number), name, folder, str(options.size), str(options.seed),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.seconds, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return {"status": "time", "detail": f"more than {options.seconds:g} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"status": "crash", "detail": f"status {done.returncode}: {last[:200]}"}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())
