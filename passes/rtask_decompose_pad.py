"""`rtask-decompose-pad`: a padding becomes a concatenation with the strips of its border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir, linalg, tensor
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.constant_pad import ConstantPad, find_constant_pad
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator
from rammer_mlir.passes.ir.structured import shape_of


@dataclass(frozen=True)
class DecomposePad(Pass):
    """Split constant paddings into a border-filling rOperator and concatenations.

    A concatenation is written in place, so the producer of the padded tensor writes directly into
    the middle of the padded buffer, without a copy.
    """

    name: ClassVar[str] = "rtask-decompose-pad"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Rewrite every constant ``tensor.pad`` between rOperators."""
        outliner = Outliner(module)
        for op in list(entry_block(module).operations):
            pad = find_constant_pad(op)
            if pad is not None:
                _decompose(op, pad, outliner)


@dataclass(frozen=True)
class _Side:
    """The border of one padded dimension.

    ``low`` and ``high`` are the shapes of the strips before and after the tensor along ``dim``;
    None for an empty strip.
    """

    dim: int
    low: list[int] | None
    high: list[int] | None


def _sides(pad: ConstantPad) -> list[_Side]:
    """Return the border strips of each padded dimension, the innermost dimension first.

    A strip covers inner dimensions with their padding and outer dimensions without padding.
    """
    shape = shape_of(pad.source)
    sides: list[_Side] = []
    for dim in reversed(range(len(shape))):

        def strip(width: int, dim: int = dim) -> list[int] | None:
            return [*shape[:dim], width, *shape[dim + 1 :]] if width else None

        low, high = pad.low[dim], pad.high[dim]
        if low or high:
            sides.append(_Side(dim, strip(low), strip(high)))
        shape[dim] += low + high
    return sides


def _decompose(op: ir.OpView, pad: ConstantPad, outliner: Outliner) -> None:
    sides = _sides(pad)
    result, source = op.operation.results[0], pad.source
    element = ir.RankedTensorType(source.type).element_type
    shapes = [strip for side in sides for strip in (side.low, side.high) if strip is not None]
    ip = ir.InsertionPoint(op)
    if shapes:
        border = iter(_fill_border(pad.border, shapes, element, op, outliner))
        for side in sides:
            parts = [next(border)] if side.low is not None else []
            parts.append(source)
            if side.high is not None:
                parts.append(next(border))
            shape = shape_of(source)
            shape[side.dim] = sum(shape_of(part)[side.dim] for part in parts)
            with ip, op.operation.location:
                source = tensor.ConcatOp(
                    ir.RankedTensorType.get(shape, element), side.dim, parts
                ).result
    result.replace_all_uses_with(source)
    op.operation.erase()


def _fill_border(
    scalar: ir.Value,
    shapes: Sequence[list[int]],
    element: ir.Type,
    op: ir.OpView,
    outliner: Outliner,
) -> list[ir.Value]:
    def body(_: Sequence[ir.Value]) -> list[ir.Value]:
        mapping: dict[ir.Value, ir.Value] = {}
        clone_constants(scalar, mapping, ir.InsertionPoint.current)
        return [
            linalg.fill(mapping[scalar], outs=[tensor.EmptyOp(shape, element).result])
            for shape in shapes
        ]

    kernel = outliner.function("border", [], body)
    kinds = [ir.RankedTensorType.get(shape, element) for shape in shapes]
    call = create_operator(kernel, [], kinds, op.operation.location, ir.InsertionPoint(op))
    return list(call.results)
