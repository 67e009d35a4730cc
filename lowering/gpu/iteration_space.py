"""Finds loop bounds of a ``linalg.generic``, and converts linear indices to loop indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, memref
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, constant, multiply
from rammer_mlir.passes.ir.structured import LoopDimension, Structured


@dataclass(frozen=True)
class Loops:
    """The loops of a ``linalg.generic``.

    Attributes:
        bounds: trip count of each loop, an int if static.
        parallel: indices of the parallel loops.
        reduced: indices of the reduction loops.
    """

    bounds: tuple[Index, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...]

    @staticmethod
    def of(generic: Structured) -> Loops:
        """Return the loops of a ``linalg.generic``, emitting their dynamic bounds."""
        bounds = tuple(_bound(source) for source in generic.extent_sources)
        return Loops(bounds, generic.parallel_loops, generic.reduction_loops)

    @property
    def sizes(self) -> list[Index]:
        """The number of iterations of each parallel loop."""
        return [self.bounds[n] for n in self.parallel]

    @property
    def num_points(self) -> int | None:
        """The number of points of the parallel loops; None if a trip count is dynamic."""
        return _static_product(self.sizes)

    @property
    def num_reduced(self) -> int | None:
        """The number of points of the reduction loops; None if a trip count is dynamic."""
        return _static_product([self.bounds[n] for n in self.reduced])

    def point(self, indices: Sequence[Index]) -> list[Index | None]:
        """Return a point with ``indices`` of the parallel loops, and None for reduction loops."""
        found: list[Index | None] = [None] * len(self.bounds)
        for n, index in zip(self.parallel, indices, strict=True):
            found[n] = index
        return found


def _static_product(sizes: Sequence[Index]) -> int | None:
    total = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        total *= size
    return total


def _bound(source: LoopDimension) -> Index:
    """Return the number of iterations of a loop, an int if static."""
    if source.is_static:
        return source.size
    return memref.dim(source.value, constant(source.dimension))


def product(sizes: Sequence[Index]) -> Index:
    """Return the product of sizes: an int if all are static, else emitted multiplications."""
    total: Index = 1
    for size in sizes:
        total = multiply(total, size)
    return total


def unflatten(number: ir.Value, sizes: Sequence[Index], shift: int = 0) -> list[Index]:
    """Emit the loop indices of the point with the linear index ``number + shift``.

    The loops have the trip counts ``sizes``; the last index varies fastest. If ``shift`` is a
    multiple of the product of all trip counts but the first, only the emitted addition to the first
    index depends on ``shift``. Points with the same ``number`` then share all other operations.

    The emitted code divides in 32 bits, because a 64-bit integer division is a subroutine of about
    100 instructions on a GPU. A tile has fewer than 2**31 points.
    """
    if len(sizes) == 1:
        return [add(number, shift)]
    indices: list[Index] = []
    rest = _narrow(number)
    for size in reversed(sizes[1:]):
        if size == 1:
            indices.insert(0, 0)
            continue
        left = shift // size if isinstance(size, int) and shift % size == 0 else 0
        if shift and not left:
            rest = _shifted(rest, shift)
        divisor = _narrow(as_value(size))
        indices.insert(0, _widen(arith.remui(rest, divisor)))
        rest, shift = arith.divui(rest, divisor), left
    return [add(_widen(rest), shift), *indices] if sizes else []


def _shifted(narrow: ir.Value, shift: int) -> ir.Value:
    return arith.addi(narrow, arith.constant(narrow.type, shift)) if shift else narrow


def _narrow(value: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(32), value)


def _widen(value: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), value)
