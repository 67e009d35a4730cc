"""``rammer-opt``: runs passes of this project and of MLIR on IR or on an ONNX model."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence

from rammer_mlir import dialects
from rammer_mlir.cli.common import ArgumentParser, run_tool, write_output
from rammer_mlir.cli.opt_tool.arguments import OFF, normalized
from rammer_mlir.cli.opt_tool.inputs import ModuleSource, read_sources
from rammer_mlir.cli.opt_tool.job import Job, printed_passes
from rammer_mlir.cli.opt_tool.listing import list_dialects, list_passes
from rammer_mlir.cli.opt_tool.options import BARE_VALUES, opt_parser
from rammer_mlir.compiler.registry import COMPILER_PASSES
from rammer_mlir.errors import OptionError
from rammer_mlir.lowering.registry import LOWERING_PASSES
from rammer_mlir.passes.instrumentation import read_reproducer
from rammer_mlir.passes.pipeline_steps import (
    check_pipeline,
    close_pass_name,
    expanded_pipeline,
    is_pass_of_mlir,
    pipeline_of_flags,
)
from rammer_mlir.passes.registry import EXTENSION_PASSES, PASSES, help_line
from rammer_mlir.support.log import shown_on_stderr
from rammer_mlir.support.plugins import load_plugins

ALL_PASSES = (*PASSES, *LOWERING_PASSES, *COMPILER_PASSES)
"""All passes: from `linalg` to `program`, lowering of rKernels, and passes that run programs."""

SECTIONS = (
    ("From linalg to a program", "passes", PASSES),
    ("From a program to native code", "lowering", LOWERING_PASSES),
    ("Passes that compile and run programs", "passes", COMPILER_PASSES),
)
"""Sections of the pass reference: title, folder of the lit tests, and passes."""

_OTHER_FORMS = ("emit-bytecode", "emit-llvm-ir", "emit-object")
"""Names of the switches for outputs in other forms than MLIR text."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_tool(lambda: _opt(arguments), debug="--debug" in arguments)


def _opt(arguments: Sequence[str]) -> int:
    parser = opt_parser()
    if any(argument.lstrip("-").startswith("print-completion") for argument in arguments):
        for kind in ALL_PASSES:  # otherwise unknown flags are passes
            parser.add_argument(f"--{kind.name}", help=help_line(kind))
    options, flags = parser.parse_known_args(normalized(arguments, parser, BARE_VALUES))
    with shown_on_stderr(options.verbose, quiet=options.quiet):
        return _run_passes(options, flags, parser)


def _run_passes(options: argparse.Namespace, flags: Sequence[str], parser: ArgumentParser) -> int:
    load_plugins(options.plugin)
    listing = _listing(options)
    if listing:
        print(listing)
        return 0
    _check_flags(options, flags, parser)
    sources: list[ModuleSource] | None = None
    if options.run_reproducer:
        sources = read_sources(options)
        pipeline = _recorded(options, flags, sources)
    else:
        pipeline = _pipeline(options, flags)
    check_pipeline(pipeline, passes=ALL_PASSES)
    if options.dump_pass_pipeline:
        print(expanded_pipeline(pipeline, passes=ALL_PASSES), file=sys.stderr)
    job = Job(options, pipeline, ALL_PASSES)
    # Process all parts, so that all diagnostics are shown.
    outputs = [job.run(source) for source in sources or read_sources(options)]
    if job.timing is not None:
        report = job.timing.report(
            display=options.mlir_timing_display, form=options.mlir_output_format
        )
        print(report, file=sys.stderr)
    written = [output for output in outputs if output is not None]
    if len(written) < len(outputs):
        return 1
    write_output(options.output, f"{options.output_split_marker}\n".encode().join(written))
    return 0


def _listing(options: argparse.Namespace) -> str:
    """Return the listing that an option requests, such as all passes; "" without such an option."""
    if options.list_passes:
        return list_passes(ALL_PASSES)
    if options.show_dialects:
        return list_dialects()
    if options.print_reference:
        from rammer_mlir.dialects.rtask.reference import reference

        return reference()
    if options.print_pass_reference:
        from rammer_mlir.cli.opt_tool.pass_reference import pass_reference

        return pass_reference(SECTIONS)
    return dialects.irdl_text() if options.print_irdl else ""


def _check_flags(options: argparse.Namespace, flags: Sequence[str], parser: ArgumentParser) -> None:
    """Raise OptionError for an unknown pass or argument, or for options that exclude each other.

    Users name passes by ``flags``, such as ``--canonicalize``, and as values of
    ``--mlir-print-ir-before`` and ``--mlir-print-ir-after``.
    """
    for flag in flags:
        if not flag.startswith("--"):
            raise OptionError(f"unexpected argument '{flag}': expected one input file and options")
        _check_pass(flag.removeprefix("--").partition("=")[0], parser)
    for when in ("before", "after"):
        for name in printed_passes(options, when):
            if not _is_pass(name):
                raise OptionError(f"--mlir-print-ir-{when}: unknown pass {_hinted(name)}")
    if flags and options.pass_pipeline is not None:
        raise OptionError(f"give '{flags[0]}' or --pass-pipeline, not both")
    forms = [name for name in _OTHER_FORMS if getattr(options, name.replace("-", "_"))]
    if len(forms) > 1:
        raise OptionError(f"give --{forms[0]} or --{forms[1]}, not both")
    if forms and options.split_input_file is not None:
        raise OptionError(f"--{forms[0]} writes one module: leave out --split-input-file")
    if options.emit_bytecode_version is not None and not options.emit_bytecode:
        raise OptionError("--emit-bytecode-version: expected --emit-bytecode too, found text")


def _is_pass(name: str) -> bool:
    own = [kind.name for kind in ALL_PASSES]
    return name in own or is_pass_of_mlir(name) or EXTENSION_PASSES.find(name) is not None


def _hinted(name: str) -> str:
    close = close_pass_name(name, [kind.name for kind in ALL_PASSES])
    return f"'{name}': " + (f"did you mean '{close}'?" if close else "see --list-passes")


def _check_pass(name: str, parser: ArgumentParser) -> None:
    if _is_pass(name):
        return
    own = [kind.name for kind in ALL_PASSES]
    close = _close_option(name, parser) or close_pass_name(name, own)
    hint = f"did you mean '--{close}'?" if close else "see --help and --list-passes"
    raise OptionError(f"unknown option or pass '--{name}': {hint}")


def _close_option(name: str, parser: ArgumentParser) -> str | None:
    flags: Iterable[str] = parser._option_string_actions  # pyright: ignore[reportPrivateUsage]
    names = [flag[2:] for flag in flags if flag.startswith("--") and not flag[2:].startswith(OFF)]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    return close[0] if close else None


def _pipeline(options: argparse.Namespace, flags: Sequence[str]) -> str:
    """Return the value of ``--pass-pipeline``, or else the pipeline of the passes in ``flags``."""
    if options.pass_pipeline is not None:
        given: str = options.pass_pipeline
        return given
    parts = (flag.removeprefix("--").partition("=") for flag in flags)
    return pipeline_of_flags((name, text) for name, _, text in parts)


def _recorded(
    options: argparse.Namespace, flags: Sequence[str], sources: Sequence[ModuleSource]
) -> str:
    """Return the pipeline that a reproducer records.

    A reproducer is a file with a module and the pipeline that failed on it. ``options.verify_each``
    becomes False if the reproducer records that the pipeline ran without verification. ``sources``
    are the modules of the tool's input.

    Raises:
        OptionError: if the command line names passes, or the input is not the text of a reproducer.
    """
    if flags or options.pass_pipeline is not None:
        raise OptionError("give --run-reproducer or passes, not both")
    if len(sources) != 1 or not isinstance(sources[0], str):
        raise OptionError("--run-reproducer: expected the text of one module, found another input")
    found = read_reproducer(sources[0])
    options.verify_each = options.verify_each and found.verify_each
    return found.pipeline


if __name__ == "__main__":
    sys.exit(main())
