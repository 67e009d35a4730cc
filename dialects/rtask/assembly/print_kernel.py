"""Prints ``rtask.kernel`` in the readable form (custom assembly)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rammer_mlir.dialects.rtask.assembly import tokens
from rammer_mlir.dialects.rtask.assembly.generic_op import (
    GenericOp,
    Irregular,
    read_dictionary,
    read_list,
    read_op,
)
from rammer_mlir.dialects.rtask.assembly.parse_kernel import ACCESSES, COSTS, DEFAULTS

_SYMBOL = re.compile(tokens.SYMBOL)
_SECONDS = re.compile(r"array<f64: ([-+.\w, ]+)>")
_ARRAY = re.compile(r"\[(.*)\]")
_ACCESS = re.compile(r"\{(.*)\}")
_OFFSETS = re.compile(r"affine_map<\(d0\) -> \((.*)\)>")
_SIZES = re.compile(r"array<i64(?:: ([-\d, ]+))?>")


def print_kernel(indent: str, text: str, maps: Mapping[str, str]) -> str:
    """Return the readable form of an ``rtask.kernel``.

    Args:
        indent: the indentation of the operation's first line.
        text: the generic form after the operation's name.
        maps: the affine map for each alias in ``text``, such as ``#map``.

    Raises:
        Irregular: if the operation has no readable form.
    """
    op = read_op(text)
    function = op.value("function", _SYMBOL)
    head = f"rtask.kernel {function} rtasks({op.integer('num_rtasks')})"
    costs = "".join(_costs(op))
    keys = _printed_accesses(op)
    others = op.others({"function", "num_rtasks", "seconds", *COSTS, *keys})
    attributes = f" attributes {others}" if others else ""
    lines = [f"{indent}{head}{costs}{attributes} {{"]
    for key in keys:
        for access in read_list(op.value(key, _ARRAY)):
            lines.append(f"{indent}  {key} {_access(access, maps)}")
    return "\n".join([*lines, f"{indent}}}{op.location}"])


def _costs(op: GenericOp) -> Iterator[str]:
    for key in COSTS:
        value = op.integer(key)
        if DEFAULTS.get(key) != value:
            yield f" {key}({value})"
    if "seconds" in op.attributes:
        yield f" seconds({op.value('seconds', _SECONDS)})"


def _printed_accesses(op: GenericOp) -> list[str]:
    """Return the keys of the attributes that list accesses, in the order in which they are printed.

    These are ``reads``, ``writes``, and ``updates`` if it is not empty.
    """
    return [key for key in ACCESSES if key != "updates" or op.attributes.get(key, "[]") != "[]"]


def _access(text: str, maps: Mapping[str, str]) -> str:
    """Return the readable form ``ARGUMENT[OFFSET +: SIZE, ...]`` of an access in generic form.

    ``maps`` has the affine map of each alias, such as ``#map``.

    Raises:
        Irregular: if ``text`` is not an access.
    """
    match = _ACCESS.fullmatch(text)
    if match is None:
        raise Irregular
    op = GenericOp("", read_dictionary(match[1]), "", "")
    given = op.attributes.get("offsets", "")
    map_text = _OFFSETS.fullmatch(maps.get(given, given))
    size_text = op.value("sizes", _SIZES)
    if map_text is None or op.others(("argument", "offsets", "sizes")):
        raise Irregular
    offsets = read_list(map_text[1])
    sizes = [] if size_text.startswith("array") else size_text.split(", ")
    if len(offsets) != len(sizes):
        raise Irregular
    box = ", ".join(f"{at} +: {size}" for at, size in zip(offsets, sizes, strict=True))
    return f"{op.integer('argument')}[{box}]"
