"""Plans how a GPU block computes a contraction (a matrix product, a convolution), without IR.

The block iterates over *chunks* of the first reduction loop. For each chunk, the block stages a box
(the rectangular part that the chunk reads) of each operand in shared memory, from which the threads
compute tiles of results in registers. If there are fewer tiles than threads, *groups* of threads
divide the iterations of the chunk, and the groups' partial results are combined in shared memory.
All sizes are static: at the edges of an operand, boxes are padded with zeros, and results beyond
the edges of the output are dropped.

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
    """The indices at which a contraction reads an operand, as linear functions of the loop indices.

    Attributes:
        number: index of the operand among the inputs of the ``linalg.generic``.
        rows: for each dimension of the operand, the coefficient of each loop; all are non-negative.
        constants: for each dimension of the operand, the constant term of the linear function.
        element_bytes: size of an element in bytes.
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
    """The properties of a ``linalg.generic`` that the plan of its computation depends on.

    Attributes:
        extents: largest trip count of each loop.
        parallel: indices of the parallel loops.
        reduced: indices of the reduction loops, at least one, with static bounds.
        inputs: the accesses of the inputs that are in memory.
        matrix_element: f16, bf16 or f32 if the operation sums, in f32, products of two inputs of
            that element type; else "".
        result_bytes: size of a result in bytes.
    """

    extents: tuple[int, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...]
    inputs: tuple[Access, ...]
    matrix_element: str = ""
    result_bytes: int = 4

    @property
    def innermost(self) -> int:
        """The index of the last reduction loop with more than one iteration.

        If no reduction loop has more than one iteration, the index of the first reduction loop.
        """
        longer = [loop for loop in self.reduced[1:] if self.extents[loop] > 1]
        return longer[-1] if longer else self.reduced[0]


@dataclass(frozen=True)
class Staged:
    """An operand's box for a chunk, in shared memory.

    With double buffering, the shared memory has two copies of the box, the *stages*.

    Attributes:
        access: the indices at which the contraction reads the operand.
        box: number of elements along each dimension.
        strides: stride of each dimension in elements; padding avoids bank conflicts.
        elements: number of elements of a stage, including padding, so that each stage is aligned
            for the widest access.
        offset: bytes from the beginning of the staging memory to the first stage.
        reach: for each dimension of the operand, the exclusive end of the indices that the boxes of
            all chunks and all tiles cover.
    """

    access: Access
    box: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int
    offset: int
    reach: tuple[int, ...]

    def factor(self, loop: int) -> int:
        """Return the operand's stride in shared memory along a loop, in elements per iteration.

        ``loop`` is the index of the loop.
        """
        rows = zip(self.access.rows, self.strides, strict=True)
        return sum(row[loop] * stride for row, stride in rows)


@dataclass(frozen=True)
class MatrixLoops:
    """The roles of a contraction's loops and operands in its matrix instructions.

    The products are summed along the first reduction loop.

    Attributes:
        unit: the matrix instruction.
        rows: index of the loop over the result's rows, which the right operand does not use.
        columns: index of the loop over the result's columns, which the left operand does not use.
        left: index of the left operand in ``Contraction.inputs``.
        right: index of the right operand in ``Contraction.inputs``.
    """

    unit: MatrixUnit
    rows: int
    columns: int
    left: int
    right: int


@dataclass(frozen=True)
class ContractionPlan:
    """Plan of how a GPU block computes a contraction.

    A tile is computed by a thread or, with matrix instructions, by a warp.

    Attributes:
        contraction: the contraction.
        block: number of results along each parallel loop that the block computes at a time.
        tile: number of results along each parallel loop of a tile.
        adjacent: for each parallel loop, whether the results of a tile are adjacent. Otherwise, the
            tiles are interleaved: with n tiles along the loop, consecutive results of a tile are n
            indices apart.
        groups: number of groups of threads, or of warps, that divide the iterations of a chunk.
        chunk: number of iterations of the first reduction loop that are staged at a time.
        unrolled: number of unrolled iterations of the innermost reduction loop.
        operands: the staged operands.
        stages: 2 with double buffering (the next chunk is fetched during the current one), else 1.
        shared_bytes: bytes of shared memory for staging and, afterwards, for partial results.
        matrix: loops of the matrix instructions; None if threads compute tiles individually.
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
        """The number of the block's tiles along each parallel loop."""
        return tuple(b // t for b, t in zip(self.block, self.tile, strict=True))

    @property
    def num_chunks(self) -> int:
        """The number of chunks of the first reduction loop."""
        return self.contraction.extents[self.contraction.reduced[0]] // self.chunk

    @property
    def num_results(self) -> int:
        """The number of results of the block, including those beyond the output's edges."""
        return prod(self.block)

    @property
    def offsets(self) -> list[tuple[int, ...]]:
        """For each result of a thread, its distance from the first result along each parallel loop.

        The distances are in iterations. With matrix instructions, the results are those that a lane
        holds in registers.
        """
        if self.matrix:
            return self._fragment_offsets(self.matrix)
        ranges = [
            range(0, t if near else b, 1 if near else b // t)
            for t, b, near in zip(self.tile, self.block, self.adjacent, strict=True)
        ]
        return list(product(*ranges))

    def _fragment_offsets(self, matrix: MatrixLoops) -> list[tuple[int, ...]]:
        """Return the distance of each of a lane's results from its first result, per parallel loop.

        The distances are in iterations. The matrices of the warp's tile are in row-major order;
        within a matrix, the results are in the order of ``MatrixUnit.results``.
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
        """The numbers of matrix instructions that cover a warp's tile along rows and columns."""
        assert self.matrix is not None
        sizes = dict(zip(self.contraction.parallel, self.tile, strict=True))
        unit = self.matrix.unit
        return sizes[self.matrix.rows] // unit.rows, sizes[self.matrix.columns] // unit.columns

    @property
    def scales(self) -> tuple[int, ...]:
        """The distance, in results, between adjacent tiles' first results, per parallel loop."""
        return tuple(t if near else 1 for t, near in zip(self.tile, self.adjacent, strict=True))

    @property
    def block_strides(self) -> tuple[int, ...]:
        """The row-major strides, in elements, of the results that the block computes at a time."""
        return tuple(prod(self.block[n + 1 :]) for n in range(len(self.block)))

    @property
    def nest(self) -> list[tuple[int, int, int]]:
        """The reduction loops that a group of threads (or warps) runs for a chunk, outer first.

        The group is one of the ``groups`` groups that divide the iterations of the chunk. Each loop
        is a tuple (loop index, trip count after unrolling, unrolled iterations per trip).
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
        """Return a thread's loop indices for a result and an unrolled iteration, one per loop.

        The indices are relative to the thread's first iteration.

        Args:
            offset: distance of the result from the thread's first result along each parallel loop.
            step: index of the unrolled iteration of the innermost reduction loop.
        """
        found = [0] * len(self.contraction.extents)
        for loop, shift in zip(self.contraction.parallel, offset, strict=True):
            found[loop] = shift
        found[self.contraction.innermost] = step
        return found

    def tile_steps(self, staged: Staged) -> tuple[int, ...]:
        """Return the strides between adjacent tiles in an operand's box, one per parallel loop.

        A stride is the distance, in elements of shared memory, between the first elements read by
        two tiles that are adjacent along the loop. ``staged`` is the operand's box.
        """
        loops = zip(self.contraction.parallel, self.scales, strict=True)
        return tuple(staged.factor(loop) * scale for loop, scale in loops)

    def group_step(self, staged: Staged) -> int:
        """Return the stride between adjacent groups of threads (or warps) in an operand's box.

        The stride is the distance, in elements of shared memory, between the first elements that
        two adjacent groups read. ``staged`` is the operand's box.
        """
        return staged.factor(self.contraction.reduced[0]) * self.span

    def alignment(self, staged: Staged) -> int:
        """Return a divisor of all base indices, in elements, at which a thread reads ``staged``.

        A base index is the index in shared memory of the element that the thread's first result
        needs in the first of the thread's unrolled iterations.
        """
        tiles = zip(self.tile_steps(staged), self.tiles, strict=True)
        terms = [
            *(step for step, count in tiles if count > 1),
            self.group_step(staged) if self.groups > 1 else 0,
            *(step * staged.factor(loop) for loop, trips, step in self.nest if trips > 1),
        ]
        return gcd(staged.elements, *terms)

    @property
    def span(self) -> int:
        """The number of iterations of the first reduction loop that each group computes per chunk.

        A group consists of threads or, with matrix instructions, of warps; ``groups`` is the number
        of groups.
        """
        return self.chunk // self.groups


@dataclass(frozen=True)
class Tiling:
    """The division of a contraction's results into blocks and tiles.

    Attributes:
        block: number of results along each parallel loop that a block computes at a time.
        tile: number of results along each parallel loop that a thread computes; with matrix
            instructions, that a warp computes.
        matrix: the loops that matrix instructions compute; None without matrix instructions.
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
    """Return the plan for a tiling, with the layout of the staged operands in shared memory.

    ``groups``, ``chunk`` and ``unrolled`` become the attributes of the same names of
    ``ContractionPlan``.
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
    """Return, for each dimension of the operand, the size of the index range that is read.

    The size is the greatest index less the least index, plus 1. ``sizes`` has the number of
    iterations of each loop.
    """
    return tuple(
        1 + sum(factor * (size - 1) for factor, size in zip(row, sizes, strict=True))
        for row in access.rows
    )


def _adjacent(contraction: Contraction, tiling: Tiling) -> tuple[bool, ...]:
    """Return, for each parallel loop, whether the results of a tile are adjacent along the loop.

    The results are adjacent if the loop indexes the last dimension of an operand, or with matrix
    instructions.
    """
    return tuple(
        tiling.matrix is not None or any(access.rows[-1][loop] for access in contraction.inputs)
        for loop in contraction.parallel
    )
