"""Boxes of rTasks as people write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rammer_mlir.bindings import ir

Box = Sequence[tuple[int | str, int]]
"""For each dimension, where an rTask's part begins, in terms of ``d0``, and its size."""


def accesses_of(kinds: Sequence[ir.Type], boxes: Mapping[int, Box], first: int) -> ir.ArrayAttr:
    """Return the accesses of inputs or outputs, which are arguments from ``first`` on."""
    found: list[ir.Attribute] = []
    for number, kind in enumerate(kinds):
        whole = [(0, size) for size in ir.ShapedType(kind).shape]
        box = boxes.get(number, whole)
        offsets, sizes = [str(offset) for offset, _ in box], [str(size) for _, size in box]
        listed = f": {', '.join(sizes)}" if sizes else ""
        found.append(
            ir.Attribute.parse(
                f"{{argument = {first + number} : i64, sizes = array<i64{listed}>, "
                f"offsets = affine_map<(d0) -> ({', '.join(offsets)})>}}"
            )
        )
    return ir.ArrayAttr.get(found)
