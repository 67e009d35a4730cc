"""Estimates the cost of an operator on a device from the operator's loops, before tiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.contractions.contraction import terms_of
from rammer_mlir.passes.contractions.convolution import Convolution
from rammer_mlir.passes.contractions.product import Product
from rammer_mlir.passes.ir.structured import Structured, element_bytes, shape_of
from rammer_mlir.passes.merging.convolutions import Window
from rammer_mlir.passes.tiling.choice import CONTIGUOUS, LoopLimit, TileCost, Tiling
from rammer_mlir.passes.tiling.device_tiles import estimated_kernel
from rammer_mlir.scheduling.device_costs import Device
from rammer_mlir.scheduling.graph import RKernel

Terms = tuple[tuple[int, int], ...]
"""A linear index expression: pairs of a loop's index and the loop's coefficient."""


@dataclass(frozen=True)
class Operand:
    """An operand of a loop nest.

    Attributes:
        terms: for each dimension, the index expression as pairs of a loop's index and a
            coefficient; None if every rTask accesses the whole dimension.
        shape: the size of each dimension in elements.
        element_bytes: bytes of an element.
    """

    terms: tuple[Terms | None, ...]
    shape: tuple[int, ...]
    element_bytes: int


@dataclass(frozen=True)
class LoopNest:
    """The loops of an operator.

    Attributes:
        extents: the trip counts, those of parallel loops first.
        num_parallel: the number of parallel loops.
        operands: the inputs and results.
        operations: the number of scalar operations per iteration of the innermost loop.
    """

    extents: tuple[int, ...]
    num_parallel: int
    operands: tuple[Operand, ...]
    operations: int

    def cost(self, tiling: Tiling) -> TileCost:
        """Return the counts of scalar operations and of accessed bytes of an rTask.

        ``tiling`` lists the tile size of each parallel loop.
        """
        sizes = [*tiling, *self.extents[self.num_parallel :]]
        num_bytes = sum(
            operand.element_bytes
            * prod(
                size
                if terms is None
                else min(size, 1 + sum(factor * (sizes[loop] - 1) for loop, factor in terms))
                for terms, size in zip(operand.terms, operand.shape, strict=True)
            )
            for operand in self.operands
        )
        return TileCost(self.operations * prod(sizes), num_bytes)

    def limits(self) -> list[LoopLimit]:
        """Return, for each parallel loop, the limit that a tile size has to obey.

        A loop that indexes adjacent elements of an operand must have tiles of whole vectors; other
        loops have no limit.
        """
        last = {operand.terms[-1] for operand in self.operands if operand.terms}
        return [
            CONTIGUOUS if ((loop, 1),) in last else LoopLimit() for loop in range(self.num_parallel)
        ]


@cache
def estimate(nest: LoopNest, device: Device) -> RKernel:
    """Return an rKernel for the fastest tiling of a loop nest.

    The device's cost model predicts the time of each tiling. The rKernel has costs, but no boxes.
    The result is memoized: an equal nest gives the same object.
    """
    extents = nest.extents[: nest.num_parallel]
    return estimated_kernel(device, extents, nest.limits(), nest.cost)


def nest_of(op: Structured) -> LoopNest:
    """Return the loop nest of a ``linalg.generic``."""
    order = sorted(range(len(op.parallel)), key=lambda loop: not op.parallel[loop])
    place = {loop: number for number, loop in enumerate(order)}
    operands: list[Operand] = []
    for map_, value in zip(op.maps, op.op.operation.operands, strict=True):
        terms = [terms_of(expr) for expr in map_.results]
        renamed = [
            None if t is None or min(t.values()) < 0 else tuple((place[d], f) for d, f in t.items())
            for t in terms
        ]
        operands.append(Operand(tuple(renamed), tuple(shape_of(value)), element_bytes(value.type)))
    return LoopNest(
        tuple(op.extents[loop] for loop in order),
        sum(op.parallel),
        tuple(operands),
        op.operations // max(1, op.points),
    )


def convolutions_nest(group: Sequence[Convolution]) -> LoopNest:
    """Return the loop nest of the convolution that replaces convolutions of the same image."""
    first, size = group[0], element_bytes(group[0].image.type)
    window = Window.around(group).size
    filters = sum(member.filters for member in group)
    (rows, columns), image = first.strides, tuple(shape_of(first.image))
    padded = (*image[:2], *(n + k - 1 for n, k in zip(image[2:], window, strict=True)))
    read = (((0, 1),), ((4, 1),), ((2, rows), (5, 1)), ((3, columns), (6, 1)))
    weights = tuple(((loop, 1),) for loop in (1, 4, 5, 6))
    written = tuple(((loop, 1),) for loop in range(4))
    return LoopNest(
        (first.batch, filters, *first.out, first.channels, *window),
        4,
        (
            Operand(read, padded, size),
            Operand(weights, (filters, first.channels, *window), size),
            Operand(written, (first.batch, filters, *first.out), size),
        ),
        2,
    )


def products_nest(group: Sequence[Product]) -> LoopNest:
    """Return the loop nest of the product that replaces products of the same matrix."""
    first, size = group[0], element_bytes(group[0].matrix.type)
    rows, inner = shape_of(first.matrix)
    columns = sum(member.columns for member in group)
    row, column, k = (((loop, 1),) for loop in range(3))
    return LoopNest(
        (rows, columns, inner),
        2,
        (
            Operand((row, k), (rows, inner), size),
            Operand((k, column), (inner, columns), size),
            Operand((row, column), (rows, columns), size),
        ),
        2,
    )


def copy_nest(value: ir.Value) -> LoopNest:
    """Return the loop nest that copies a tensor."""
    shape = tuple(shape_of(value))
    terms = tuple(((loop, 1),) for loop in range(len(shape)))
    operand = Operand(terms, shape, element_bytes(value.type))
    return LoopNest(shape, len(shape), (operand, operand), 1)
