"""Rewrites the float literals of newer LLVM IR text to literals that every LLVM parses.

Newer LLVM prints ``+inf``, ``-qnan``, ``+nan(0x1)``, ``+snan(0x1)``, ``f0x3F800000``, and decimals
that must be rounded to the float type. Older parsers accept hexadecimal bit patterns, and decimals
only if the float type represents them exactly.
"""

from __future__ import annotations

import re

import numpy as np

_LITERAL = re.compile(
    r"(?P<type>\b(?:half|bfloat|float|double)\b)|"
    r"(?<![\w%@.$\-])(?P<literal>[+-](?:inf|qnan|s?nan\(0x[0-9a-fA-F]+\))|"
    r"f0x[0-9a-fA-F]+|-?\d+\.\d+e[+-]\d+)(?![\w.])"
)
_PRESENT = re.compile(r"[+-](?:inf|qnan|nan\(|snan\()|\bf0x|\d\.\d+e[+-]")

# Type: bits of the exponent, bits of the fraction, prefix of its hexadecimal form.
_FORMATS = {
    "half": (5, 10, "0xH"),
    "bfloat": (8, 7, "0xR"),
    "float": (8, 23, "0x"),
    "double": (11, 52, "0x"),
}


def rewrite_float_literals(ir_text: str) -> str:
    """Return LLVM IR with every float literal rewritten as a bit pattern of its type."""
    lines = ir_text.split("\n")
    return "\n".join(_rewrite_line(line) if _PRESENT.search(line) else line for line in lines)


def _rewrite_line(line: str) -> str:
    current = "float"

    def replace(match: re.Match[str]) -> str:
        nonlocal current
        if match["type"]:
            current = match["type"]
            return match["type"]
        return _hexadecimal(current, literal_bits(current, match["literal"]))

    return _LITERAL.sub(replace, line)


def literal_bits(kind: str, literal: str) -> int:
    """Return the bit pattern of a float literal in the syntax of newer LLVM, such as ``+inf``.

    ``kind`` is the name of the literal's type in LLVM IR: "half", "bfloat", "float" or "double".
    """
    exponent_bits, fraction_bits, _ = _FORMATS[kind]
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    sign = int(literal.startswith("-")) << (exponent_bits + fraction_bits)
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    quiet = 1 << (fraction_bits - 1)
    name = literal[1:].split("(")[0]
    if name == "inf":
        return sign | infinity
    if name == "qnan":
        return sign | infinity | quiet
    if name in ("nan", "snan"):
        payload = int(literal[literal.index("0x") + 2 : -1], 16)
        return sign | infinity | payload | (quiet if name == "nan" else 0)
    return _decimal_bits(kind, float(literal))


def _decimal_bits(kind: str, value: float) -> int:
    if kind == "double":
        return int(np.float64(value).view(np.uint64))
    if kind == "half":
        return int(np.float16(value).view(np.uint16))
    single = int(np.float32(value).view(np.uint32))
    if kind == "float":
        return single
    return (single + 0x7FFF + ((single >> 16) & 1)) >> 16


def _hexadecimal(kind: str, bits: int) -> str:
    """Return LLVM's hexadecimal literal of type ``kind`` for a bit pattern of that type.

    For an f32, LLVM's literal is the bit pattern of the f64 with the same value.
    """
    prefix = _FORMATS[kind][2]
    if kind == "float":
        return f"0x{_widen(bits):016X}"
    digits = 16 if kind == "double" else 4
    return f"{prefix}{bits:0{digits}X}"


def _widen(bits: int) -> int:
    """Return the bit pattern of the f64 with the same value as the f32 with bit pattern ``bits``.

    A NaN keeps its payload.
    """
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31 << 63) | (0x7FF << 52) | ((bits & 0x7FFFFF) << 29)
    return int(np.uint32(bits).view(np.float32).astype(np.float64).view(np.uint64))
