"""Lowers ``tm_tensor.scan`` (torch-mlir's dialect TMTensor) to parallel steps.

Each step combines every element with the element at a distance of 1, 2, 4, ... before it, so that n
elements take log2(n) steps (Hillis and Steele, "Data parallel algorithms", 1986). The combining
function has to be associative.
"""

from __future__ import annotations

from collections.abc import Sequence

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.legalization.elementwise import Values, cloned_body, per_element

_ASSOCIATIVE = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "addi", "mulf", "muli", "andi", "ori", "xori", "maximumf", "maxnumf", "maxsi",
        "maxui", "minimumf", "minnumf", "minsi", "minui",
    )
)  # fmt: skip
"""Operations that may combine elements in any grouping; floats round differently."""


def torch_scan(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value] | None:
    """Emit the steps that replace a ``tm_tensor.scan``; return its output and its accumulator.

    The returned accumulator is the last slice of the output along the scanned dimension, or the
    initial accumulator if this dimension has at most one element.

    An inclusive scan starts at the first element. An exclusive scan starts at the initial
    accumulator and leaves out the last element. Return None if the scan's body is not known to be
    associative.

    Args:
        op: the scan.
        operands: the input, the initial output and the initial accumulator, of static shapes.
    """
    scanned, output, start = operands
    if not _is_associative(op.regions[0].blocks[0]):
        return None
    shape = list(ir.RankedTensorType(scanned.type).shape)
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    size, is_inclusive = shape[axis], ir.BoolAttr(op.attributes["inclusive"]).value
    if size == 0:
        return [output, start]
    if not is_inclusive:
        first = _expanded(start, axis)
        scanned = first if size == 1 else _joined([first, _part(scanned, axis, 0, size - 1)], axis)
    distance = 1
    while distance < size:
        head = _part(scanned, axis, 0, distance)
        earlier = _part(scanned, axis, 0, size - distance)
        later = _part(scanned, axis, distance, size)
        scanned = _joined([head, _combined(op.regions[0].blocks[0], earlier, later)], axis)
        distance *= 2
    # torch-mlir's own lowering stores the accumulator from the second element on.
    return [scanned, start if size == 1 else _last(scanned, axis)]


def _is_associative(block: ir.Block) -> bool:
    """Whether a body combines its two arguments by a single associative operation."""
    *inner, last = [each.operation for each in block.operations]
    if len(inner) != 1 or inner[0].name not in _ASSOCIATIVE:
        return False
    return {*inner[0].operands} == {*block.arguments} and last.operands[0] == inner[0].results[0]


def _combined(block: ir.Block, earlier: ir.Value, later: ir.Value) -> ir.Value:
    kind = ir.RankedTensorType(earlier.type)
    identity = ir.AffineMap.get_identity(kind.rank)

    def body(elements: Values, _indices: Values) -> ir.Value:
        return cloned_body(block, elements)

    inputs = [(earlier, identity), (later, identity)]
    return per_element(kind.shape, kind.element_type, inputs, body)


def _joined(parts: Sequence[ir.Value], axis: int) -> ir.Value:
    kinds = [ir.RankedTensorType(part.type) for part in parts]
    shape = list(kinds[0].shape)
    shape[axis] = sum(kind.shape[axis] for kind in kinds)
    joined = ir.RankedTensorType.get(shape, kinds[0].element_type)
    return tensor.ConcatOp(joined, axis, list(parts)).result


def _part(value: ir.Value, axis: int, begin: int, end: int) -> ir.Value:
    """Emit and return the slice of a tensor from ``begin`` to ``end`` along an axis."""
    kind = ir.RankedTensorType(value.type)
    offsets, sizes = [0] * kind.rank, list(kind.shape)
    offsets[axis], sizes[axis] = begin, end - begin
    result = ir.RankedTensorType.get(sizes, kind.element_type)
    steps = [1] * kind.rank
    return tensor.ExtractSliceOp(result, value, [], [], [], offsets, sizes, steps).result


def _groups(rank: int, axis: int) -> list[list[int]]:
    """Return the reassociation of a reshape that drops or adds a dimension of size 1.

    The groups contain dimensions of the larger tensor: ``rank`` is the rank of this tensor, and
    ``axis`` its dimension of size 1.
    """
    if rank == 1:
        return []
    first = max(axis - 1, 0)  # the axis joins the dimension before it, or the second one
    kept = [[n] for n in range(rank) if n not in (first, first + 1)]
    return sorted([*kept, [first, first + 1]])


def _expanded(value: ir.Value, axis: int) -> ir.Value:
    """Emit and return a tensor with an additional dimension ``axis`` of size 1."""
    kind = ir.RankedTensorType(value.type)
    shape = [*kind.shape[:axis], 1, *kind.shape[axis:]]
    result = ir.RankedTensorType.get(shape, kind.element_type)
    groups = _groups(len(shape), axis)
    return tensor.ExpandShapeOp(result, value, groups, [], shape).result


def _last(value: ir.Value, axis: int) -> ir.Value:
    """Emit and return the last slice of a tensor along an axis, without the axis."""
    kind = ir.RankedTensorType(value.type)
    size = kind.shape[axis]
    part = _part(value, axis, size - 1, size)
    shape = [*kind.shape[:axis], *kind.shape[axis + 1 :]]
    result = ir.RankedTensorType.get(shape, kind.element_type)
    return tensor.CollapseShapeOp(result, part, _groups(kind.rank, axis)).result
