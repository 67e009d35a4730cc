"""Run a kit: every case in a separate process with its own time limit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rammer_mlir.benchmarks.gpu.kit.cases import Case
from rammer_mlir.benchmarks.gpu.kit.child import SANITIZER
from rammer_mlir.benchmarks.gpu.kit.manifest import read_kit
from rammer_mlir.benchmarks.gpu.kit.results import (
    FINE,
    Result,
    Status,
    append_result,
    read_results,
)

_SANITIZER_FAULTS = 99
"""Exit code of a sanitizer's process if it found a fault."""

_WORTH_BEGINNING = 60.0
"""Least remaining seconds for a case to begin, if the case's own limit is longer.

Few cases take as long as their limit.
"""

_LONGEST_MESSAGE = 500


@dataclass(frozen=True)
class Request:
    """Settings of a run of a kit.

    Attributes:
        folder: the kit.
        output: file of the results.
        budget: seconds after which the command ends; an interrupted case has no result.
        seconds: duration of each timing.
        cases: names of cases to run; all if empty.
        again: whether cases that failed run again.
        limit: upper bound of every case's time limit, in seconds; None for no bound.
    """

    folder: Path
    output: Path
    budget: float
    seconds: float = 1.0
    cases: Sequence[str] = ()
    again: bool = False
    limit: float | None = None

    def limit_of(self, case: Case) -> float:
        """Return the time limit in seconds after which ``case`` counts as hung."""
        return case.limit if self.limit is None else min(self.limit, case.limit)


@dataclass(frozen=True)
class Outcome:
    """The state of a kit after a run.

    Attributes:
        results: results of this run and of earlier runs, by the case's name.
        left: names of requested cases that have no result yet.
    """

    results: dict[str, Result]
    left: list[str]

    @property
    def is_fine(self) -> bool:
        """Whether no case had wrong outputs, failed, crashed or hung."""
        return all(result["status"] in FINE for result in self.results.values())


def run_kit(request: Request, say: Callable[[str], None]) -> Outcome:
    """Run the cases that have no result yet, in order, while there is time.

    Args:
        request: settings of the run.
        say: is called with a line for each case that ends.

    Returns:
        All results so far, and the cases without a result.

    Raises:
        OptionError: if the folder is not a kit, the file of results cannot be read, or a requested
            case is unknown.
    """
    begin = time.monotonic()
    kit = read_kit(request.folder)
    for name in request.cases:
        kit.case(name)
    results, left, is_begun = read_results(request.output), list[str](), False
    for case in kit.cases:
        if request.cases and case.name not in request.cases:
            continue
        done = results.get(case.name)
        if done is not None and (not request.again or done["status"] in FINE):
            continue
        remaining = request.budget - (time.monotonic() - begin)
        # The first case may use the whole budget, so that every command makes progress.
        if is_begun and remaining < min(request.limit_of(case), _WORTH_BEGINNING):
            left.append(case.name)
            continue
        is_begun = True
        result = _run_case(request, case, remaining)
        if result is None:
            left.append(case.name)
            continue
        append_result(request.output, result)
        results[case.name] = result
        say(f"{case.name}: {result['status']}{_told(result)}")
    return Outcome(results, left)


def _told(result: Mapping[str, Any]) -> str:
    if "message" in result:
        return f", {result['message']}"
    device = result.get("graph", result).get("device")
    return f", {device['median'] * 1e6:.2f} us" if isinstance(device, Mapping) else ""


def _run_case(request: Request, case: Case, remaining: float) -> Result | None:
    """Run a case in a separate process, and return its result.

    ``remaining`` is the number of seconds until the command has to end. Return None if the process
    is stopped because the command has to end, before the case reaches its own time limit.
    """
    begin = time.monotonic()
    limit = request.limit_of(case)
    with tempfile.TemporaryDirectory(prefix="rammer-kit-") as folder:
        found = _in_process(request, case, Path(folder), min(limit, remaining))
    # The command's time ended before the case's own limit: no verdict, the case runs again.
    if found["status"] == Status.HUNG and remaining < limit:
        return None
    seconds = round(time.monotonic() - begin, 3)
    return {"case": case.name, "kind": case.kind, **found, "seconds": seconds}


def _in_process(request: Request, case: Case, folder: Path, limit: float) -> dict[str, Any]:
    """Run a case in a separate group of processes, and return the result without the case's name.

    The group is killed after ``limit`` seconds; the result then says that the case hung. The files
    with the result and the printed text of the process are written to ``folder``.
    """
    answer, said = folder / "result.json", folder / "output.txt"
    command = _command(request, case, answer)
    if case.kind == "sanitizer" and shutil.which(SANITIZER) is None:
        return {"status": Status.ABSENT, "message": f"'{SANITIZER}' is not in PATH"}
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(max(limit, 0.0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    text = said.read_text(encoding="utf-8", errors="replace")
    if code is None:
        message = f"no result after {limit:g} s"
        return {"status": Status.HUNG, "message": message, **_tail(text)}
    if code == _SANITIZER_FAULTS and case.kind == "sanitizer":
        return {"status": Status.WRONG, "message": _last_line(text), **_tail(text)}
    if code == 0 and answer.exists():
        return json.loads(answer.read_text(encoding="utf-8"))
    # A negative code is the number of the signal that ended the process.
    if code < 0:
        message = f"ended by {signal.Signals(-code).name}"
        return {"status": Status.CRASHED, "message": message, **_tail(text)}
    return {"status": Status.FAILED, "message": _last_line(text), **_tail(text)}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process of a case and the processes that it started, such as PyTorch's compilers.

    Wait until the process of the case has ended.
    """
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _command(request: Request, case: Case, answer: Path) -> list[str]:
    own = [
        sys.executable, str(request.folder), "case", case.name, "--answer", str(answer),
        "--seconds", str(request.seconds),
    ]  # fmt: skip
    if case.kind != "sanitizer":
        return own
    options = ["--tool", case.way, "--error-exitcode", str(_SANITIZER_FAULTS)]
    return [SANITIZER, *options, *own, "--untimed"]


def _tail(text: str) -> dict[str, str]:
    return {"output": text[-_LONGEST_MESSAGE:]} if text.strip() else {}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_MESSAGE] if lines else "no message"
