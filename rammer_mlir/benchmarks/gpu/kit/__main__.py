"""Pack a kit on a machine with the compiler, and run it on a machine with a GPU.

``KIT`` is the folder of the kit.

| command | does |
| --- | --- |
| ``python -m rammer_mlir.benchmarks.gpu.kit pack KIT`` | compiles all cases into a folder |
| ``python KIT`` | runs the cases that have no result yet, on a machine with a GPU |
| ``python KIT report`` | prints tables of the results |
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.gpu.kit.child import run_case
from rammer_mlir.benchmarks.gpu.kit.manifest import read_kit
from rammer_mlir.benchmarks.gpu.kit.report import report
from rammer_mlir.benchmarks.gpu.kit.results import read_results
from rammer_mlir.benchmarks.gpu.kit.run import Request, run_kit
from rammer_mlir.errors import OptionError

CASES_LEFT = 3
"""Exit code if some cases have no result yet."""

_RESULTS = "results.jsonl"


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Pack a kit, run it, or print its results.

    Return 1 if a case failed, 3 if time ran out before all cases had a result, else 0.
    """
    return _dispatch(sys.argv[1:] if arguments is None else arguments)


@one_line_errors
def main_of(file: str, arguments: Sequence[str] | None = None) -> int:
    """Run the command ``python KIT`` with the given arguments; return the exit code of ``main``.

    ``file`` is the path of the kit's ``__main__.py``. The first argument may be an action: ``run``
    (the default), ``report``, or ``case``, which runs one case in this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    folder = str(Path(file).resolve().parent)
    actions = ("run", "case", "report")
    action = given.pop(0) if given and given[0] in actions else "run"
    return _dispatch([action, folder, *given])


def _dispatch(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m rammer_mlir.benchmarks.gpu.kit")
    actions = parser.add_subparsers(dest="action", required=True)
    _add_pack(actions.add_parser("pack", help="compile all cases into a folder"))
    _add_run(actions.add_parser("run", help="run the cases that have no result yet"))
    _add_case(actions.add_parser("case", help="run one case in this process"))
    _add_report(actions.add_parser("report", help="print tables of the results"))
    options = parser.parse_args(arguments)
    return options.function(options)


def _add_pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvvm:sm_90", help="default: nvvm:sm_90")
    parser.add_argument("--models", nargs="+", default=[], help="of the kit; default: all")
    parser.add_argument("--megabytes", type=float, default=60.0, help="most that it may take")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile")
    parser.set_defaults(function=_pack)


def _pack(options: argparse.Namespace) -> int:
    from rammer_mlir.benchmarks.gpu.kit.cases import SUBJECTS
    from rammer_mlir.benchmarks.gpu.kit.pack import pack

    names = [subject.name for subject in SUBJECTS]
    for name in options.models:
        if name not in names:
            raise OptionError(
                f"models: expected some of {', '.join(names)}; found '{name}'; choose among these"
            )
    if options.jobs < 1:
        raise OptionError(f"jobs: expected at least 1, found {options.jobs}")
    subjects = [s for s in SUBJECTS if not options.models or s.name in options.models]
    kit = pack(
        options.folder, options.target, subjects, megabytes=options.megabytes, jobs=options.jobs
    )
    size = sum(file.stat().st_size for file in options.folder.rglob("*") if file.is_file())
    counts = f"{len(kit.cases)} cases, {len(kit.programs)} programs"
    print(f"{counts}, {size / 1e6:.1f} MB in {options.folder}")
    return 0


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=570.0, help="seconds of this command")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each time in a case")
    parser.add_argument("--limit", type=float, help="seconds of a case, if fewer than its own")
    parser.add_argument("--cases", nargs="+", default=[], help="default: all")
    parser.add_argument("--again", action="store_true", help="repeat cases that were not fine")
    parser.add_argument("--output", type=Path, default=Path(_RESULTS), help=f"default: {_RESULTS}")
    parser.set_defaults(function=_run)


def _run(options: argparse.Namespace) -> int:
    request = Request(
        options.folder.resolve(), options.output, options.budget, options.seconds, options.cases,
        options.again, options.limit,
    )  # fmt: skip
    outcome = run_kit(request, lambda line: print(line, flush=True))
    if outcome.left:
        print(f"{len(outcome.left)} cases are left: run the same command again")
        return CASES_LEFT
    return 0 if outcome.is_fine else 1


def _add_case(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--answer", type=Path, help="file for the result; default: printed")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each time")
    parser.add_argument("--untimed", action="store_true", help="only check the outputs")
    parser.set_defaults(function=_case)


def _case(options: argparse.Namespace) -> int:
    result = run_case(options.folder, options.name, options.seconds, timed=not options.untimed)
    text = json.dumps(result)
    if options.answer is None:
        print(text)
    else:
        options.answer.write_text(text, encoding="utf-8")
    return 0


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path, default=Path(_RESULTS), help=f"default: {_RESULTS}")
    parser.add_argument("--output", type=Path, help="a file; default: printed")
    parser.set_defaults(function=_report)


def _report(options: argparse.Namespace) -> int:
    results = read_results(options.results)
    if not results:
        raise OptionError(
            f"'{options.results}': expected results of a kit, found none; run it first"
        )
    text = report(read_kit(options.folder), results)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
