"""`rtask-decompose-pad`: a padding becomes concatenations of its source with border strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.ir.constant_pad import (
    ConstantPad,
    find_constant_pad,
    strips_of,
    surrounded,
)
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.generics import splat
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator


@dataclass(frozen=True)
class DecomposePad(Pass):
    """Replace each ``tensor.pad`` of a constant by concatenations of its source with strips.

    An rOperator fills the strips, which surround the source, with the constant. A concatenation is
    written in place, so the producer of the padded tensor writes directly into the middle of the
    padded buffer, without a copy.
    """

    name: ClassVar[str] = "rtask-decompose-pad"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Replace each ``tensor.pad`` that pads with a constant by concatenations.

        They concatenate the padding's source with strips, which an rOperator fills.
        """
        outliner = Outliner(module)
        for op in list(entry_block(module).operations):
            pad = find_constant_pad(op)
            if pad is not None:
                _decompose(op, pad, outliner)


def _decompose(op: ir.OpView, pad: ConstantPad, outliner: Outliner) -> None:
    result, source = op.operation.results[0], pad.source
    element = ir.RankedTensorType(source.type).element_type
    shapes = strips_of(pad)
    if shapes:
        strips = _fill_border(pad.border, shapes, element, op, outliner)
        with ir.InsertionPoint(op), op.operation.location:
            source = surrounded(pad, source, strips)
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
        return [splat(mapping[scalar], shape) for shape in shapes]

    kernel = outliner.function("border", [], body)
    kinds = [ir.RankedTensorType.get(shape, element) for shape in shapes]
    call = create_operator(kernel, [], kinds, op.operation.location, ir.InsertionPoint(op))
    return list(call.results)
