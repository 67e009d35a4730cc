"""Compile exported ONNX models, and compare their outputs with those of ONNX Runtime.

Usage: ``python -m rammer_mlir.benchmarks.exports FOLDER [PATTERN...]``. Patterns select models by
file name without suffix; by default, all models of the folder are checked.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rammer_mlir.benchmarks.child import Failure, in_child
from rammer_mlir.benchmarks.exports.check import check, spec_of
from rammer_mlir.benchmarks.exports.report import line, page
from rammer_mlir.benchmarks.exports.result import Result, load_results, save_result


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the models of a folder, each in a separate process, and print the results.

    A model's result is stored in a file next to the model; with ``--new``, models that have a
    result are skipped. With ``--out FILE``, a table of all results of the folder is written.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("-o", "--out", type=Path, help="file to write the table to")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one model")
    parser.add_argument("--cases", type=int, help="run the first cases of each model alone")
    parser.add_argument("--new", action="store_true", help="skip models that have a result")
    parser.add_argument("--threads", type=int, help="of both, which are timed then")
    parser.add_argument("--source", default="exporter", help="what the models come from")
    given = parser.parse_args(arguments)
    work = partial(check, cases=given.cases, threads=given.threads)
    for path in _chosen(given.folder, given.patterns, given.new):
        print(line(_checked(path, work, given.timeout)), flush=True)
    if given.out:
        given.out.write_text(page(load_results(given.folder), given.source))


def _chosen(folder: Path, patterns: Sequence[str], new: bool) -> Iterator[Path]:
    for path in sorted(folder.glob("*.onnx")):
        is_done = new and path.with_suffix(".result").exists()
        if not is_done and any(fnmatch.fnmatch(path.stem, pattern) for pattern in patterns):
            yield path


def _checked(path: Path, work: Callable[[Path], Result], timeout: float) -> Result:
    spec = spec_of(path)
    found = in_child(work, path, timeout)
    if isinstance(found, Failure):
        found = Result(spec.name, spec.exporter, refusal=found.message)
    save_result(found, path.with_suffix(".result"))
    return found


if __name__ == "__main__":
    main()
