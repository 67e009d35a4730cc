"""Plans a block's contraction (a matrix product, a convolution), without IR.

The block iterates over *chunks* of a reduction loop. For each chunk it stages the boxes of the
operands in shared memory, from which its threads compute tiles of results in registers. If there
are fewer tiles than threads, *groups* of threads share the chunk, and their partial results are
combined in shared memory. All sizes are static; at edges, boxes are padded with zeros and results
beyond the edge are dropped.

If the target has matrix instructions, the threads of a warp compute a tile jointly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from rammer_mlir.lowering.gpu.bank_conflicts import padded_strides, round_up
from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit

WARP = 32

WIDEST = 16
"""Size in bytes of a thread's widest access."""


@dataclass(frozen=True)
class Access:
    """The indices at which an operand is read, as linear functions of the loops.

    Attributes:
        number: the operand's number.
        rows: for each dimension of the operand, the factor of each loop; all are non-negative.
        constants: for each dimension of the operand, the constant offset of the index.
        element_bytes: size of an element.
    """

    number: int
    rows: tuple[tuple[int, ...], ...]
    constants: tuple[int, ...]
    element_bytes: int

    def uses(self, loop: int) -> bool:
        """Return whether the accessed element depends on a loop."""
        return any(row[loop] for row in self.rows)


@dataclass(frozen=True)
class Contraction:
    """The data of a ``linalg.generic`` from which its computation by a block is planned.

    Attributes:
        extents: largest number of iterations of each loop.
        parallel: numbers of the parallel loops.
        reduced: numbers of the reduction loops, at least one, of static bounds.
        inputs: its operands in memory.
        matrix_element: the element type (f16, bf16 or f32) if it accumulates products of two
            elements of that type in f32, else "".
        result_bytes: size of a result.
    """

    extents: tuple[int, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...]
    inputs: tuple[Access, ...]
    matrix_element: str = ""
    result_bytes: int = 4

    @property
    def innermost(self) -> int:
        """The last reduction loop with more than one iteration; without such a loop, the first."""
        longer = [loop for loop in self.reduced[1:] if self.extents[loop] > 1]
        return longer[-1] if longer else self.reduced[0]


@dataclass(frozen=True)
class Staged:
    """An operand's box for a chunk, in shared memory.

    Attributes:
        access: the operand's index map.
        box: number of elements along each dimension.
        strides: stride of each dimension in elements, with padding.
        elements: number of elements of a stage, a multiple of the widest access.
        offset: bytes from the beginning of the staging memory to the first stage.
        reach: exclusive end of the indices that all boxes together cover, along each dimension of
            the operand.
    """

    access: Access
    box: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int
    offset: int
    reach: tuple[int, ...]

    def factor(self, loop: int) -> int:
        """Return the distance in elements, in shared memory, between iterations of a loop."""
        rows = zip(self.access.rows, self.strides, strict=True)
        return sum(row[loop] * stride for row, stride in rows)


@dataclass(frozen=True)
class MatrixLoops:
    """The loops and operands of a contraction that a matrix instruction computes.

    The products are summed along the first reduction loop.

    Attributes:
        unit: the instruction.
        rows: number of the loop over rows, which the right operand does not use.
        columns: number of the loop over columns, which the left operand does not use.
        left: number of the left operand among the inputs.
        right: number of the right operand among the inputs.
    """

    unit: MatrixUnit
    rows: int
    columns: int
    left: int
    right: int


@dataclass(frozen=True)
class ContractionPlan:
    """Plan of a block's contraction.

    Attributes:
        contraction: the computation.
        block: number of results along each parallel loop that the block computes at a time.
        tile: number of results along each parallel loop that a thread, or a warp, computes.
        adjacent: for each parallel loop, whether a thread's results are adjacent; otherwise their
            distance is the number of tiles.
        groups: number of groups of threads, or of warps, that share a chunk.
        chunk: number of iterations of the first reduction loop that are staged at a time.
        unrolled: number of unrolled iterations of the innermost reduction loop.
        operands: the staged operands.
        stages: 2 with double buffering (the next chunk is fetched during the current one), else 1.
        shared_bytes: bytes of shared memory for staging and, afterwards, for partial results.
        matrix: loops of the matrix instructions, None if threads compute tiles individually.
    """

    contraction: Contraction
    block: tuple[int, ...]
    tile: tuple[int, ...]
    adjacent: tuple[bool, ...]
    groups: int
    chunk: int
    unrolled: int
    operands: tuple[Staged, ...]
    stages: int
    shared_bytes: int
    matrix: MatrixLoops | None = None

    @property
    def lanes(self) -> int:
        """The number of threads that compute a tile."""
        return self.matrix.unit.lanes if self.matrix else 1

    @property
    def tiles(self) -> tuple[int, ...]:
        """The number of tiles along each parallel loop."""
        return tuple(b // t for b, t in zip(self.block, self.tile, strict=True))

    @property
    def num_chunks(self) -> int:
        """The number of chunks of the first reduction loop."""
        return self.contraction.extents[self.contraction.reduced[0]] // self.chunk

    @property
    def num_results(self) -> int:
        """The number of results of the block, including those beyond edges."""
        return prod(self.block)

    @property
    def offsets(self) -> list[tuple[int, ...]]:
        """The offsets of a thread's results from its first result, along each parallel loop.

        Each result of the thread has a tuple of offsets. With matrix instructions, a thread's
        results are those of a lane.
        """
        if self.matrix:
            return self._fragment_offsets(self.matrix)
        ranges = [
            range(0, t if near else b, 1 if near else b // t)
            for t, b, near in zip(self.tile, self.block, self.adjacent, strict=True)
        ]
        return list(product(*ranges))

    def _fragment_offsets(self, matrix: MatrixLoops) -> list[tuple[int, ...]]:
        """Return the offsets of a lane's results from its first result, along each parallel loop.

        Each result has a tuple of offsets. Results are listed matrix by matrix in row-major order.
        """
        rows, columns = self.num_matrices
        unit = matrix.unit
        found: list[tuple[int, ...]] = []
        for m, n, (row, column) in product(range(rows), range(columns), unit.results):
            at = {matrix.rows: m * unit.rows + row, matrix.columns: n * unit.columns + column}
            found.append(tuple(at.get(loop, 0) for loop in self.contraction.parallel))
        return found

    @property
    def num_matrices(self) -> tuple[int, int]:
        """The numbers of matrices that cover a warp's tile: along rows, and along columns."""
        assert self.matrix is not None
        sizes = dict(zip(self.contraction.parallel, self.tile, strict=True))
        unit = self.matrix.unit
        return sizes[self.matrix.rows] // unit.rows, sizes[self.matrix.columns] // unit.columns

    @property
    def scales(self) -> tuple[int, ...]:
        """The distance from a tile's first result to the next tile's, along each parallel loop."""
        return tuple(t if near else 1 for t, near in zip(self.tile, self.adjacent, strict=True))

    @property
    def block_strides(self) -> tuple[int, ...]:
        """The row-major strides, in elements, of the results that the block computes at a time."""
        return tuple(prod(self.block[n + 1 :]) for n in range(len(self.block)))

    @property
    def nest(self) -> list[tuple[int, int, int]]:
        """The reduction loops of a chunk for a group of threads (or warps), outermost first.

        A loop is (loop number, trips, iterations of the loop per trip).
        """
        contraction = self.contraction
        sizes = {loop: contraction.extents[loop] for loop in contraction.reduced}
        sizes[contraction.reduced[0]] = self.span
        steps = {loop: 1 for loop in contraction.reduced}
        if self.matrix:
            steps[contraction.reduced[0]] = self.matrix.unit.steps[contraction.matrix_element]
        else:
            steps[contraction.innermost] = self.unrolled
        return [(loop, sizes[loop] // steps[loop], steps[loop]) for loop in contraction.reduced]

    def point(self, offset: Sequence[int], step: int) -> list[int]:
        """Return the index of each loop, relative to a thread's first iteration.

        ``offset`` has a result's offsets along the parallel loops; ``step`` is the number of the
        unrolled iteration of the innermost reduction loop.
        """
        found = [0] * len(self.contraction.extents)
        for loop, shift in zip(self.contraction.parallel, offset, strict=True):
            found[loop] = shift
        found[self.contraction.innermost] = step
        return found

    def tile_steps(self, staged: Staged) -> tuple[int, ...]:
        """Return, per parallel loop, the distance in an operand's box from a tile to the next.

        The distance is in elements of shared memory, where ``staged`` is the operand's box.
        """
        loops = zip(self.contraction.parallel, self.scales, strict=True)
        return tuple(staged.factor(loop) * scale for loop, scale in loops)

    def group_step(self, staged: Staged) -> int:
        """Return the distance between the parts of a staged operand for adjacent groups of threads.

        The distance is in elements of shared memory. Groups are those of
        ``ContractionPlan.groups``.
        """
        return staged.factor(self.contraction.reduced[0]) * self.span

    def alignment(self, staged: Staged) -> int:
        """Return a divisor, in elements, of all addresses that a thread computes in ``staged``."""
        tiles = zip(self.tile_steps(staged), self.tiles, strict=True)
        terms = [
            *(step for step, count in tiles if count > 1),
            self.group_step(staged) if self.groups > 1 else 0,
            *(step * staged.factor(loop) for loop, trips, step in self.nest if trips > 1),
        ]
        return gcd(staged.elements, *terms)

    @property
    def span(self) -> int:
        """The number of iterations of the first reduction loop that a group computes of a chunk.

        A group consists of threads, or of warps with matrix instructions; ``groups`` is their
        number.
        """
        return self.chunk // self.groups


@dataclass(frozen=True)
class Tiling:
    """Numbers of results that a block and a tile compute along each parallel loop.

    ``block`` has the numbers of results that a block computes at a time, and ``tile`` those of a
    thread, or of a warp with matrix instructions. ``matrix`` has the loops that matrix instructions
    compute, or is None if threads compute without them.
    """

    block: tuple[int, ...]
    tile: tuple[int, ...]
    matrix: MatrixLoops | None = None

    @property
    def num_tiles(self) -> int:
        """Return the number of tiles of a block."""
        return prod(b // t for b, t in zip(self.block, self.tile, strict=True))


def lay_out(
    contraction: Contraction, tiling: Tiling, groups: int, chunk: int, unrolled: int
) -> ContractionPlan:
    """Return the plan with given sizes of its tiling, groups and chunks.

    ``groups``, ``chunk`` and ``unrolled`` are the plan's fields of these names.
    """
    block = tiling.block
    stages = 1 if chunk == contraction.extents[contraction.reduced[0]] else 2
    sizes = list(contraction.extents)
    for loop, size in zip(contraction.parallel, block, strict=True):
        sizes[loop] = size
    sizes[contraction.reduced[0]] = chunk
    covered = list(contraction.extents)
    for loop, size in zip(contraction.parallel, block, strict=True):
        covered[loop] = round_up(covered[loop], size)
    operands: list[Staged] = []
    offset = 0
    for access in contraction.inputs:
        box = _extent_of(access, sizes)
        strides, elements = padded_strides(box, access.element_bytes, WIDEST)
        reach = _extent_of(access, covered)
        reach = tuple(a + b for a, b in zip(reach, access.constants, strict=True))
        operands.append(Staged(access, box, strides, elements, offset, reach))
        offset += stages * elements * access.element_bytes
        offset = round_up(offset, WIDEST)
    partial = groups * prod(block) * 4 if groups > 1 else 0
    return ContractionPlan(
        contraction, block, tiling.tile, _adjacent(contraction, tiling), groups, chunk, unrolled,
        tuple(operands), stages, max(offset, partial), tiling.matrix,
    )  # fmt: skip


def _extent_of(access: Access, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the number of indices that an access covers, along each dimension of the operand.

    It is the distance from the least to the greatest index, plus 1. ``sizes`` has the number of
    iterations of each loop.
    """
    return tuple(
        1 + sum(factor * (size - 1) for factor, size in zip(row, sizes, strict=True))
        for row in access.rows
    )


def _adjacent(contraction: Contraction, tiling: Tiling) -> tuple[bool, ...]:
    """Return, per parallel loop, whether a thread's results are adjacent along it.

    They are adjacent along loops that index the last dimension of an operand.
    """
    return tuple(
        tiling.matrix is not None or any(access.rows[-1][loop] for access in contraction.inputs)
        for loop in contraction.parallel
    )
