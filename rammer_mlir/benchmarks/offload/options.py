"""Command-line options that select code generators."""

from __future__ import annotations

import argparse
from pathlib import Path

from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.support.plugins import load_plugins


def add_codegen_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select code generators, and the plug-ins that define them."""
    parser.add_argument(
        "--codegens", metavar="NAME,...", default="", help="code generators; default all there are"
    )
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="MODULE|FILE.py",
        help="Python module or file that registers code generators",
    )  # fmt: skip


def chosen_codegens(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the requested code generators, or of all if none is requested.

    Raises:
        OptionError: if no code generator is installed or defined by a plug-in, or a name is
            unknown.
    """
    load_plugins(options.plugin)
    names = tuple(filter(None, map(str.strip, options.codegens.split(",")))) or CODEGENS.names()
    if not names:
        raise OptionError("code generators: expected at least one, found none; name a --plugin")
    for name in names:
        if name not in CODEGENS.names():
            known = ", ".join(CODEGENS.names()) or "none; name a --plugin"
            raise OptionError(f"--codegens: expected one of {known}; found '{name}'")
    return names


def plugin_paths(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the requested plug-ins; files have absolute paths, for processes in other folders."""
    return tuple(str(Path(p).resolve()) if p.endswith(".py") else p for p in options.plugin)
