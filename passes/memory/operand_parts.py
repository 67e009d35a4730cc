"""Computes which part of each operand an operation reads for a part of its result.

A part of a result along the dimension of a parallel loop is computed from parts of the operands
that the loop indexes, and from the whole of all other operands. Windows of convolutions make the
parts overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import CONCAT
from rammer_mlir.passes.ir.boxes import linear_form, loops_in
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.reshapes import reassociation
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of


@dataclass(frozen=True)
class Cut:
    """A part of a tensor: the interval ``[begin, end)`` of the dimension ``axis``."""

    axis: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """The number of indices in the interval."""
        return self.end - self.begin

    def shape(self, whole: Sequence[int]) -> list[int]:
        """Return the shape of the part; ``whole`` is the shape of the tensor."""
        return [self.size if n == self.axis else size for n, size in enumerate(whole)]

    def covers(self, whole: Sequence[int]) -> bool:
        """Whether the interval covers its whole dimension; ``whole`` is the shape of the tensor."""
        return self.begin == 0 and self.end == whole[self.axis]


Needed = list["Cut | None"]
"""For each operand, the part that is read; None for the whole operand."""


def operand_cuts(op: ir.OpView, number: int, cut: Cut) -> Needed | None:
    """Return the part of each operand that an operation reads for part ``cut`` of a result.

    ``number`` is the index of the result. Return None if the part cannot be computed separately,
    for example because no single loop indexes the cut dimension, the body uses the loop's index, or
    the loop indexes two dimensions of an operand.
    """
    if is_generic(op):
        return _of_generic(Structured(op), number, cut)
    reader = _READERS.get(op.operation.name)
    return None if reader is None else reader(op, cut)


def cut_loop(op: Structured, number: int, cut: Cut) -> int | None:
    """Return the index of the parallel loop over the cut dimension of a result.

    ``number`` is the index of the result, and ``cut.axis`` its cut dimension. Return None if no
    single loop indexes the dimension, the loop is a reduction, or the body reads the loop's index.
    """
    loop = plain_dim(op.output_maps[number].results[cut.axis])
    if loop is None or not op.parallel[loop] or _reads_index(op.op, loop):
        return None
    return loop


def result_axis(op: Structured, number: int, loop: int) -> int | None:
    """Return the dimension of a result that a loop indexes without an offset or a factor.

    ``number`` is the index of the result, ``loop`` the index of the loop. Return None if there is
    no such dimension, or the loop also indexes another dimension.
    """
    exprs = op.output_maps[number].results
    found = [axis for axis, expr in enumerate(exprs) if loop in loops_in(expr)]
    return found[0] if len(found) == 1 and plain_dim(exprs[found[0]]) == loop else None


def _of_generic(op: Structured, number: int, cut: Cut) -> Needed | None:
    loop = cut_loop(op, number, cut)
    if loop is None:
        return None
    if any(result_axis(op, n, loop) is None for n in range(op.num_outputs)):
        return None
    found: Needed = []
    for map_, value in zip(op.maps, op.operands, strict=True):
        places = [n for n, expr in enumerate(map_.results) if loop in loops_in(expr)]
        if not places:
            found.append(None)
            continue
        part = None
        if len(places) == 1:
            size = shape_of(value)[places[0]]
            part = _interval(op, map_.results[places[0]], loop, cut, (places[0], size))
        if part is None:
            return None
        found.append(part)
    return found


def _interval(
    op: Structured, expr: ir.AffineExpr, loop: int, cut: Cut, place: tuple[int, int]
) -> Cut | None:
    """Return the interval of an operand's dimension that is read if ``loop`` is cut to an interval.

    Return None if the index expression is not linear, has a negative constant or coefficient, or
    exceeds the size of the dimension.

    Args:
        op: the operation.
        expr: the index expression of the dimension.
        loop: the index of the loop; all other loops run in full.
        cut: the interval of the loop's iterations.
        place: the dimension's index and its size.

    Returns:
        The interval. It begins at the first iteration times the coefficient of ``loop``, so that
        ``expr`` also indexes the slice, with iterations that start at 0.
    """
    axis, size = place
    form = linear_form(expr)
    if form is None or form.constant < 0 or min(form.coefficients.values()) < 0:
        return None
    step = form.coefficients[loop]
    others = sum(k * (op.extents[d] - 1) for d, k in form.coefficients.items() if d != loop)
    end = step * (cut.end - 1) + form.constant + others + 1
    return Cut(axis, step * cut.begin, end) if step > 0 and end <= size else None


def _reads_index(op: ir.OpView, loop: int) -> bool:
    """Whether the body of a ``linalg.generic`` uses the index of ``loop``.

    If so, the loop cannot be cut, because the index would start at 0 in each part.
    """
    return any(
        inner.operation.name == "linalg.index"
        and ir.IntegerAttr(inner.operation.attributes["dim"]).value == loop
        for inner in op.operation.regions[0].blocks[0].operations
    )


def _of_collapse(op: ir.OpView, cut: Cut) -> Needed | None:
    shape = shape_of(op.operation.operands[0])
    group = reassociation(op)[cut.axis]
    leading = next((dim for dim in group if shape[dim] != 1), group[0])
    inner = prod(shape[dim] for dim in group if dim > leading)
    if cut.begin % inner or cut.end % inner:
        return None
    return [Cut(leading, cut.begin // inner, cut.end // inner)]


def _of_expand(op: ir.OpView, cut: Cut) -> Needed | None:
    shape = shape_of(op.operation.results[0])
    for source, group in enumerate(reassociation(op)):
        if cut.axis in group:
            if prod(shape[dim] for dim in group if dim < cut.axis) != 1:
                return None
            inner = prod(shape[dim] for dim in group if dim > cut.axis)
            return [Cut(source, cut.begin * inner, cut.end * inner)]
    return None


def _of_slice(op: ir.OpView, cut: Cut) -> Needed | None:
    attributes = op.operation.attributes
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(attributes[key]))
        for key in ("static_offsets", "static_sizes", "static_strides")
    )
    is_static = len(op.operation.operands) == 1 and sizes == shape_of(op.operation.results[0])
    if not is_static or strides[cut.axis] != 1:
        return None
    start = offsets[cut.axis]
    return [Cut(cut.axis, start + cut.begin, start + cut.end)]


def _of_concat(op: ir.OpView, cut: Cut) -> Needed | None:
    if ir.IntegerAttr(op.operation.attributes["dim"]).value == cut.axis:
        return None
    return [cut for _ in op.operation.operands]


def _of_pad(op: ir.OpView, cut: Cut) -> Needed | None:
    pad = find_constant_pad(op)
    if pad is None:
        return None
    size, low = shape_of(pad.source)[cut.axis], pad.low[cut.axis]
    begin, end = max(cut.begin - low, 0), min(cut.end - low, size)
    return [Cut(cut.axis, begin, end)] if begin < end else None


_READERS: Mapping[str, Callable[[ir.OpView, Cut], Needed | None]] = {
    "tensor.collapse_shape": _of_collapse,
    "tensor.expand_shape": _of_expand,
    "tensor.extract_slice": _of_slice,
    CONCAT: _of_concat,
    "tensor.pad": _of_pad,
}
