"""Prints a module in the readable form, by rewriting the `rtask` operations in MLIR's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rammer_mlir.dialects.rtask.assembly.generic_op import Irregular
from rammer_mlir.dialects.rtask.assembly.names import NAMED
from rammer_mlir.dialects.rtask.assembly.print_kernel import print_kernel
from rammer_mlir.dialects.rtask.assembly.print_operator import print_operator
from rammer_mlir.dialects.rtask.assembly.print_program import print_program

_OPERATION = re.compile(r'(?P<indent> *)(?P<results>%[^=]*= )?"rtask\.(?P<name>\w+)"(?P<rest>\(.*)')
_MAP = re.compile(r"(#\w+) = (affine_map<.*>)")
_ALIAS = re.compile(r"#\w+")


def to_readable(text: str, names: Sequence[str] = ()) -> str:
    """Rewrite the `rtask` operations in MLIR's text to the readable form, and return the new text.

    Args:
        text: a module as MLIR prints it: one operation, or the start or end of a region, per line.
        names: for each `rtask.operator` and `rtask.run`, in the order of the text, the name of the
            model's node as a string literal, or an empty string. If the count of names differs from
            the count of these operations, no names are printed.
    """
    lines = text.split("\n")
    printed = _Printer(lines, names).lines()
    return "\n".join(_without_unused_maps(list(printed)))


class _Printer:
    def __init__(self, lines: Sequence[str], names: Sequence[str]) -> None:
        self._lines = lines
        self._maps = _affine_maps(lines)
        places = [number for number, line in enumerate(lines) if NAMED.match(line)]
        self._names = dict(zip(places, names, strict=True)) if len(places) == len(names) else {}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the readable form."""
        number = 0
        while number < len(self._lines):
            line = self._lines[number]
            match = _OPERATION.fullmatch(line) if '"rtask.' in line else None
            count, text = (1, line) if match is None else self._rewrite(number, match)
            number += count
            yield text

    def _rewrite(self, number: int, match: re.Match[str]) -> tuple[int, str]:
        """Return the count of lines of the operation at line ``number``, and its readable form.

        ``match`` is the match of the operation's first line. If the operation has no readable form,
        return 1 and the first line unchanged.
        """
        indent, rest = match["indent"], match["rest"]
        try:
            if match["name"] == "kernel":
                return 1, print_kernel(indent, rest, self._maps)
            if match["name"] == "operator":
                begin = f"{indent}{match['results'] or ''}"
                return 1, print_operator(begin, rest, self._names.get(number, ""))
            if match["name"] == "program":
                return print_program(self._lines, number, self._names)
        except Irregular:
            pass
        return 1, match[0]


def _affine_maps(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the affine maps that MLIR prints before the module, by alias such as ``#map``.

    ``lines`` is the text that MLIR prints.
    """
    found: dict[str, str] = {}
    for line in lines:
        if not line.startswith(("#", "!")):
            break
        match = _MAP.fullmatch(line)
        if match is not None:
            found[match[1]] = match[2]
    return found


def _without_unused_maps(lines: list[str]) -> list[str]:
    """Return the lines without the definitions of affine map aliases that no line uses any more.

    Such aliases were used only by rKernels, which the readable form prints with inline maps.
    """
    head = next((i for i, line in enumerate(lines) if not line.startswith(("#", "!"))), 0)
    defined = [line for line in lines[:head] if _MAP.fullmatch(line)]
    if not defined:
        return lines
    used = {alias for line in lines[head:] for alias in _ALIAS.findall(line)}
    used |= {alias for line in lines[:head] for alias in _ALIAS.findall(line)[1:]}
    unused = {line for line in defined if line.partition(" ")[0] not in used}
    return [line for line in lines[:head] if line not in unused] + lines[head:]
