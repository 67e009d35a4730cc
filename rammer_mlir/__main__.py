"""Starts a command-line tool by ``python -m rammer_mlir TOOL ...``.

The tool's script need not be on ``PATH``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rammer_mlir.cli.common import ArgumentParser, add_version_option, run_tool
from rammer_mlir.cli.start import start
from rammer_mlir.errors import OptionError

TOOLS = {
    "compile": "compiles an ONNX model to an artifact, or prints one of its stages",
    "run": "runs a model or an artifact",
    "opt": "runs passes on MLIR text, bytecode or an ONNX model",
}
"""The purpose of each tool as text, by the tool's module in ``rammer_mlir.cli``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool named by the first argument, or list the tools; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in TOOLS:
        return start(arguments[0], arguments[1:])
    return run_tool(lambda: _list_tools(arguments), debug="--debug" in arguments)


def _list_tools(arguments: Sequence[str]) -> int:
    lines = "\n".join(f"  {name:<10}{words}" for name, words in TOOLS.items())
    parser = ArgumentParser(
        prog="python -m rammer_mlir",
        usage="%(prog)s TOOL ...",
        description=f"tools:\n{lines}\n\nTOOL --help says what a tool takes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version_option(parser)
    _, rest = parser.parse_known_args(arguments)
    if rest:
        raise OptionError(
            f"expected a tool as first argument, one of {', '.join(TOOLS)}, found '{rest[0]}'; "
            "put its name before everything else"
        )
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
