"""Evaluate code generators: ``python -m rammer_mlir.benchmarks.offload [MODEL...]``."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rammer_mlir.benchmarks.command import one_line_errors
from rammer_mlir.benchmarks.decoding import decode
from rammer_mlir.benchmarks.offload.measure import (
    OffloadRequest,
    OffloadResult,
    measure_offload,
)
from rammer_mlir.benchmarks.offload.options import (
    add_codegen_options,
    chosen_codegens,
    module_options,
    plugin_paths,
)
from rammer_mlir.benchmarks.offload.paper import PUBLISHED
from rammer_mlir.benchmarks.offload.report import page
from rammer_mlir.benchmarks.offload.verdict import failures, summary
from rammer_mlir.errors import OptionError

PAGE = Path(__file__).parents[1] / "results" / "offload.md"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rammer_mlir.benchmarks.offload",
        description="What code generators take of the models of \"Bring Your Own Codegen\", and "
        "what that costs and gains, beside the paper's numbers.",
    )  # fmt: skip
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names or patterns; default all")
    add_codegen_options(parser)
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0, help="timing per code generator")
    parser.add_argument("--patience", type=float, default=1200.0, help="seconds to open a model")
    parser.add_argument("--new", action="store_true", help="skip models that have a result")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/offload"), help="a result for each model"
    )
    parser.add_argument("-o", "--output", type=Path, default=PAGE, help="page of all results")
    return parser


def _select(patterns: Sequence[str]) -> list[str]:
    found = [n for n in PUBLISHED if any(fnmatch.fnmatch(n, p) for p in patterns or ["*"])]
    if not found:
        raise OptionError(
            f"model: expected one of {', '.join(PUBLISHED)}; found '{' '.join(patterns)}'"
        )
    return found


def _check(options: argparse.Namespace) -> None:
    """Check the options before measuring.

    Raises:
        OptionError: if the number of threads is below 1, a folder for results cannot be made, or
            the folder has a result that cannot be read. The message names the option or the file.
    """
    if options.threads < 1:
        raise OptionError(f"--threads: expected at least 1, found {options.threads}")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        options.output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"--folder, --output: expected places to write to, found '{error}'; choose others"
        ) from error
    list(_load(options.folder, PUBLISHED))


def _load(folder: Path, names: Iterable[str]) -> Iterator[OffloadResult]:
    for name in names:
        file = folder / f"{name}.json"
        if not file.exists():
            continue
        try:
            yield decode(OffloadResult, json.loads(file.read_text(encoding="utf-8")))
        except (KeyError, TypeError, ValueError) as error:
            raise OptionError(
                f"'{file}': expected a result of this version, found another file ({error}); "
                "delete it, and measure again"
            ) from error


def _measure(
    options: argparse.Namespace, codegens: tuple[str, ...], given: dict[str, str], name: str
) -> None:
    print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    result = measure_offload(
        OffloadRequest(
            name, codegens, plugin_paths(options), options.scale, 1, options.threads,
            options.seconds, options.patience, given,
        )
    )  # fmt: skip
    text = json.dumps(dataclasses.asdict(result), indent=1)
    (options.folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    for line in failures([result]):
        print(line, file=sys.stderr, flush=True)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the requested models, and write a page of all results.

    ``--folder`` has the results of this and of earlier calls; ``--output`` names the page.

    Raises OptionError for unknown models, and for options or files that cannot be used.
    """
    options = _parser().parse_args(arguments)
    codegens, names = chosen_codegens(options), _select(options.models)
    given = module_options(options, codegens)
    _check(options)
    for name in names:
        if not (options.new and (options.folder / f"{name}.json").exists()):
            _measure(options, codegens, given, name)
        options.output.write_text(page(list(_load(options.folder, PUBLISHED))), encoding="utf-8")
    print(summary(list(_load(options.folder, names))))
    print(f"written to {options.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
