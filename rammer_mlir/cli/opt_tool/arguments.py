"""Converts command lines in the style of LLVM's tools to the form that `argparse` parses.

Options have one or two dashes, switches accept ``=true`` and ``=false``, and an optional value is
only recognized after ``=``, because the next argument is the input.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rammer_mlir.errors import OptionError

OFF = "no-"
"""Prefix of the option that turns a switch off; the help does not show that option."""

_TRUE, _FALSE = ("true", "TRUE", "1"), ("false", "FALSE", "0")


def add_switch(
    parser: argparse.ArgumentParser, name: str, help_text: str, *, default: bool | None = False
) -> None:
    """Add an option that is on or off: ``--NAME``, ``--NAME=true`` or ``--NAME=false``.

    ``default`` is the value if the option is absent; with the default None, an absent option can
    be distinguished from both values.
    ``help_text`` is shown by ``--help``.
    """
    place: Any = name.replace("-", "_")
    parser.add_argument(
        f"--{name}", dest=place, action="store_true", default=default, help=help_text
    )
    parser.add_argument(
        f"--{OFF}{name}", dest=place, action="store_false", default=default, help=argparse.SUPPRESS
    )


def normalized(
    arguments: Sequence[str], parser: argparse.ArgumentParser, bare_values: Mapping[str, str]
) -> list[str]:
    """Return the arguments in the form that ``argparse`` parses.

    Long options get two dashes. An option whose optional value is omitted gets the value that
    ``bare_values`` has for the option.

    Args:
        arguments: the command line without the program's name.
        parser: the parser of all options except passes.
        bare_values: the values to add, by the names of the options, without dashes.

    Raises:
        OptionError: if a switch has another value than true or false.
    """
    known = parser._option_string_actions  # pyright: ignore[reportPrivateUsage]
    return list(_normalized(arguments, known, bare_values))


def _normalized(
    arguments: Sequence[str],
    known: Mapping[str, argparse.Action],
    bare_values: Mapping[str, str],
) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        if is_value or not argument.startswith("-") or not argument.strip("-"):
            is_value = False
            yield argument
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        flag = f"-{name}" if len(name) == 1 else f"--{name}"
        action = known.get(flag)
        if len(name) == 1 and equals:
            yield from (flag, value)
            continue
        if action is None:
            yield f"--{name}{equals}{value}" if len(name) > 1 else argument
            continue
        if action.nargs == 0 and equals:
            yield _switched(name, value)
            continue
        if not equals and name in bare_values:
            yield f"{flag}={bare_values[name]}"
            continue
        # An argument after an option with a value is that value, whatever its first character.
        is_value = action.nargs != 0 and not equals
        yield f"{flag}{equals}{value}"


def _switched(name: str, value: str) -> str:
    if value in _TRUE:
        return f"--{name}"
    if value in _FALSE:
        return f"--{OFF}{name}"
    raise OptionError(f"--{name}: expected true or false, found '{value}'")
