"""Pass options: ``candidates=3 policy=wavefront sizes=4,8`` becomes the fields of a pass."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from typing import get_args, get_origin, get_type_hints

from rammer_mlir.errors import PassError
from rammer_mlir.passes.base import Pass

_ITEM = re.compile(r"""\s*([\w.-]+)(?:=("[^"]*"|'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|[^\s]*))?""")
_BRACKETS = ("''", '""', "{}", "[]")
_BOOLS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


def create_pass(kind: type[Pass], options: str) -> Pass:
    """Create a pass from the text between its braces; underscores may be written as dashes.

    Raises:
        PassError: if an option is unknown, given twice or malformed.
    """
    hints = get_type_hints(kind)
    fields = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
    values: dict[str, object] = {}
    for key, text in _items(kind.name, options):
        field = key.replace("-", "_")
        if field not in fields:
            raise PassError(_unknown_option(kind.name, key, list(fields)))
        if field in values:
            raise PassError(f"'{kind.name}': option '{key}' is given twice")
        values[field] = _convert(kind.name, key, text, fields[field])
    return kind(**values)


def describe_options(kind: type[Pass]) -> str:
    """Return the options with their defaults as a pipeline writes them."""
    return " ".join(
        f"{field.name.replace('_', '-')}={_write(field.default)}"
        for field in dataclasses.fields(kind)
    )


def _items(name: str, options: str) -> list[tuple[str, str]]:
    items: list[tuple[str, str]] = []
    rest = options.strip()
    while rest:
        match = _ITEM.match(rest)
        if not match:
            raise PassError(f"'{name}': expected options 'key=value', found '{rest}'")
        key, text = match.groups()
        if text is None:
            raise PassError(f"'{name}': option '{key}': expected '{key}=value', found no value")
        items.append((key, text[1:-1] if text[:1] + text[-1:] in _BRACKETS else text))
        rest = rest[match.end() :].strip()
    return items


def _unknown_option(name: str, key: str, fields: list[str]) -> str:
    known = [field.replace("_", "-") for field in fields]
    if not known:
        return f"'{name}': unknown option '{key}': expected none, the pass has no options"
    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    hint = f", did you mean '{close[0]}'?" if close else ""
    return f"'{name}': unknown option '{key}': expected one of {', '.join(known)}{hint}"


def _convert(name: str, key: str, text: str, hint: object) -> object:
    origin = get_origin(hint)
    if origin in (list, tuple):
        element = get_args(hint)[0]
        words = [word.strip() for word in text.split(",")] if text else []
        values = [_scalar(name, key, word, element) for word in words]
        return values if origin is list else tuple(values)
    return _scalar(name, key, text, hint)


def _scalar(name: str, key: str, text: str, kind: object) -> object:
    readers: dict[object, Callable[[str], object]] = {
        bool: lambda word: _BOOLS[word.lower()],
        int: int,
        float: float,
        str: str,
    }
    expected: dict[object, str] = {bool: "true or false", int: "an integer", float: "a number"}
    try:
        return readers[kind](text)
    except (KeyError, ValueError):
        message = f"'{name}': option '{key}': expected {expected[kind]}, found '{text}'"
        raise PassError(message) from None


def _write(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
