"""Parses option texts, such as ``candidates=3 policy=wavefront sizes=4,8``, to typed values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args, get_origin

from rammer_mlir.errors import RammerError

_ITEM = re.compile(r"""\s*([\w.-]+)(?:=("[^"]*"|'[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|[^\s]*))?""")
_BRACKETS = ("''", '""', "{}", "[]")
_BOOLS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


def values_of_text(
    owner: str, text: str, kinds: Mapping[str, object], error: type[RammerError]
) -> dict[str, object]:
    """Return the values of the options in ``text``, by option name.

    An option name in ``text`` may have dashes in place of underscores.

    Args:
        owner: name of the pass or other object that has the options, for messages.
        text: ``key=value`` pairs, separated by blanks.
        kinds: types of the options by name: int, bool, str, float, a ``Literal``, or a list or
            tuple of one of these types.
        error: class of the errors to raise.

    Raises:
        RammerError: of class ``error``, if an option is unknown, given twice or malformed.
    """
    values: dict[str, object] = {}
    reader = _Reader(owner, error)
    for key, word in reader.items(text):
        name = key.replace("-", "_")
        if name not in kinds:
            raise reader.unknown(key, list(kinds))
        if name in values:
            raise error(f"'{owner}': option '{key}' is given twice")
        values[name] = reader.value(key, word, kinds[name])
    return values


class _Reader:
    def __init__(self, owner: str, error: type[RammerError]) -> None:
        self._owner, self._error = owner, error

    def items(self, options: str) -> list[tuple[str, str]]:
        items: list[tuple[str, str]] = []
        rest = options.strip()
        while rest:
            match = _ITEM.match(rest)
            if not match:
                raise self._failure(f"expected options 'key=value', found '{rest}'")
            key, text = match.groups()
            if text is None:
                raise self._failure(f"option '{key}': expected '{key}=value', found no value")
            items.append((key, text[1:-1] if text[:1] + text[-1:] in _BRACKETS else text))
            rest = rest[match.end() :].strip()
        return items

    def unknown(self, key: str, names: list[str]) -> RammerError:
        known = [name.replace("_", "-") for name in names]
        if not known:
            return self._failure(f"unknown option '{key}': expected none, it has no options")
        close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
        hint = f", did you mean '{close[0]}'?" if close else ""
        return self._failure(f"unknown option '{key}': expected one of {', '.join(known)}{hint}")

    def value(self, key: str, text: str, kind: object) -> object:
        origin = get_origin(kind)
        if origin in (list, tuple):
            element = get_args(kind)[0]
            words = [word.strip() for word in text.split(",")] if text else []
            values = [self._scalar(key, word, element) for word in words]
            return values if origin is list else tuple(values)
        return self._scalar(key, text, kind)

    def _scalar(self, key: str, text: str, kind: object) -> object:
        if get_origin(kind) is Literal:
            if text not in get_args(kind):
                expected = " or ".join(map(str, get_args(kind)))
                raise self._failure(f"option '{key}': expected {expected}, found '{text}'")
            return text
        readers: dict[object, Callable[[str], object]] = {
            bool: lambda word: _BOOLS[word.lower()],
            int: int,
            float: float,
            str: str,
        }
        names: dict[object, str] = {bool: "true or false", int: "an integer", float: "a number"}
        try:
            return readers[kind](text)
        except (KeyError, ValueError):
            words = f"option '{key}': expected {names[kind]}, found '{text}'"
            raise self._failure(words) from None

    def _failure(self, words: str) -> RammerError:
        return self._error(f"'{self._owner}': {words}")
