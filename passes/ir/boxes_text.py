"""Checks and converts the boxes that a user or a code generator gives for an rKernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rammer_mlir.bindings import ir

Box = Sequence[tuple[int | str, int]]
"""A user-written box: an offset and a size, in elements, for each dimension.

The offset is a number, or an expression of the rTask's id ``d0``.
"""


def box_problems(kinds: Sequence[ir.Type], boxes: object) -> Iterator[tuple[str, object]]:
    """Yield the expected and the found text for each error in user-written boxes.

    The texts are parts of an error's message, such as "numbers from 0 to 2" and "5".

    Args:
        kinds: types of the inputs, or of the outputs.
        boxes: an unchecked object, expected to map indices of inputs or outputs to boxes.
    """
    if not isinstance(boxes, Mapping):
        yield "a mapping from numbers to boxes", repr(boxes)
        return
    for number, box in boxes.items():
        if number not in range(len(kinds)):
            yield f"numbers from 0 to {len(kinds) - 1}", repr(number)
        elif not _is_box(box, rank := len(ir.ShapedType(kinds[number]).shape)):
            yield f"{rank} pairs of an offset and a size", repr(box)
        else:
            wrong = (repr(offset) for offset, _ in box if not _is_offset(offset))
            yield from (("an offset in terms of d0, as 'd0 * 4' or 'd0 mod 2'", o) for o in wrong)


def _is_box(box: object, rank: int) -> bool:
    if not isinstance(box, Sequence) or isinstance(box, str) or len(box) != rank:
        return False
    return all(
        isinstance(pair, Sequence)
        and len(pair) == 2
        and isinstance(pair[0], int | str)
        and isinstance(pair[1], int)
        for pair in box
    )


def _is_offset(offset: int | str) -> bool:
    try:
        parsed = ir.Attribute.parse(f"affine_map<(d0) -> ({offset})>")
    except ir.MLIRError:
        return False
    results = list(ir.AffineMapAttr(parsed).value.results)
    return len(results) == 1 and not _divides_by_none(results[0])


def _divides_by_none(expr: ir.AffineExpr) -> bool:
    """Whether an expression divides by a number below 1, which has no meaning."""
    if not isinstance(expr, ir.AffineBinaryExpr):
        return False
    divides = isinstance(expr, ir.AffineFloorDivExpr | ir.AffineCeilDivExpr | ir.AffineModExpr)
    divisor = expr.rhs
    if divides and isinstance(divisor, ir.AffineConstantExpr) and divisor.value < 1:
        return True
    return _divides_by_none(expr.lhs) or _divides_by_none(divisor)


def accesses_of(kinds: Sequence[ir.Type], boxes: Mapping[int, Box], first: int) -> ir.ArrayAttr:
    """Return the attribute ``reads`` or ``writes`` of an ``rtask.kernel`` from user-written boxes.

    Args:
        kinds: types of the inputs, or of the outputs.
        boxes: maps the index of an input or output to its box; an input or output without a box is
            accessed whole.
        first: the index of the first input or output among the rKernel's arguments.
    """
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
