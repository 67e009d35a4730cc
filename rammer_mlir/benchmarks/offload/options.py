"""Add and read the command-line options that select code generators."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rammer_mlir.cli.model_options import parse_pairs
from rammer_mlir.errors import OptionError
from rammer_mlir.passes.regions.codegen import CODEGENS
from rammer_mlir.passes.regions.declared_options import check_module_options
from rammer_mlir.support.plugins import load_plugins

_FLAG, _METAVAR = "--module-option", "NAME.OPTION=VALUE"


def add_codegen_options(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--codegens``, ``--plugin`` and ``--module-option`` to a command."""
    parser.add_argument(
        "--codegens", metavar="NAME,...", default="", help="code generators; default all there are"
    )
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="MODULE|FILE.py",
        help="Python module or file that registers code generators",
    )  # fmt: skip
    parser.add_argument(
        _FLAG, action="append", default=[], metavar=_METAVAR,
        help="an option of a code generator or its engine, as openvino.precision=bf16",
    )  # fmt: skip


def chosen_codegens(options: argparse.Namespace) -> tuple[str, ...]:
    """Load the plug-ins; return the names of the requested code generators.

    If none is requested, return the names of all registered code generators.

    Raises:
        OptionError: if a name is unknown, or if no code generator is registered.
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


def module_options(options: argparse.Namespace, codegens: Sequence[str]) -> dict[str, str]:
    """Return the values of the code generators' own options, keyed by ``NAME.OPTION``.

    NAME is the name of a code generator. ``codegens`` are the names of the requested code
    generators.

    Raises:
        OptionError: if an argument is not of the form ``NAME.OPTION=VALUE``, repeats an option, has
            a NAME that is not in ``codegens``, or has an option or a value that its code generator
            does not know.
    """
    found = parse_pairs(_FLAG, _METAVAR, options.module_option)
    for name, value in found.items():
        owner, _, option = name.partition(".")
        if not option or owner not in codegens:
            raise OptionError(
                f"{_FLAG} '{name}={value}': expected {_METAVAR}, where NAME is one of "
                f"{', '.join(codegens)}"
            )
    return check_module_options(found)


def plugin_paths(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the requested plug-ins: names of modules, and absolute paths of files.

    Absolute paths stay valid in child processes with another working directory.
    """
    return tuple(str(Path(p).resolve()) if p.endswith(".py") else p for p in options.plugin)
