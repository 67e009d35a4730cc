"""Starts each command-line tool by importing its module only when the tool is called.

If that import fails because a package is missing, the tool reports a one-line error, as for other
errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from rammer_mlir.cli.common import run_tool
from rammer_mlir.errors import MissingPackageError
from rammer_mlir.support.packages import told_if_missing


class _Tool(Protocol):
    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the tool and return its exit code."""
        ...


def start(name: str, arguments: Sequence[str]) -> int:
    """Run a command-line tool on ``arguments``, and return its exit code: 1 after an error.

    ``name`` is the tool's module in the package ``rammer_mlir.cli``, such as ``compile``.
    """
    refused: MissingPackageError
    try:
        with told_if_missing():
            tool = cast(_Tool, import_module(f"rammer_mlir.cli.{name}"))
    except MissingPackageError as error:
        refused = error
    else:
        return tool.main(arguments)

    def refuse() -> int:
        raise refused

    return run_tool(refuse, debug="--debug" in arguments)


def compile_model() -> int:
    """Run ``rammer-compile`` with the arguments of the process, and return its exit code."""
    return start("compile", sys.argv[1:])


def run_model() -> int:
    """Run ``rammer-run`` with the arguments of the process, and return its exit code."""
    return start("run", sys.argv[1:])


def run_passes() -> int:
    """Run ``rammer-opt`` with the arguments of the process, and return its exit code."""
    return start("opt", sys.argv[1:])
