"""Emits software prefetches for products: of the next panel, the next piece, or a stream.

Many micro tiles read the same panel of weights; the first of them waits for memory, the others hit
the cache. In each iteration of its reduction, a micro tile therefore prefetches a part of the next
panel into the second-level cache, because hardware prefetchers stop at page boundaries.
``long_reductions`` splits a long sum into pieces, each with a part of the reduction's iterations; a
piece also prefetches the elements of the other factor that the next piece reads.

In a product of few rows, a single micro tile reads a panel of weights, once. It prefetches the
lines that it reads itself a few iterations later (``Stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir, memref
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.operands import Operand, element_bits
from rammer_mlir.lowering.cpu.vectorize.registers import Instance, Registers, Spans
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.ir_walk import producer
from rammer_mlir.lowering.kernels.affine import Index, add, as_value, floor_divide, multiply

PIECE = "rtask.piece"
"""Attribute of a ``linalg.generic`` that is a piece of a sum: [split loop, trips per piece]."""

_LEAST_BYTES = 16 * 1024
"""Least bytes of a panel for which prefetching pays."""

_WIDEST_STEP = 64
"""Most elements of a panel per step of the sum; an operand with more is no panel."""

_LINE_BITS = 512
"""Bits of a cache line."""

_FIRST_LEVEL, _SECOND_LEVEL = 3, 2
"""``memref.prefetch``'s locality hints: into all levels, or all but the first-level cache."""

_STREAM_BYTES = 1024
"""Distance in bytes from the elements that one or two streams read to those that they prefetch.

It is shorter for more streams: an iteration then takes as much longer as there are more of them.
One stream of 256 MiB was read at 15.1 GB/s without prefetches, at 21.0 with this distance and at
20.8 with 512 and 2048 bytes (one core of a Xeon with AVX-512, huge pages); streams in the caches
were as fast with prefetches as without.
"""

_LEAST_STREAMED = 4 * 1024 * 1024
"""Least bytes of a buffer that is prefetched as a stream.

A smaller buffer may stay in a core's second-level cache from one read to the next, as the weights
of a recurrent layer do; there, prefetches take the place of loads: a product with 1 MiB of weights
was 14 % slower.
"""

_VIEWS = {
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.extract_strided_metadata",
    "memref.reinterpret_cast",
    "memref.subview",
}
"""Operations whose first result is a view of the first operand's buffer."""


@dataclass(frozen=True)
class Panel:
    """The prefetch of an operand's next panel, divided among the micro tiles that share a panel.

    In a panel, a micro tile reads one or more contiguous ranges of memory. The micro tile
    prefetches a share of each corresponding range of the next panel.

    Attributes:
        operand: the operand that is read.
        ahead: distance in elements from a panel to the next.
        registers: the first register of each range, as its offset in elements from the micro tile's
            first register.
        moves: tuples (dimension, points, elements) that determine where a micro tile's share begins
            in a range: ``elements`` later for every ``points`` iterations of the loop over
            ``dimension``.
        lines: cache lines to prefetch per range and iteration of the reduction.
        line: elements of a cache line.
    """

    operand: Operand
    ahead: int
    registers: tuple[int, ...]
    moves: tuple[tuple[int, int, int], ...]
    lines: int
    line: int

    def ask(self, registers: Registers, spans: Spans, instances: Sequence[Instance]) -> None:
        """Emit a micro tile's prefetches for one iteration of the reduction.

        ``spans`` has the micro tile's part of each loop, and ``instances`` its registers.
        """
        further: Index = self.ahead
        for dim, points, elements in self.moves:
            base = spans[dim].base
            steps = base if points == 1 else floor_divide(base, points)
            further = add(further, multiply(steps, elements))
        moving = {dim for dim, _, _ in self.moves}
        fixed = {dim: span for dim, span in spans.items() if dim not in moving}
        places = {place_of(self.operand, i.offsets): i for i in reversed(instances)}
        for place in self.registers:
            if place not in places:  # a partial tile at an edge lacks this register
                continue
            start = add(registers.address(self.operand, fixed, places[place]), further)
            for number in range(self.lines):
                _ask(self.operand, add(start, number * self.line))


@dataclass(frozen=True)
class Stream:
    """The prefetch of an operand that a micro tile reads contiguously, and no other one reads.

    Each iteration of the reduction prefetches as many cache lines as it reads.

    Attributes:
        operand: the operand that is read.
        ahead: distance in elements from the elements that are read to those that are prefetched.
        line: elements of a cache line.
    """

    operand: Operand
    ahead: int
    line: int

    def ask(self, registers: Registers, spans: Spans, instances: Sequence[Instance]) -> None:
        """Emit a micro tile's prefetches for one iteration of the reduction.

        ``spans`` has the micro tile's part of each loop, and ``instances`` its registers.
        """
        # The first register of each cache line.
        first: dict[int, Instance] = {}
        for instance in instances:
            first.setdefault(place_of(self.operand, instance.offsets) // self.line, instance)
        for instance in first.values():
            _ask(
                self.operand,
                add(registers.address(self.operand, spans, instance), self.ahead),
                _FIRST_LEVEL,
            )


def place_of(operand: Operand, offsets: Mapping[int, int]) -> int:
    """Return a register's offset in an operand, in elements from the micro tile's first register.

    ``offsets`` maps each dimension to the register's offset in points from the first register.
    Dynamic strides count as 0.
    """
    moved = ((operand.strides[dim], offset) for dim, offset in offsets.items())
    return sum(stride * offset for stride, offset in moved if isinstance(stride, int))


@dataclass(frozen=True)
class Rows:
    """The prefetch of elements that the next piece of a long sum reads and broadcasts to all lanes.

    In a pass over the innermost reduction loop, a micro tile reads one cache line of the operand
    for each iteration of an unrolled parallel loop. The corresponding lines of the next piece are
    prefetched.

    Attributes:
        operand: the operand that is read.
        ahead: distance in elements from a piece of the sum to the next.
        inner: the innermost reduction loop; its iterations read the elements of one cache line.
        trips: trip count of ``inner``, equal to the count of elements in a cache line.
        apart: distance in elements between the cache lines of adjacent iterations of the unrolled
            loop.
        lines: cache lines to prefetch in each iteration of ``inner``.
    """

    operand: Operand
    ahead: int
    inner: int
    trips: int
    apart: int
    lines: int

    def ask(self, registers: Registers, spans: Spans, instances: Sequence[Instance]) -> None:
        """Emit the prefetches of one iteration of the reduction.

        Iteration ``i`` of the loop ``inner`` prefetches the cache lines with indices ``i``, ``i +
        trips``, ``i + 2 * trips`` and so on, ``lines`` in total. The indices count the micro tile's
        cache lines in the next piece of the sum.

        Args:
            registers: computes the address of an operand at a register of the micro tile.
            spans: the micro tile's part of each loop.
            instances: the registers of the micro tile; only the address of the first is used.
        """
        start = registers.address(self.operand, spans, instances[0])
        step = multiply(spans[self.inner].base, self.apart - 1)
        for number in range(self.lines):
            further = self.ahead + number * self.trips * self.apart
            _ask(self.operand, add(add(start, step), further))


def _distance(operand: Operand, dim: int, points: int) -> int:
    """Return how far an operand's address moves after ``points`` iterations of a loop, in elements.

    ``dim`` is the dimension of the loop. Dynamic strides count as 0.
    """
    jumps = [
        multiply(jump.distance, points // jump.width) for jump in operand.jumps if jump.loop == dim
    ]
    distances = [multiply(operand.strides[dim], points), *jumps]
    return sum(distance for distance in distances if isinstance(distance, int))


def _ask(operand: Operand, address: Index, hint: int = _SECOND_LEVEL) -> None:
    memref.prefetch(operand.value, [as_value(address)], False, hint, True)


def _buffer_size(value: ir.Value) -> int:
    """Return the count of elements in the buffer under a memref; 0 for a dynamic shape."""
    while not isinstance(value.owner, ir.Block) and producer(value) in _VIEWS:
        value = value.owner.operation.operands[0]
    shape = ir.MemRefType(value.type)
    return prod(shape.shape) if shape.has_static_shape else 0


def find_prefetches(nest: Nest, plan: TilePlan) -> list[Panel | Rows | Stream]:
    """Return the prefetches to emit in each iteration of a nest's reduction.

    The list is empty if the nest has no reduction loop, if the lanes are along a reduction loop, or
    if prefetches would not pay.
    """
    vector = None if plan.vector is None else nest.loops[plan.vector]
    if vector is None or nest.reduction[vector] or not any(nest.reduction[d] for d in nest.loops):
        return []
    tile = _Tile(nest, plan, vector)
    inputs = nest.operands[: -nest.outputs]
    found: list[Panel | Rows | Stream] = []
    for operand in inputs:
        if operand.is_scalar or operand.results is not None:
            continue
        ahead = tile.panel_ahead(operand) or tile.rows_ahead(operand) or tile.stream_ahead(operand)
        if ahead is not None:
            found.append(ahead)
    return found


@dataclass(frozen=True)
class _Ranges:
    """The contiguous ranges of memory in which a micro tile reads an operand.

    Attributes:
        strides: the operand's stride along each loop, in elements.
        width: the elements that an iteration of the reduction reads in a range; 0 if successive
            iterations do not read contiguous memory.
        steps: the count of these iterations.
        runs: the length of each range in units of ``width * steps`` elements, by the offset in
            elements of its first register.
        sharing: the tiled loops along which the operand does not vary.
    """

    strides: Sequence[int]
    width: int
    steps: int
    runs: Mapping[int, int]
    sharing: Sequence[int]

    @property
    def size(self) -> int:
        """The count of elements in all ranges."""
        return sum(self.runs.values()) * self.width * self.steps


class _Tile:
    """A nest and its micro tile; both identify a loop by its dimension in the nest."""

    def __init__(self, nest: Nest, plan: TilePlan, vector: int) -> None:
        self._nest = nest
        self._vector = vector
        self._points = {dim: plan.points(number) for number, dim in enumerate(nest.loops)}
        self._unroll = {nest.loops[loop]: factor for loop, factor in plan.unroll}
        self._lanes, self._registers = plan.lanes, plan.vectors
        self._order = [nest.loops[loop] for loop in plan.order]
        self._reductions = [dim for dim in nest.loops if nest.reduction[dim]]
        self._line = max(1, _LINE_BITS // nest.lane_bits)
        attributes = nest.operation.attributes
        self._piece = (
            tuple(ir.DenseI64ArrayAttr(attributes[PIECE])) if PIECE in attributes else None
        )

    def panel_ahead(self, operand: Operand) -> Panel | None:
        """Return the prefetch of an operand's next panel.

        The result is None if the operand is not contiguous along the lanes or is not read in
        panels, if no two micro tiles share a panel, or if the panels are too small for a gain.
        """
        ranges = self._ranges(operand)
        if ranges is None or not 0 < ranges.width <= _WIDEST_STEP or not ranges.sharing:
            return None
        if ranges.size * self._nest.lane_bits // 8 < _LEAST_BYTES:
            return None
        strides, width, runs, sharing = ranges.strides, ranges.width, ranges.runs, ranges.sharing
        tiles = [-(-self._nest.bounds[dim] // self._points[dim]) for dim in sharing]
        (count, *_) = runs.values()
        each = -(-width * count // prod(tiles))
        moves = [(dim, 1, strides[dim] // width * each) for dim in self._reductions]
        further = ranges.steps * each
        for dim, number in zip(reversed(sharing), reversed(tiles), strict=True):
            moves.append((dim, self._points[dim], further))
            further *= number
        lines = -(-each // self._line)
        ahead = self._next_panel(operand, strides)
        return Panel(operand, ahead, tuple(runs), tuple(moves), lines, self._line)

    def _ranges(self, operand: Operand) -> _Ranges | None:
        """Return the ranges of memory in which a micro tile reads an operand.

        The result is None if the operand is not contiguous along the lanes.
        """
        strides = self._static_strides(operand)
        if strides is None or strides[self._vector] != 1:
            return None
        width, steps = self._dense_steps(strides)
        sharing = [dim for dim in self._order if self._is_tiled(dim) and not strides[dim]]
        return _Ranges(strides, width, steps, self._runs(strides, width * steps), sharing)

    def _dense_steps(self, strides: Sequence[int]) -> tuple[int, int]:
        """Return how many elements of an operand an iteration reads, and the count of iterations.

        The reduction loops count as a single loop, as if they were collapsed. Both numbers are 0 if
        successive iterations do not read contiguous memory. ``strides`` has the operand's stride
        along each loop, in elements.
        """
        width, reach = 0, 0
        for dim in sorted(self._reductions, key=lambda dim: strides[dim]):
            size = self._nest.sizes[dim]
            if not isinstance(size, int) or not strides[dim] or (reach and strides[dim] != reach):
                return 0, 0
            width = width or strides[dim]
            reach = strides[dim] * size
        return width, reach // max(width, 1)

    def _runs(self, strides: Sequence[int], reach: int) -> dict[int, int]:
        """Return the contiguous ranges of memory in which a micro tile reads an operand.

        A key of the result is the offset in elements of a range's first register. The value is the
        length of the range in units of ``reach`` elements, the count of elements that the whole
        reduction reads contiguously. ``strides`` has the operand's stride along each loop, in
        elements.
        """
        offsets = [0]
        for dim, count in [*self._unroll.items(), (self._vector, self._registers)]:
            step = strides[dim] * (self._lanes if dim == self._vector else 1)
            offsets = sorted({offset + n * step for offset in offsets for n in range(count)})
        panels = sorted({offset - offset % max(reach, 1) for offset in offsets})
        if panels == [number * reach for number in range(len(panels))]:
            return {0: len(panels)}
        return dict.fromkeys(sorted({min(o for o in offsets if o >= p) for p in panels}), 1)

    def _next_panel(self, operand: Operand, strides: Sequence[int]) -> int:
        """Return the distance in elements from an operand's panel to the panel that is read next.

        The next panel belongs to:

        - the next iteration of the innermost tiled loop along which the operand varies, if there is
          such a loop;
        - else the next piece of the sum, if the sum is split into pieces;
        - else the next rTask.

        ``strides`` has the operand's static stride along each loop, in elements.
        """
        moving = [dim for dim in self._order if strides[dim]]
        tiled = [dim for dim in moving if self._is_tiled(dim)]
        if tiled:
            return _distance(operand, tiled[-1], self._points[tiled[-1]])
        if self._piece is not None:
            loop, trips = self._piece
            return trips * strides[loop]
        return max(_distance(operand, dim, self._nest.bounds[dim]) for dim in moving)

    def rows_ahead(self, operand: Operand) -> Rows | None:
        """Return the prefetch of the operand's elements that the next piece of the sum reads.

        The result is None if the operand varies along the lanes, if the sum is not split into
        pieces, or if the innermost reduction loop does not traverse exactly one cache line of the
        operand.
        """
        strides = self._static_strides(operand)
        if strides is None or self._piece is None or strides[self._vector] != 0:
            return None
        loop, trips = self._piece
        inner = self._reductions[-1]
        moving = [dim for dim in self._unroll if strides[dim]]
        size = self._line
        if inner == loop or self._nest.sizes[inner] != size:
            return None
        if strides[inner] != 1 or len(moving) != 1:
            return None
        lines = -(-self._unroll[moving[0]] // size)
        return Rows(operand, trips * strides[loop], inner, size, strides[moving[0]], lines)

    def stream_ahead(self, operand: Operand) -> Stream | None:
        """Return the prefetch of an operand that is read as a stream.

        The result is None if several micro tiles read the same elements, if successive iterations
        of the reduction do not read whole and adjacent cache lines, or if a micro tile or the
        buffer has too few bytes for a gain.
        """
        ranges = self._ranges(operand)
        if ranges is None or ranges.sharing:
            return None
        # Unlike the lanes, cache lines depend on the operand's own type; each element has a byte.
        bits = max(8, element_bits(operand.element))
        if ranges.width * bits < _LINE_BITS or ranges.size * bits // 8 < _LEAST_BYTES:
            return None
        if _buffer_size(operand.value) * bits // 8 < _LEAST_STREAMED:
            return None
        ahead = _STREAM_BYTES // max(1, sum(ranges.runs.values()) // 2)
        return Stream(operand, max(ahead * 8, _LINE_BITS) // bits, _LINE_BITS // bits)

    def _static_strides(self, operand: Operand) -> list[int] | None:
        strides = [stride for stride in operand.strides if isinstance(stride, int)]
        jumps = [jump.distance for jump in operand.jumps if isinstance(jump.distance, int)]
        is_static = len(strides) == len(operand.strides) and len(jumps) == len(operand.jumps)
        return strides if is_static else None

    def _is_tiled(self, dim: int) -> bool:
        return self._nest.bounds[dim] > self._points[dim]
