"""Search for faults of the compiler with random cases.

``python -m tests.fuzz --models 1000 --files 1000 --artifacts 200 --equivalents 200 --seed 0``, or
``python -m tests.fuzz --minutes 30``

Each finding is printed with its seed, reduced to a smaller case, and written to a folder; ``python
-m tests.fuzz FILE...`` tries such files again. The exit status is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from tests.fuzz.case import Case, Problem, cases_in, write_case
from tests.fuzz.kinds import KINDS
from tests.fuzz.pool import Child, Job
from tests.fuzz.shrink import shrink

_SIMILAR = 3
"""Number of similar findings that are shrunk; more of them are only counted."""


_EACH = 100
"""Number of cases of each kind if the command line gives neither numbers nor a time limit."""

_PROGRESS = 100
"""Number of cases between two reports of progress."""


@dataclass
class Tally:
    """The numbers of cases that were tried and of findings so far; all threads share it.

    Attributes:
        folder: folder to which findings are written.
        tried: number of cases that were tried, by kind.
        rejected: number of cases that could not be checked.
        refused: number of valid models that the compiler refused, by text of ``_looks``.
        findings: number of faults, by text of ``_looks``.
        lock: held while the numbers are changed.
    """

    folder: Path
    tried: Counter[str] = field(default_factory=Counter[str])
    rejected: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    findings: Counter[str] = field(default_factory=Counter[str])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, case: Case, problem: Problem) -> None:
        """Print a finding, and write its case to a file."""
        path = write_case(self.folder, case, problem)
        nodes = _operators(case)
        with self.lock:
            print(f"{path}: {problem.sort} [{nodes}]\n    " + problem.text.replace("\n", "\n    "))
            sys.stdout.flush()

    def counts(self) -> str:
        """Return text with the number of cases of each kind, and of those not checked.

        A case is not checked if no reference can compute its results.
        """
        tried = ", ".join(f"{count} {kind}s" for kind, count in sorted(self.tried.items()))
        return f"{tried or 'nothing'} ({self.rejected} without a check)"

    def summary(self, seconds: float) -> str:
        """Return text with the numbers of cases and findings, and the reasons of refusals.

        ``seconds`` is the duration of the search.
        """
        lines = [f"{count:5d} refused: {reason}" for reason, count in self.refused.most_common(20)]
        total = self.findings.total()
        lines.append(f"fuzz: {self.counts()} in {seconds:.0f} s; {total} findings")
        return "\n".join(lines)


def _operators(case: Case) -> str:
    try:
        nodes = onnx.ModelProto.FromString(case.model).graph.node
        return " ".join(node.op_type for node in nodes[:12])
    except Exception:  # a damaged file
        return f"{len(case.model)} bytes"


def _looks(case: Case | None, problem: Problem) -> str:
    """Return text that is equal for similar findings.

    The text has the problem's ``sort`` and, for an exception, the last line without quoted names
    and numbers.
    """
    text = problem.text.splitlines()[-1] if problem.sort[0].isupper() else ""
    plain = re.sub("[0-9]+", "N", re.sub("'[^']*'", "X", text))
    return f"{problem.sort}: {plain}"


class Searcher:
    """A thread's part of the search: it tries cases in its own child process."""

    def __init__(self, tally: Tally) -> None:
        """Create a searcher that adds its results to ``tally``."""
        self._tally = tally
        self._child = Child("tests.fuzz.kinds")

    def run(self, jobs: Iterator[Job]) -> None:
        """Try jobs from an iterator, which other threads share, until none is left.

        A job is a case, or the kind and the seed of a case to make.
        """
        while True:
            with self._tally.lock:
                job = next(jobs, None)
            if job is None:
                break
            self._try(job)
        self._child.stop()

    def _try(self, job: Job) -> None:
        outcome = self._child.attempt(job)
        kind = job.kind if isinstance(job, Case) else job[0]
        problem, case = outcome.problem, outcome.case
        with self._tally.lock:
            self._tally.tried[kind] += 1
            self._tally.rejected += problem is None and case is None
            if self._tally.tried.total() % _PROGRESS == 0:
                print(self._tally.counts(), file=sys.stderr, flush=True)
        if problem is None:
            return
        if problem.refused:
            with self._tally.lock:
                self._tally.refused[_looks(case, problem)] += 1
                if self._tally.refused[_looks(case, problem)] > 1:
                    return
        if case is None:  # making it failed, which is the fuzzer's own fault
            print(f"{job}: {problem.sort}, and no case: {problem.text}", flush=True)
            return
        self._found(case, problem)

    def _found(self, case: Case, problem: Problem) -> None:
        with self._tally.lock:
            look = _looks(case, problem)
            self._tally.findings[look] += not problem.refused
            is_known = self._tally.findings[look] > _SIMILAR and problem.sort[0].isupper()
        if is_known:
            return
        smaller = shrink(case, lambda other: self._is_same(other, problem))
        found = self._child.attempt(smaller).problem or problem
        self._tally.report(smaller, found)

    def _is_same(self, case: Case, problem: Problem) -> bool:
        found = self._child.attempt(case).problem
        if found is None or found.sort != problem.sort:
            return False
        return not problem.refused or _looks(case, found) == _looks(case, problem)


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Yield all jobs of the command line: for each seed, one of each kind.

    With a time limit, jobs are yielded until the time is over.
    """
    if options.files_again:
        yield from cases_in(options.files_again)
        return
    counts = {kind: getattr(options, f"{kind}s") for kind in KINDS}
    if not any(counts.values()):
        counts = dict.fromkeys(KINDS, 1 << 40 if options.minutes else _EACH)
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    for number in itertools.count(options.seed):
        open_kinds = [kind for kind in KINDS if number - options.seed < counts[kind]]
        for kind in open_kinds:
            if time.monotonic() > end:
                return
            yield kind, number
        if not open_kinds:
            return


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("files_again", nargs="*", type=Path, metavar="FILE")
    for kind in KINDS:
        parser.add_argument(f"--{kind}s", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first one")
    parser.add_argument("--minutes", type=float, default=0, metavar="N", help="stop after so long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), metavar="FOLDER")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Search for faults; print findings and a summary; return 1 if there are findings, else 0."""
    options = _options(arguments)
    os.environ["RAMMER_CACHE_DIR"] = ""
    begin, tally, jobs = time.monotonic(), Tally(options.out), _jobs(options)
    threads = [
        threading.Thread(target=Searcher(tally).run, args=(jobs,)) for _ in range(options.processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(tally.summary(time.monotonic() - begin))
    return 1 if tally.findings.total() else 0


if __name__ == "__main__":
    sys.exit(main())
