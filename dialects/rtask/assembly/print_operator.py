"""Prints ``rtask.operator`` in the readable form (custom assembly)."""

from __future__ import annotations

import re

from rammer_mlir.dialects.rtask.assembly import tokens
from rammer_mlir.dialects.rtask.assembly.generic_op import read_op

_KNOWN = ("kernels", "operator_id")
_ONE = re.compile(rf"\[({tokens.SYMBOL})\]")
_SEVERAL = re.compile(rf"\[{tokens.SYMBOL}(?:, {tokens.SYMBOL})*+\]")


def print_operator(begin: str, text: str, name: str) -> str:
    """Return the readable form of an rOperator.

    Args:
        begin: the text before the operation's name: indentation and results.
        text: the generic form after the operation's name.
        name: the name of the model's node as a string literal, or an empty string.

    Raises:
        Irregular: if the rOperator has no readable form.
    """
    op = read_op(text)
    parts = [f"{begin}rtask.operator"]
    if "operator_id" in op.attributes:
        parts.append(op.integer("operator_id"))
    if name:
        parts.append(name)
    several = "," in op.attributes.get("kernels", "")
    kernels = op.value("kernels", _SEVERAL if several else _ONE)
    parts.append(f"{kernels}({op.operands})")
    others = op.others(_KNOWN)
    if others:
        parts.append(others)
    return f"{' '.join(parts)}{op.type}{op.location}"
