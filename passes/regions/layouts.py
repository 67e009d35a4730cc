"""Chooses the layouts of the values that regions of code generators exchange with the host.

A region is a part of the entry function that a foreign code generator compiles; the host is this
compiler, which compiles the rest. A code generator states which inputs and outputs of a region it
supports in blocks of channels, the layout that the host uses for activations of convolutions
(``channels/layout.py``). If the producer of such an
input, or a reader of such an output, can process blocks too, the conversion between layouts is
hoisted from the region to the entry function. There the conversion cancels with the opposite
conversion of another region, or `rtask-block-channels` lets the host use the blocks directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rammer_mlir.bindings import ir
from rammer_mlir.passes.base import OperationError
from rammer_mlir.passes.fusion.grouping import is_cloned
from rammer_mlir.passes.ir.packs import BLOCK
from rammer_mlir.passes.ir.structured import Structured, is_generic, shape_of
from rammer_mlir.passes.regions.codegen import CODEGENS, answer
from rammer_mlir.passes.regions.region import Layouts, Region

_PRODUCT = 2
"""Rank of a matrix product's result: batch and channels."""


def layouts_of(function: ir.OpView, codegen: str, region: Region) -> Layouts:
    """Return the blocked layouts of a region's inputs and outputs that its code generator supports.

    Return empty layouts if the code generator has no method ``layouts``.

    Args:
        function: the function of the region, which errors name.
        codegen: name of the code generator.
        region: description of the region.

    Raises:
        PassError: if the method ``layouts`` fails.
        OperationError: if ``layouts`` names an input or output that does not exist or is not an f32
            tensor, or a dimension that does not exist or has a size that is no multiple of 16.
    """
    found = CODEGENS.get(codegen)
    say: Callable[[Region], Layouts] | None = getattr(found, "layouts", None)
    layouts = Layouts() if say is None else answer(found, "layouts", partial(say, region), Layouts)
    sides = (("input", layouts.inputs, region.inputs), ("output", layouts.outputs, region.outputs))
    for side, dims, types in sides:
        for number, dim in dims.items():
            if not 0 <= number < len(types) or not _is_possible(types[number], dim):
                raise OperationError(
                    function,
                    f"code generator '{codegen}': layouts: expected a dimension of a multiple of "
                    f"{BLOCK} elements of an f32 {side}, found {dim} of {side} {number}; mend it, "
                    "or leave it out",
                )
    return layouts


def _is_possible(kind: ir.Type, dim: int) -> bool:
    ranked = ir.RankedTensorType(kind)
    is_float = isinstance(ranked.element_type, ir.F32Type)
    return is_float and 0 <= dim < ranked.rank and ranked.shape[dim] % BLOCK == 0


@dataclass(frozen=True)
class Exchange:
    """The values of an MLIR block that regions may exchange in a layout with blocks of channels.

    Attributes:
        layouts: the blocked layouts that each region supports, by the call of the region.
        computed: values that their producers can store in blocks of channels.
        read: values that at least one reader can load in blocks of channels.
    """

    layouts: Mapping[ir.Operation, Layouts]
    computed: frozenset[ir.Value]
    read: frozenset[ir.Value]

    @staticmethod
    def of(operations: Sequence[ir.OpView], layouts: Mapping[ir.Operation, Layouts]) -> Exchange:
        """Return the values that regions may exchange in blocks of channels.

        Region calls and convolutions support blocked layouts. From there, blocked layouts propagate
        forwards to readers of results, and backwards to producers of operands.

        Args:
            operations: the operations of an MLIR block, in order.
            layouts: the blocked layouts that each region supports, by the call of the region.
        """
        computed, read = set[ir.Value](), set[ir.Value]()
        for view in operations:
            op = view.operation
            results = list(map(_image, op.results))
            if op in layouts:
                computed |= {op.results[number] for number in layouts[op].outputs}
            elif _is_convolution(view) or (_passes(view) and not computed.isdisjoint(op.operands)):
                computed |= {value for value in results if value is not None}
        for view in reversed(operations):
            op = view.operation
            operands = {value for each in op.operands if (value := _image(each)) is not None}
            if op in layouts:
                read |= {op.operands[number] for number in layouts[op].inputs}
            elif _is_convolution(view) or (_passes(view) and not read.isdisjoint(op.results)):
                read |= operands
        return Exchange(layouts, frozenset(computed), frozenset(read))

    def of_call(self, call: ir.Operation) -> Layouts:
        """Return which operands and results of a region call are exchanged in blocks of channels.

        The returned layouts map each index of such an operand or result to the blocked dimension.
        An operand is included if the region supports blocks for it and the operand's producer can
        store blocks. A result is included if the region supports blocks for it and a reader of the
        result can load blocks.
        """
        may = self.layouts[call]
        return Layouts(
            {n: dim for n, dim in may.inputs.items() if call.operands[n] in self.computed},
            {n: dim for n, dim in may.outputs.items() if call.results[n] in self.read},
        )


def _image(value: ir.Value) -> ir.Value | None:
    """Return ``value`` if it is a tensor of rank 3 or higher, else None.

    Such a tensor has more dimensions than batch and channels.
    """
    is_image = isinstance(value.type, ir.RankedTensorType) and len(shape_of(value)) > _PRODUCT
    return value if is_image else None


def _is_convolution(op: ir.OpView) -> bool:
    is_contraction = is_generic(op) and Structured(op).is_contraction
    return is_contraction and _image(op.operation.results[0]) is not None


def _passes(op: ir.OpView) -> bool:
    """Whether an operation can compute in blocks of channels if its operands are in blocks."""
    return op.operation.name != "func.call" and not is_cloned(op)
