"""Emits clones of an operation that compute only a part of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.memory.operand_parts import Cut, cut_loop, result_axis


def emit_part(
    op: ir.OpView,
    number: int,
    cut: Cut,
    operands: Sequence[ir.Value],
    ip: ir.InsertionPoint,
) -> ir.Operation:
    """Emit a clone of an operation that computes only a part of its result, and return the clone.

    Args:
        op: an operation that ``operand_cuts`` supports.
        number: the index of the result among the operation's results.
        cut: the part of the result.
        operands: the required parts of the operands.
        ip: the insertion point of the clone.
    """
    copy = op.operation.clone(ip=ip).operation
    for index, value in enumerate(operands):
        copy.operands[index] = value
    for result, (old, part) in enumerate(
        zip(op.operation.results, result_cuts(op, number, cut), strict=True)
    ):
        copy.results[result].set_type(part_type(old, part))
    adapt = _ATTRIBUTES.get(op.operation.name)
    if adapt is not None:
        adapt(op, cut, copy)
    return copy


def result_cuts(op: ir.OpView, number: int, cut: Cut) -> list[Cut]:
    """Return the parts of results that ``op`` computes along with part ``cut`` of one result.

    ``number`` is the index of this result. If ``op`` is a ``linalg.generic``, all results are cut
    along the loop over the cut dimension; results that this loop does not index are omitted. For
    any other operation, the list contains only ``cut``.
    """
    if not is_generic(op):
        return [cut]
    structured = Structured(op)
    loop = cut_loop(structured, number, cut)
    assert loop is not None, "the dimension is a loop, or the part has no operands"
    axes = [result_axis(structured, n, loop) for n in range(structured.num_outputs)]
    return [Cut(axis, cut.begin, cut.end) for axis in axes if axis is not None]


def part_type(value: ir.Value, cut: Cut) -> ir.Type:
    """Return the tensor type of part ``cut`` of a tensor."""
    kind = ir.RankedTensorType(value.type)
    return ir.RankedTensorType.get(cut.shape(shape_of(value)), kind.element_type, kind.encoding)


def slice_of(value: ir.Value, cut: Cut) -> ir.Value:
    """Emit and return the slice of a tensor that ``cut`` describes."""
    shape = shape_of(value)
    if cut.covers(shape):
        return value
    offsets = [cut.begin if n == cut.axis else 0 for n in range(len(shape))]
    kind = part_type(value, cut)
    sizes = cut.shape(shape)
    return tensor.ExtractSliceOp(kind, value, [], [], [], offsets, sizes, [1] * len(shape)).result


def _adapt_expand(op: ir.OpView, cut: Cut, copy: ir.Operation) -> None:
    shape = cut.shape(shape_of(op.operation.results[0]))
    copy.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(shape)


def _adapt_slice(op: ir.OpView, cut: Cut, copy: ir.Operation) -> None:
    offsets = list(ir.DenseI64ArrayAttr(copy.attributes["static_offsets"]))
    offsets[cut.axis] = 0  # The operand is already the part.
    copy.attributes["static_offsets"] = ir.DenseI64ArrayAttr.get(offsets)
    shape = cut.shape(shape_of(op.operation.results[0]))
    copy.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(shape)


def _adapt_pad(op: ir.OpView, cut: Cut, copy: ir.Operation) -> None:
    pad = find_constant_pad(op)
    assert pad is not None
    low, high = list(pad.low), list(pad.high)
    inner_end = low[cut.axis] + shape_of(pad.source)[cut.axis]
    low[cut.axis] = max(low[cut.axis] - cut.begin, 0)
    high[cut.axis] = max(cut.end - inner_end, 0)
    copy.attributes["static_low"] = ir.DenseI64ArrayAttr.get(low)
    copy.attributes["static_high"] = ir.DenseI64ArrayAttr.get(high)


_ATTRIBUTES: Mapping[str, Callable[[ir.OpView, Cut, ir.Operation], None]] = {
    "tensor.expand_shape": _adapt_expand,
    "tensor.extract_slice": _adapt_slice,
    "tensor.pad": _adapt_pad,
}
