"""Marks operations as parts of composites and regions, by attributes that later passes read.

A composite is a match of a code generator's pattern. A region consists of the composites and single
operations that are given to the code generator together.

``rtask.composite = {name = "acc.conv_relu", match = 3 : i64}`` is on all operations of a match,
``rtask.region = {codegen = "acc", id = 2 : i64}`` on all operations of a region.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.ir.entry import COMPOSITE

REGION = "rtask.region"
"""Attribute of an operation: the number of its region and the region's code generator."""

READING = "rtask.reading"
"""Attribute of a composite's function: its recognized operations (``reading_attribute``)."""


@dataclass(frozen=True)
class Mark:
    """The value of ``rtask.composite`` or ``rtask.region``.

    Attributes:
        name: the name of the composite, or of the region's code generator.
        number: identifies the match or the region.
    """

    name: str
    number: int


_KEYS = {COMPOSITE: ("name", "match"), REGION: ("codegen", "id")}

_MAKERS = {COMPOSITE: "rtask-match-composites", REGION: "rtask-annotate-regions"}


def mark_of(op: ir.Operation, attribute: str) -> Mark | None:
    """Return the mark of an operation in ``attribute``; None if the operation has no mark.

    Raises:
        OperationError: if the attribute is malformed.
    """
    if attribute not in op.attributes:
        return None
    given = op.attributes[attribute]
    text, number = _KEYS[attribute]
    if isinstance(given, ir.DictAttr) and {item.name for item in given} == {text, number}:
        name, count = given[text], given[number]
        if isinstance(name, ir.StringAttr) and isinstance(count, ir.IntegerAttr):
            if name.value and count.value >= 0:
                return Mark(name.value, count.value)
    raise OperationError(
        op,
        f"attribute '{attribute}': expected {{{text} = \"NAME\", {number} = N : i64}}, found "
        f"{given}; remove it and run {_MAKERS[attribute]}",
    )


def set_mark(ops: Iterable[ir.Operation], attribute: str, mark: Mark) -> None:
    """Set ``attribute`` of operations to a mark."""
    text, number = _KEYS[attribute]
    for op in ops:
        with op.context:
            i64 = ir.IntegerType.get_signless(64)
            op.attributes[attribute] = ir.DictAttr.get(
                {text: ir.StringAttr.get(mark.name), number: ir.IntegerAttr.get(i64, mark.number)}
            )


def remove_mark(ops: Iterable[ir.Operation], attribute: str) -> None:
    """Remove ``attribute`` from operations that have it."""
    for op in ops:
        if attribute in op.attributes:
            del op.attributes[attribute]
