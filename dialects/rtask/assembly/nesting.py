"""Checks the nesting depth of a module's text, because MLIR recurses at each level.

A text that is nested too deeply would overflow the stack of MLIR's parser, verifier or printer.
A level is an open bracket, also in a type, or one of several minus signs in a row in an affine
expression. The levels of an alias of a type or attribute include those of the aliases in its
definition. MLIR prints an alias with all aliases in it expanded, so the length of the expanded text
is limited, too.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rammer_mlir.errors import AssemblyError

MAX_NESTING = 1000
"""Maximum number of open brackets. MLIR overflows a stack of 8 MiB at about 4,000."""

MAX_EXPANDED = 1 << 20
"""Maximum number of characters of a type or attribute whose aliases are expanded."""

_CHUNK = 1 << 20
"""Bytes of text whose brackets are counted at a time, to bound the memory for long texts."""

_STEPS = np.zeros(256, np.int32)
_STEPS[list(b"{([")] = 1
_STEPS[list(b"})]")] = -1

_ANGLE_STEPS = np.zeros(256, np.int32)
_ANGLE_STEPS[ord("<")], _ANGLE_STEPS[ord(">")] = 1, -1

_NO_BRACKETS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=')
"""Matches text in which brackets do not count: strings, comments, arrows and comparisons."""

_SIGNS = re.compile(rf"(?:-[ \t\n]*){{{MAX_NESTING}}}")
_ALIAS = re.compile(r"^[ \t]*([#!][\w$.-]+)[ \t]*=(.*)$", re.MULTILINE)
_BRACKET = re.compile(r"[][{}()<>]")
_NAME = re.compile(r"[#!][\w$.-]+")


def check_nesting(text: str) -> None:
    """Check that the nesting of a text does not overflow the stack and end the process.

    Raises:
        AssemblyError: at the line where more than ``MAX_NESTING`` levels are open, or which defines
            an alias whose expanded text has more levels, or more than ``MAX_EXPANDED`` characters.
    """
    if sum(map(text.count, "{([")) > MAX_NESTING:
        _check_depth(text, _STEPS)
    if text.count("<") > MAX_NESTING and _deep_place(_without_arrows(text), _ANGLE_STEPS):
        _check_depth(_NO_BRACKETS.sub(_blank, text), _ANGLE_STEPS)
    # A row may be in a comment. Most texts have none, which takes less time to find out.
    has_row = "-" * MAX_NESTING in text.replace(" ", "").replace("\t", "").replace("\n", "")
    if has_row and (found := _SIGNS.search(_NO_BRACKETS.sub(_blank, text))):
        raise _too_deep(text.count("\n", 0, found.end()) + 1, "signs in a row")
    _check_aliases(text)


def _without_arrows(text: str) -> str:
    return text.replace("->", "  ").replace(">=", "  ").replace("<=", "  ")


def _blank(found: re.Match[str]) -> str:
    return " " * len(found.group())


def _check_depth(text: str, steps: NDArray[np.int32]) -> None:
    place = _deep_place(text, steps)
    if place is not None:
        raise _too_deep(text.encode()[:place].count(b"\n") + 1, "nested brackets")


def _deep_place(text: str, steps: NDArray[np.int32]) -> int | None:
    """Return the byte offset, in UTF-8, at which more than ``MAX_NESTING`` levels are first open.

    ``steps`` maps each byte value to the change of the count of open levels: 1, -1 or 0. A closing
    bracket without an opening one does not count. Return None if there is no such offset.
    """
    data = np.frombuffer(text.encode(), np.uint8)
    depth = least = 0
    for begin in range(0, len(data), _CHUNK):
        depths = depth + np.cumsum(steps[data[begin : begin + _CHUNK]])
        floor = np.minimum.accumulate(np.minimum(depths, least))
        if (depths - floor).max() > MAX_NESTING:
            return begin + int(np.argmax(depths - floor > MAX_NESTING))
        depth, least = int(depths[-1]), int(floor[-1])
    return None


def _too_deep(line: int, levels: str) -> AssemblyError:
    return AssemblyError(line, f"expected at most {MAX_NESTING} {levels}, found more: nest it less")


def _check_aliases(text: str) -> None:
    """Check the nesting depth and the length of each alias of a type or attribute.

    The limits, ``MAX_NESTING`` levels and ``MAX_EXPANDED`` characters, apply to the alias's text
    after all aliases in it are expanded.
    """
    levels: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for found in _ALIAS.finditer(text):
        name, value = found.groups()
        used = _NAME.findall(value)
        levels[name] = _levels_of(value) + max((levels.get(each, 0) for each in used), default=0)
        # Locations are not printed in messages.
        is_location = value.lstrip().startswith("loc(")
        lengths[name] = 0 if is_location else len(value) + sum(lengths.get(u, 0) for u in used)
        if used and levels[name] > MAX_NESTING:
            raise _too_deep(_line_of(found), "nested brackets in aliases")
        if used and lengths[name] > MAX_EXPANDED:
            raise _too_long(_line_of(found), name, lengths[name])


def _too_long(line: int, name: str, length: int) -> AssemblyError:
    return AssemblyError(
        line,
        f"expected at most {MAX_EXPANDED} characters of a type or attribute whose aliases are "
        f"expanded, found {length} in '{name}': name fewer aliases",
    )


def _levels_of(value: str) -> int:
    depth = most = 0
    for bracket in _BRACKET.findall(_NO_BRACKETS.sub("", value)):
        depth += 1 if bracket in "{([<" else -1
        most = max(most, depth)
    return most


def _line_of(found: re.Match[str]) -> int:
    return found.string.count("\n", 0, found.start()) + 1
