"""`rtask-decompose-pad`: a padding becomes concatenations of its source with border strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from rammer_mlir.bindings import ir, tensor
from rammer_mlir.passes.base import Form, Pass, check_least
from rammer_mlir.passes.ir.constant_pad import (
    ConstantPad,
    find_constant_pad,
    strips_of,
    surrounded,
)
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.generics import splat
from rammer_mlir.passes.ir.outline import Outliner, clone_constants, create_operator
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import element_bytes, shape_of


@dataclass(frozen=True)
class DecomposePad(Pass):
    """Replace each ``tensor.pad`` of a constant by concatenations of its source with strips.

    An rOperator fills the strips, which surround the source, with the constant. A concatenation is
    written in place, so the producer of the padded tensor writes directly into the middle of the
    padded buffer, without a copy. An argument of the function has to be copied: if the argument and
    its padded copy have at most ``small`` bytes together, one rTask fills the whole copy with the
    constant and inserts the argument. Strips beside short rows would be slow to fill, and vEUs that
    fill them and copy the argument at the same time would write to the same cache lines.
    """

    name: ClassVar[str] = "rtask-decompose-pad"
    takes: ClassVar[Form | None] = Form.TENSORS

    small: int = 0

    def check_options(self) -> None:
        """Raise an OptionError if ``small`` is negative."""
        check_least(self, 0, "small")

    def run(self, module: ir.Module) -> None:
        """Replace each ``tensor.pad`` that pads with a constant.

        It becomes concatenations of the padding's source with strips, which an rOperator fills, or
        an rOperator that copies a small argument.
        """
        outliner = Outliner(module)
        for op in list(entry_block(module).operations):
            pad = find_constant_pad(op)
            if pad is not None:
                _decompose(op, pad, outliner, self.small)


def _decompose(op: ir.OpView, pad: ConstantPad, outliner: Outliner, small: int) -> None:
    result, source = op.operation.results[0], pad.source
    element = ir.RankedTensorType(source.type).element_type
    shapes = strips_of(pad)
    if shapes and _is_argument(source) and _bytes_of(pad) <= small:
        source = _padded_copy(pad, op, outliner)
    elif shapes:
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


def _is_argument(value: ir.Value) -> bool:
    """Whether a tensor is an argument of the function, or a reshape of one: it has to be copied."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in RESHAPES:
            return False
        value = value.owner.operands[0]
    return True


def _bytes_of(pad: ConstantPad) -> int:
    """Return the bytes of the source and of its padded copy together."""
    shape = shape_of(pad.source)
    widths = zip(shape, pad.low, pad.high, strict=True)
    elements = prod(shape) + prod(size + low + high for size, low, high in widths)
    return elements * element_bytes(pad.source.type)


def _padded_copy(pad: ConstantPad, op: ir.OpView, outliner: Outliner) -> ir.Value:
    """Emit an rOperator that fills a tensor with padding and copies the source into its middle."""
    kind = ir.RankedTensorType(op.operation.results[0].type)

    def body(arguments: Sequence[ir.Value]) -> list[ir.Value]:
        mapping: dict[ir.Value, ir.Value] = {}
        clone_constants(pad.border, mapping, ir.InsertionPoint.current)
        (source,) = arguments
        sizes, strides = shape_of(source), [1] * kind.rank
        border = splat(mapping[pad.border], kind.shape)
        return [tensor.InsertSliceOp(source, border, [], [], [], pad.low, sizes, strides).result]

    kernel = outliner.function("pad", [pad.source.type], body)
    ip = ir.InsertionPoint(op)
    return create_operator(kernel, [pad.source], [kind], op.operation.location, ip).results[0]
