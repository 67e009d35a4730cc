"""Checks that the strings in a module (names, locations and attributes) are UTF-8.

MLIR allows any bytes in a string. Its Python bindings convert strings to ``str``: a string that is
not UTF-8 raises an exception, which ends the process if it is raised in a callback of MLIR, such as
a verifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.assembly.tokens import COMMENT, STRING
from rammer_mlir.errors import AssemblyError

_ESCAPED = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
"""Matches the escape ``\\XX`` with which MLIR prints a byte that is not ASCII."""

_TEXTS = re.compile(rf"{COMMENT}|(@|\bloc\(\s*|\b(?:sym_name|name)\s*=\s*)?({STRING})")
"""Matches a comment or a string literal.

Group 2 is the literal, None for a comment. Group 1 is the text before the literal if the literal
is the name of a symbol, location or value; otherwise it is None.
"""

_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|([nt"\\]))')
_NAMED_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}

_WITH_BYTES = ("gpu.binary", "gpu.object", "llvm.mlir.global", "rtask.module")
"""Names of operations and attributes that may contain binary data: machine code or byte arrays."""

_WITH_BYTES_STORED = frozenset((b"binary", b"mlir.global", b"code"))
"""Strings that occur in bytecode if the module contains one of ``_WITH_BYTES``.

The strings are operation names without the dialect, and the attribute ``code`` of `rtask.module`.
"""

_STRINGS = 0
"""The id of the string section in MLIR's bytecode."""


def check_encoding(module: str | bytes) -> None:
    """Check that the strings in a module, given as text or bytecode, are UTF-8.

    The attributes of some operations may contain binary data. If a module has such operations, only
    the names of symbols, locations and values are checked in its text, and nothing in its bytecode.

    Raises:
        AssemblyError: at the line of the first string that is not UTF-8; at line 0 for bytecode.
    """
    if isinstance(module, bytes):
        texts = _stored_texts(module)
        if _WITH_BYTES_STORED.isdisjoint(texts):
            for text in texts:
                if not _is_utf8(text):
                    raise _error(text, 0)
        return
    if not _ESCAPED.search(module):
        return
    has_data = any(name in module for name in _WITH_BYTES)
    for match in _TEXTS.finditer(module):
        text = match[2]
        if text is None or not _ESCAPED.search(text) or (has_data and match[1] is None):
            continue
        found = _unescaped(text[1:-1])
        if not _is_utf8(found):
            raise _error(found, module.count("\n", 0, match.start(2)) + 1)


def file_of(location: ir.FileLineColLoc) -> str:
    """Return the name of a location's file; "-" if the name is not UTF-8.

    The name may be other text: bytecode stores some attributes as text, and if MLIR finds an error
    in the text of an attribute, the diagnostic's location has this text as its file name.
    """
    return "-" if _ESCAPED.search(str(location)) else location.filename


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _error(text: bytes, line: int) -> AssemblyError:
    return AssemblyError(
        line, f"expected names and other texts in UTF-8, found {text[:40]!r}; rename it"
    )


def _unescaped(text: str) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if match[1] else _NAMED_ESCAPES[match[2]]

    return _ESCAPE.sub(byte, text.encode())


def _stored_texts(bytecode: bytes) -> list[bytes]:
    """Return the strings in a module's bytecode; an empty list if its sections are malformed.

    The format is described in MLIR's "MLIR Bytecode Format".
    """
    try:
        for kind, begin, end in _sections(bytecode):
            if kind == _STRINGS:
                return _texts_of(bytecode[begin:end])
    except (IndexError, ValueError):
        pass  # MLIR's reader reports the damage
    return []


def _sections(bytecode: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield each section's id, and the byte offsets of the start and the end of its content."""
    _, at = _number(bytecode, len(b"ML\xefR"))  # the version
    at = bytecode.index(b"\0", at) + 1  # the producer
    while at < len(bytecode):
        kind = bytecode[at]
        length, at = _number(bytecode, at + 1)
        if kind >> 7:
            alignment, at = _number(bytecode, at)
            if alignment < 1:
                raise ValueError(f"alignment {alignment}")
            at += -at % alignment
        yield kind & 0x7F, at, at + length
        at += length


def _texts_of(section: bytes) -> list[bytes]:
    """Return the strings in the bytecode's string section, from the last to the first.

    The section begins with the count of strings and their lengths in bytes, from the last string to
    the first. A length includes the string's terminating zero byte.
    """
    count, at = _number(section, 0)
    texts: list[bytes] = []
    end = len(section)
    for _ in range(count):
        length, at = _number(section, at)
        begin = end - length
        if begin < at or length < 1:
            raise ValueError(f"length {length}")
        texts.append(section[begin : end - 1])
        end = begin
    return texts


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode the variable-length integer at byte ``at``; return its value, and its end offset.

    The number of trailing zero bits of the first byte is the number of bytes that follow it.
    """
    first = data[at]
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    more = (first & -first).bit_length() - 1
    end = at + 1 + more
    return int.from_bytes(data[at:end], "little") >> (more + 1), end
