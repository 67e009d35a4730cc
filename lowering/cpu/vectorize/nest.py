"""Reads a ``linalg.generic`` on memrefs as a loop nest over flat memory.

Every operand becomes a one-dimensional buffer with an offset, and a stride for each loop. The
strides tell whether accesses are contiguous, strided or invariant, for any rank and indexing map.
An operand whose map is not linear keeps the map and is addressed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rammer_mlir.bindings import ir
from rammer_mlir.lowering.cpu.vectorize.body import Body
from rammer_mlir.lowering.cpu.vectorize.byte_products import ByteProductBody, in_words
from rammer_mlir.lowering.cpu.vectorize.epilogue import Epilogue
from rammer_mlir.lowering.cpu.vectorize.gathers import varying_slots
from rammer_mlir.lowering.cpu.vectorize.operands import (
    Operand,
    element_bits,
    metadata,
    read_operand,
)
from rammer_mlir.lowering.cpu.vectorize.tile import Access, Loop, LoopNest
from rammer_mlir.lowering.kernels.affine import Index, upper_bound
from rammer_mlir.passes.contractions.byte_product import adds_adjacent_terms
from rammer_mlir.passes.ir.structured import LoopDimension, Structured, as_buffer

_UNKNOWN_TRIPS = 64  # estimate of a trip count without a known bound


@dataclass(frozen=True)
class Finish:
    """An epilogue that is applied to each result of a nest before the result is stored.

    Attributes:
        body: the parsed body of the epilogue.
        operands: the epilogue's operands, its output last, with strides along the nest's
            dimensions.
        argument: the index of the operand that is the nest's result.
        keeps: whether the nest's result is stored in addition to the epilogue's output.
    """

    body: Body
    operands: list[Operand]
    argument: int
    keeps: bool


class Nest:
    """The loops, operands and body of a ``linalg.generic``, and its epilogue.

    Lists with an element for each dimension of the operation are ``sizes``, ``bounds`` (upper
    bounds of the sizes) and ``reduction`` (whether the dimension is reduced). ``loops`` lists the
    dimensions that are iterated over: those of size 1 and those merged with another dimension are
    left out. ``outputs`` is the count of outputs. ``byte_products`` is the name of an instruction
    that multiplies 8-bit integers, or empty. With such an instruction, the factors of products are
    read as 32-bit words of four adjacent integers.
    """

    def __init__(
        self,
        operation: ir.Operation,
        epilogue: Epilogue | None = None,
        byte_products: str = "",
    ) -> None:
        self.operation = operation
        self.generic = Structured(operation.opview)
        self.reduction = [not parallel for parallel in self.generic.parallel]
        self.body = Body(self.generic, contract=any(self.reduction))
        self.outputs = self.generic.num_outputs
        self.sizes: list[Index] = []
        self.bounds: list[int] = []
        for source in self.generic.extent_sources:
            self._read_size(source)
        self.operands = [
            read_operand(value, affine_map, len(self.sizes))
            for value, affine_map in zip(self.generic.operands, self.generic.maps, strict=True)
        ]
        if byte_products and adds_adjacent_terms(self.generic):
            self._read_words(byte_products)
        self.finish = None if epilogue is None else _read_finish(epilogue, len(self.sizes))
        self.loops = [d for d, size in enumerate(self.sizes) if size != 1]
        if not self.body.indices:
            self._merge_loops()

    def _read_size(self, source: LoopDimension) -> None:
        """Append the size of the next loop to ``sizes``, and its upper bound to ``bounds``.

        ``source`` is a dimension of an operand that this loop indexes, so that their sizes are
        equal.
        """
        size: Index = source.size
        bound: int | None = source.size
        if not source.is_static:
            size = metadata(as_buffer(source.value))[2][source.dimension]
            bound = size if isinstance(size, int) else upper_bound(size)
        self.sizes.append(size)
        self.bounds.append(_UNKNOWN_TRIPS if bound is None else bound)

    def _read_words(self, byte_products: str) -> None:
        """Read both factors of a product of 8-bit integers as 32-bit words, if possible.

        A word has four adjacent integers. The loop over the integers of a word then has one
        iteration. ``byte_products`` is the name of the instruction that multiplies words.
        """
        terms = self.generic.maps[0].results[-1]
        assert isinstance(terms, ir.AffineDimExpr)
        words = [in_words(operand, terms.position) for operand in self.operands[:2]]
        found = [operand for operand in words if operand is not None]
        if len(found) == len(words):
            self.operands[:2] = found
            self.sizes[terms.position] = self.bounds[terms.position] = 1
            self.body = ByteProductBody(self.generic, byte_products)

    def _merge_loops(self) -> None:
        """Merge two loops if one loop of constant stride visits the same elements of every operand.

        All such pairs are merged. The inner loop gets the trips of both loops.
        """
        if any(operand.results is not None for operand in self.operands):
            return
        for outer in reversed(list(self.loops)):
            for inner in self.loops:
                if inner != outer and self._mergeable(outer, inner):
                    merged = self.bounds[outer] * self.bounds[inner]
                    self.sizes[inner] = self.bounds[inner] = merged
                    self.sizes[outer] = self.bounds[outer] = 1
                    self.loops.remove(outer)
                    break

    def _mergeable(self, outer: int, inner: int) -> bool:
        if {outer, inner} & self.panels.keys():
            return False
        outer_size, size = self.sizes[outer], self.sizes[inner]
        if not isinstance(outer_size, int) or not isinstance(size, int):
            return False
        if self.reduction[outer] != self.reduction[inner]:
            return False
        for operand in self._all_operands:
            far, near = operand.strides[outer], operand.strides[inner]
            if not isinstance(far, int) or not isinstance(near, int) or far != near * size:
                return False
        return True

    @property
    def _all_operands(self) -> list[Operand]:
        """The operands of the nest and of its epilogue."""
        return [*self.operands, *([] if self.finish is None else self.finish.operands)]

    @property
    def panels(self) -> dict[int, int]:
        """The count of points in a panel, for each dimension along which an operand has panels.

        If several operands have panels along a dimension, the count is that of the smallest panel.
        """
        found: dict[int, int] = {}
        for jump in (jump for operand in self._all_operands for jump in operand.jumps):
            found[jump.loop] = min(jump.width, found.get(jump.loop, jump.width))
        return found

    @property
    def lane_bits(self) -> int:
        """The width in bits of the widest element type among the operands."""
        return max(element_bits(operand.element) for operand in self.operands)

    def describe(self, vector_bits: int, known: list[bool]) -> LoopNest:
        """Return the properties of the nest from which ``plan_tile`` plans the micro tile.

        The result has no IR values. A loop is identified by its position in ``loops``.

        Args:
            vector_bits: the width of a vector register.
            known: for each output, whether its content before the nest is a constant.
        """
        accesses = [operand.access(self.loops) for operand in self.operands]
        panels = self.panels
        split = len(accesses) - self.outputs
        return LoopNest(
            loops=tuple(
                Loop(
                    self.bounds[d],
                    isinstance(self.sizes[d], int),
                    self.reduction[d],
                    panels.get(d, 0),
                    *self._lanes_along(d),
                )
                for d in self.loops
            ),
            inputs=tuple(accesses[:split]),
            outputs=tuple(accesses[split:] if self.finish is None else self._final_accesses()),
            lanes=max(1, vector_bits // self.lane_bits),
            registers=30 if vector_bits >= 512 else 14,
            work=self.body.work,
            reads_init=any(
                self.body.uses(self.body.arguments - self.outputs + k) > 0 and not known[k]
                for k in range(self.outputs)
            ),
            vectorizable=self.body.vectorizable and self._has_vector_elements(),
            combinable=self.body.combiners is not None,
            line=max(1, 512 // self.lane_bits),
        )

    def _lanes_along(self, loop: int) -> tuple[bool, float]:
        """Return whether the lanes of registers may lie along ``loop``, and their shared work.

        Shared work is the estimated cost, in the unit of ``Body.work``, of the operations that are
        computed once for all lanes of a register. It is 0 unless the body gathers elements.
        """
        if not self.body.gathers:
            return True, 0.0
        moving = [
            slot
            for slot, operand in enumerate(self.operands)
            if slot >= len(self.operands) - self.outputs or not operand.invariant(loop)
        ]
        varying = varying_slots(self.body, loop, moving)
        return varying is not None, 0.0 if varying is None else self.body.shared_work(varying)

    def _final_accesses(self) -> list[Access]:
        """Return the strides of each buffer that a nest with an epilogue stores to.

        The last buffer is the epilogue's output. The first is the result of the ``linalg.generic``,
        if that is stored too.
        """
        assert self.finish is not None
        kept = [self.operands[-1]] if self.finish.keeps else []
        return [operand.access(self.loops) for operand in [*kept, self.finish.operands[-1]]]

    def _has_vector_elements(self) -> bool:
        return all(element_bits(operand.element) in (8, 16, 32, 64) for operand in self.operands)


def _read_finish(epilogue: Epilogue, dims: int) -> Finish:
    """Return an epilogue, with its operands' strides given along the dimensions of its reduction.

    ``dims`` is the count of dimensions of the reduction. ``epilogue.dims`` maps each dimension of
    the epilogue to a dimension of the reduction.
    """
    generic = Structured(epilogue.operation.opview)
    operands: list[Operand] = []
    for value, affine_map in zip(generic.operands, generic.maps, strict=True):
        own = read_operand(value, affine_map, len(epilogue.dims))
        strides: list[Index] = [0] * dims
        for dim, stride in zip(epilogue.dims, own.strides, strict=True):
            strides[dim] = stride
        jumps = [replace(jump, loop=epilogue.dims[jump.loop]) for jump in own.jumps]
        operands.append(replace(own, strides=strides, jumps=jumps))
    body = Body(generic, contract=False)
    return Finish(body, operands, epilogue.argument, epilogue.keeps)
