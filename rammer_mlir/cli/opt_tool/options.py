"""Defines the options of ``rammer-opt``; `docs/rammer-opt.md` compares them with mlir-opt's."""

from __future__ import annotations

from rammer_mlir.cli.common import STREAM, ArgumentParser, add_tool_options
from rammer_mlir.cli.model_options import (
    add_dim_option,
    add_external_data_option,
    add_shape_option,
)
from rammer_mlir.cli.opt_tool.arguments import add_switch

SPLIT_MARKER = "// -----"

BARE_VALUES = {"split-input-file": SPLIT_MARKER, "verify-diagnostics": "all"}
"""Values that options have if they are given without a value."""


def opt_parser() -> ArgumentParser:
    """Return the parser of all options of ``rammer-opt``, except the flags that name passes."""
    parser = ArgumentParser(
        prog="rammer-opt",
        description="Run passes on MLIR text, bytecode or an ONNX model.",
        usage="%(prog)s [INPUT|-] [-o OUT] [--pass-pipeline=PIPELINE | --PASS[=OPTIONS] ...] [...]",
        epilog="An option may begin with one dash or two. --list-passes lists the passes.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default=STREAM, metavar="INPUT", help="a file; - for standard input")
    add("-o", dest="output", default=STREAM, metavar="OUT", help="a file; - for standard output")
    _add_pipeline(parser)
    _add_input(parser)
    _add_output(parser)
    _add_ir_printing(parser)
    _add_diagnostics(parser)
    _add_measuring(parser)
    add_tool_options(parser)
    return parser


def _add_pipeline(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-p",
        "--pass-pipeline",
        metavar="PIPELINE",
        help="for example 'builtin.module(cse,rtask-tile)'",
    )
    add_switch(parser, "list-passes", "list our passes; --PASS runs one")
    add_switch(parser, "show-dialects", "list the dialects")
    add_switch(parser, "print-irdl", "print the definition of the rtask dialect in IRDL")
    add_switch(parser, "print-reference", "print the reference of the rtask dialect in Markdown")
    add_switch(parser, "print-pass-reference", "print the reference of our passes in Markdown")
    add_switch(parser, "dump-pass-pipeline", "print the pipeline, with all options, and run it")
    add(
        "--load",
        "--plugin",
        dest="plugin",
        action="append",
        default=[],
        metavar="MODULE|FILE.py",
        help="import a module, or execute a file, that registers passes, policies, devices, ... "
        "(docs/extending.md); may be repeated",
    )
    add_switch(parser, "verify-each", "verify the module after every pass", default=True)
    add_switch(parser, "run-reproducer", "run the pipeline that stands in the input")
    add("--mlir-generate-reproducer", metavar="FILE", help="write a reproducer, and run")
    add(
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="write a reproducer if a pass fails, or crashes the process",
    )
    add_switch(parser, "mlir-pass-pipeline-local-reproducer", "reproduce the pass that fails alone")
    add_switch(parser, "mlir-disable-threading", "has no effect: passes run in one thread")


def _add_input(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--split-input-file",
        metavar="=MARKER",
        help=f"process the parts between lines that begin with the marker, '{SPLIT_MARKER}' if "
        "none is given",
    )
    parser.add_argument(
        "--output-split-marker",
        default=SPLIT_MARKER,
        metavar="MARKER",
        help=f"the line between the outputs of parts, '{SPLIT_MARKER}' by default",
    )
    parser.add_argument(
        "--irdl-file", metavar="FILE", help="load the dialects that a file defines in IRDL"
    )
    add_switch(parser, "allow-unregistered-dialect", "accept unknown operations")
    add_switch(
        parser, "no-implicit-module", "expect a module in the input, and do not add one around it"
    )
    add_switch(parser, "verify-roundtrip", "check that text and bytecode are read back unchanged")
    add_dim_option(parser)
    add_shape_option(parser)
    add_external_data_option(parser)


def _add_output(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_switch(parser, "emit-bytecode", "write bytecode instead of text")
    add("--emit-bytecode-version", type=int, metavar="N", help="the version of the bytecode")
    add_switch(parser, "emit-llvm-ir", "write LLVM IR, of a module that is in the LLVM dialect")
    add_switch(
        parser, "emit-object", "write an object file, of a module that is in the LLVM dialect"
    )
    add_switch(parser, "mlir-print-debuginfo", "print locations")
    add_switch(parser, "mlir-pretty-debuginfo", "print locations in a shorter form")
    add_switch(parser, "mlir-print-op-generic", "print all operations generically")
    add_switch(parser, "print-rtask-generic", "print rtask operations generically")
    add_switch(
        parser,
        "print-rtask-segments",
        "print generically, for tools that have the dialect from --print-irdl alone",
    )
    add_switch(parser, "mlir-print-local-scope", "print types and attributes without aliases")
    add_switch(parser, "mlir-print-skip-regions", "leave out what operations hold")
    add_switch(parser, "mlir-use-nameloc-as-prefix", "name values by the names in locations")
    add(
        "--mlir-elide-elementsattrs-if-larger",
        type=int,
        metavar="N",
        help="print '...' in place of dense constants of more elements",
    )
    add(
        "--mlir-elide-resource-strings-if-larger",
        type=int,
        metavar="N",
        help="print '...' in place of resources of more characters",
    )


def _add_ir_printing(parser: ArgumentParser) -> None:
    add = parser.add_argument
    for when in ("before", "after"):
        add(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS,...",
            help=f"print the IR {when} these passes",
        )
        add_switch(parser, f"mlir-print-ir-{when}-all", f"print the IR {when} every pass")
    add_switch(parser, "mlir-print-ir-after-change", "print the IR after passes that change it")
    add_switch(parser, "mlir-print-ir-after-failure", "print the IR that a failed pass leaves")
    add_switch(parser, "mlir-print-ir-module-scope", "has no effect: the whole module is printed")
    add(
        "--mlir-print-ir-tree-dir",
        metavar="FOLDER",
        help="write these printings to files in a folder, instead of standard error",
    )


def _add_diagnostics(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--verify-diagnostics",
        choices=("all", "only-expected"),
        metavar="=all|only-expected",
        help="check 'expected-error {{...}}' comments; accept others with only-expected",
    )
    add_switch(
        parser, "color", "print diagnostics in color; by default on a terminal", default=None
    )
    add_switch(
        parser, "mlir-print-op-on-diagnostic", "show the operation of a diagnostic", default=True
    )
    add_switch(parser, "mlir-disable-diagnostic-notes", "leave out notes")


def _add_measuring(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_switch(parser, "mlir-timing", "print the time of every pass")
    add("--mlir-timing-display", choices=("tree", "list"), default="tree", help="its form")
    add("--mlir-output-format", choices=("text", "json"), default="text", help="its format")
    add_switch(parser, "mlir-pass-statistics", "print the statistics of MLIR's passes")
    add(
        "--mlir-pass-statistics-display",
        choices=("list", "pipeline"),
        default="pipeline",
        help="their form",
    )
