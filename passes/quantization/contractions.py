"""Finds the contractions of a region, to quantize their operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.constant_pad import PAD, find_constant_pad
from rammer_mlir.passes.ir.reshapes import RESHAPES
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim
from rammer_mlir.passes.regions.contraction_readings import read_contraction


@dataclass(frozen=True)
class Factor:
    """An operand that a contraction multiplies.

    Attributes:
        operand: the tensor.
        source: the tensor from which views make the operand.
        views: zero paddings and reshapes that make the operand from the source, in order.
    """

    operand: ir.Value
    source: ir.Value
    views: tuple[ir.Operation, ...]

    @property
    def argument(self) -> int | None:
        """The index of the region's input that is ``source``.

        It is None if the region computes ``source``.
        """
        if isinstance(self.source.owner, ir.Block):
            return ir.BlockArgument(self.source).arg_number
        return None


@dataclass(frozen=True)
class Contraction:
    """A matrix product or convolution of f32.

    Attributes:
        op: its ``linalg.generic``.
        factors: the two inputs whose elements are multiplied.
    """

    op: Structured
    factors: tuple[Factor, Factor]

    @property
    def result(self) -> ir.Value:
        """The result of the contraction."""
        return self.op.op.operation.results[0]

    @property
    def terms(self) -> int:
        """The number of products that are summed for each element of the result."""
        return prod(self.op.extents[loop] for loop in self.op.reduction_loops)

    def channels(self, factor: int) -> list[int]:
        """Return the channel dimensions of factor 0 or 1: the dimensions that the result also has.

        They include batch and group dimensions, which both factors have. A dimension whose index
        expression is not a single loop is no channel dimension.
        """
        result = self._result_dims
        loops = [plain_dim(expr) for expr in self.op.maps[factor].results]
        return [dim for dim, loop in enumerate(loops) if loop in result]

    def channel_map(self, factor: int) -> list[int]:
        """Return, for each dimension in ``channels(factor)``, the dimension of the result.

        The same loop indexes both dimensions.
        """
        loops = [plain_dim(expr) for expr in self.op.maps[factor].results]
        return [self._result_dims.index(loop) for loop in loops if loop in self._result_dims]

    @cached_property
    def _result_dims(self) -> list[int | None]:
        return [plain_dim(expr) for expr in self.op.maps[2].results]


def contractions_of(block: ir.Block) -> Iterator[Contraction]:
    """Yield the f32 contractions in a block, in order."""
    for op in block.operations:
        if not is_generic(op):
            continue
        generic = Structured(op)
        if not _is_f32(generic) or read_contraction(generic, {}) is None:
            continue
        first, second = (_factor(value) for value in generic.inputs)
        yield Contraction(generic, (first, second))


def _is_f32(op: Structured) -> bool:
    return all(
        isinstance(value.type, ir.RankedTensorType)
        and isinstance(value.type.element_type, ir.F32Type)
        for value in op.operands
    )


def _factor(operand: ir.Value) -> Factor:
    views: list[ir.Operation] = []
    source = operand
    while not isinstance(source.owner, ir.Block) and _is_view(source.owner.opview):
        views.append(source.owner.operation)
        source = source.owner.operands[0]
    return Factor(operand, source, tuple(reversed(views)))


def _is_view(op: ir.OpView) -> bool:
    if op.operation.name == PAD:
        pad = find_constant_pad(op)
        return pad is not None and pad.is_zero
    return op.operation.name in RESHAPES
