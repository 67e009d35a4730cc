"""Reads operations without regions in the generic form that MLIR prints, one per line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rammer_mlir.dialects.rtask.assembly import tokens

_INTEGER = re.compile(r"(-?\d{1,20}) : i64")
_OPERANDS = re.compile(r"\(([^()]*)\)(?: \{)?")
_QUOTED = re.compile(tokens.STRING)
_PLAIN = re.compile(r'[^][(){}<>"]*+\}')


class Irregular(Exception):
    """An error: the readable form (custom assembly) cannot represent an operation.

    The reason is that an attribute is missing or has an unusual type; the operation is then printed
    in the generic form.
    """


@dataclass(frozen=True)
class GenericOp:
    """The parts of an operation in the generic form, each as the text that MLIR prints.

    Attributes:
        operands: the operands' names, separated by commas.
        attributes: the value of each attribute by key; an empty string for a unit attribute.
        type: the signature `` : (T, T) -> T``.
        location: `` loc(...)``, or an empty string.
    """

    operands: str
    attributes: Mapping[str, str]
    type: str
    location: str

    def value(self, key: str, pattern: re.Pattern[str]) -> str:
        """Return the text that a regular expression extracts from the value of attribute ``key``.

        ``pattern`` has to match the whole value. The result is the text of its last group, or the
        whole value if it has no group.

        Raises:
            Irregular: if the attribute is missing or does not match.
        """
        match = pattern.fullmatch(self.attributes.get(key, ""))
        if match is None:
            raise Irregular
        return match[match.lastindex or 0]

    def integer(self, key: str) -> str:
        """Return the digits of the i64 attribute ``key``.

        Raises:
            Irregular: if the attribute is missing, or is not an i64.
        """
        return self.value(key, _INTEGER)

    def others(self, known: Collection[str]) -> str:
        """Return the attributes with keys outside of ``known`` as a dictionary in MLIR's syntax.

        Return an empty string if there are none.
        """
        left = [
            f"{key} = {value}" if value else key
            for key, value in self.attributes.items()
            if key not in known
        ]
        return f"{{{', '.join(left)}}}" if left else ""


def read_op(text: str) -> GenericOp:
    """Return the parts of an operation from the text after its name.

    The text has the form ``(OPERANDS) {ATTRIBUTES} : TYPE LOCATION``.

    Raises:
        Irregular: if the text does not have this form.
    """
    match = _OPERANDS.match(text)
    if match is None:
        raise Irregular
    end = match.end()
    attributes: Mapping[str, str] = {}
    if match[0].endswith("{"):
        begin, end = end, _end_of_dictionary(text, end)
        attributes = read_dictionary(text[begin : end - 1])
    signature, found, location = text[end:].partition(" loc(")
    if not signature.startswith(" : "):
        raise Irregular
    return GenericOp(match[1], attributes, signature, f"{found}{location}")


def read_dictionary(text: str) -> Mapping[str, str]:
    """Return the values of a dictionary's attributes by key, from its text without braces.

    An attribute without an equals sign is a unit attribute; its value is an empty string.

    Raises:
        Irregular: if brackets do not match, or no value follows an equals sign.
    """
    found: dict[str, str] = {}
    for entry in read_list(text):
        key, equals, value = _split_entry(entry)
        found[key] = value
        if equals and not value:
            raise Irregular
    return found


def read_list(text: str) -> list[str]:
    """Split ``text`` at the commas that are outside of brackets and strings.

    Raises:
        Irregular: if brackets do not match.
    """
    found = tokens.split_list(text)
    if found is None:
        raise Irregular
    return found


@lru_cache(maxsize=4096)
def operand_types(signature: str) -> tuple[str, ...]:
    """Return the types of the operands in a signature `` : (T, T) -> ()``.

    Raises:
        Irregular: if the signature does not have this form, for example because it has results.
    """
    if not (signature.startswith(" : (") and signature.endswith(") -> ()")):
        raise Irregular
    return tuple(read_list(signature.removeprefix(" : (").removesuffix(") -> ()")))


def _split_entry(entry: str) -> tuple[str, str, str]:
    # A quoted key may hold " = " itself.
    quoted = _QUOTED.match(entry)
    if quoted is None:
        return entry.partition(" = ")
    rest = entry[quoted.end() :]
    return quoted[0], rest[:3], rest[3:]


def _end_of_dictionary(text: str, begin: int) -> int:
    plain = _PLAIN.match(text, begin)
    if plain is not None:
        return plain.end()
    depth = 1
    for match in tokens.PARTS.finditer(text, begin):
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth:
            return match.end()
    raise Irregular
