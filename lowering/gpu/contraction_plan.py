"""How a block computes a contraction (a matrix product, a convolution): a plan, without any IR.

The block walks over *chunks* of one reduction loop. For each chunk it stages the boxes of the
operands in shared memory; its threads then compute tiles of results in registers from there. Where
there are fewer tiles than threads, *groups* of threads share the chunk, and their partial results
meet in shared memory. All sizes are static; at edges, boxes are filled with zeros and results
beyond the edge are dropped.

The choice follows a model of one multiprocessor: in each cycle it issues the multiply-adds of four
warps or one access of 128 bytes to shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

WARP = 32
MOST_RESULTS = 32
"""Accumulators of a thread: an eighth of its registers, so that nothing is spilled."""

_TILE_SIZES = (1, 2, 4, 8)
_LEAST_REUSE = 4
"""Results that an operand's element is needed for, below which staging it does not pay."""

_LEAST_WORK = 1 << 14
"""Products of a whole contraction below which synchronising costs more than staging saves."""

_LONGEST_CHUNK = 64
_MOST_COPIES = 16
"""Copies of one thread for one chunk: their addresses stay in registers."""

_MOST_GROUPS = 32

_UNROLLED = 4
_LONGEST_WINDOW = 7
"""Steps of the innermost reduction loop that become straight-line code."""

_FETCHED = 64
"""Bytes per cycle that a multiprocessor gets from the device's second-level cache."""

VECTOR = 4
"""Elements of the widest access to shared memory, for elements of 4 bytes."""


@dataclass(frozen=True)
class Access:
    """How an operand is indexed.

    Attributes:
        number: the operand's number.
        rows: for each of its dimensions, the factor of each loop, none of them negative.
        constants: for each of its dimensions, what is added.
        element_bytes: size of an element.
    """

    number: int
    rows: tuple[tuple[int, ...], ...]
    constants: tuple[int, ...]
    element_bytes: int

    def uses(self, loop: int) -> bool:
        """Return whether a loop changes the element."""
        return any(row[loop] for row in self.rows)


@dataclass(frozen=True)
class Contraction:
    """A ``linalg.generic`` that may be planned for.

    Attributes:
        extents: the most iterations of each loop.
        parallel: numbers of the parallel loops.
        reduced: numbers of the reduction loops, at least one, of static bounds.
        inputs: its operands in memory.
    """

    extents: tuple[int, ...]
    parallel: tuple[int, ...]
    reduced: tuple[int, ...]
    inputs: tuple[Access, ...]

    @property
    def innermost(self) -> int:
        """Return the last reduction loop that is more than one iteration, else the first one."""
        longer = [loop for loop in self.reduced[1:] if self.extents[loop] > 1]
        return longer[-1] if longer else self.reduced[0]


@dataclass(frozen=True)
class Staged:
    """An operand's box for one chunk, in shared memory.

    Attributes:
        access: how the operand is indexed.
        box: elements along each dimension.
        strides: elements between neighbours along each dimension.
        elements: of one stage, a multiple of ``VECTOR``.
        offset: bytes from the beginning of the staging memory to the first stage.
        reach: the most indices that boxes cover, along each dimension of the operand.
    """

    access: Access
    box: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int
    offset: int
    reach: tuple[int, ...]

    def factor(self, loop: int) -> int:
        """Return how many elements one iteration of a loop moves on."""
        rows = zip(self.access.rows, self.strides, strict=True)
        return sum(row[loop] * stride for row, stride in rows)


@dataclass(frozen=True)
class ContractionPlan:
    """How a block computes a contraction.

    Attributes:
        contraction: what is computed.
        block: results along each parallel loop that the block computes at a time.
        tile: results along each parallel loop that a thread computes.
        adjacent: for each parallel loop, whether a thread's results are neighbours, or as far apart
            as there are tiles.
        groups: groups of threads that share a chunk.
        chunk: iterations of the first reduction loop that are staged at a time.
        unrolled: iterations of the innermost reduction loop in straight-line code.
        operands: the staged operands.
        stages: 2 where the next chunk is fetched during the present one, else 1.
        shared_bytes: of staging memory, and of partial results, which follow it in time.
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

    @property
    def tiles(self) -> tuple[int, ...]:
        """Return the number of tiles along each parallel loop."""
        return tuple(b // t for b, t in zip(self.block, self.tile, strict=True))

    @property
    def num_chunks(self) -> int:
        """Return the number of chunks."""
        return self.contraction.extents[self.contraction.reduced[0]] // self.chunk

    @property
    def num_results(self) -> int:
        """Return the results of the block, those beyond edges included."""
        return prod(self.block)

    @property
    def offsets(self) -> list[tuple[int, ...]]:
        """Return where the results of a thread lie from its first one, for each parallel loop."""
        ranges = [
            range(0, t if near else b, 1 if near else b // t)
            for t, b, near in zip(self.tile, self.block, self.adjacent, strict=True)
        ]
        return list(product(*ranges))

    @property
    def scales(self) -> tuple[int, ...]:
        """Return how far apart the first results of neighbouring tiles lie."""
        return tuple(t if near else 1 for t, near in zip(self.tile, self.adjacent, strict=True))

    @property
    def block_strides(self) -> tuple[int, ...]:
        """Return how far apart a block's results lie, row by row."""
        return tuple(prod(self.block[n + 1 :]) for n in range(len(self.block)))

    @property
    def nest(self) -> list[tuple[int, int, int]]:
        """Return the loops over a group's part of a chunk: number, trips, iterations in each."""
        contraction = self.contraction
        sizes = {loop: contraction.extents[loop] for loop in contraction.reduced}
        sizes[contraction.reduced[0]] = self.span
        steps = {loop: 1 for loop in contraction.reduced} | {contraction.innermost: self.unrolled}
        return [(loop, sizes[loop] // steps[loop], steps[loop]) for loop in contraction.reduced]

    def point(self, offset: Sequence[int], step: int) -> list[int]:
        """Return a thread's iteration, from its first one: a result's offset, an unrolled step."""
        found = [0] * len(self.contraction.extents)
        for loop, shift in zip(self.contraction.parallel, offset, strict=True):
            found[loop] = shift
        found[self.contraction.innermost] = step
        return found

    def tile_steps(self, staged: Staged) -> tuple[int, ...]:
        """Return how far apart in an operand's memory neighbouring tiles begin."""
        loops = zip(self.contraction.parallel, self.scales, strict=True)
        return tuple(staged.factor(loop) * scale for loop, scale in loops)

    def group_step(self, staged: Staged) -> int:
        """Return how far apart in an operand's memory the groups' parts begin."""
        return staged.factor(self.contraction.reduced[0]) * self.span

    def alignment(self, staged: Staged) -> int:
        """Return elements that the places which a thread computes are multiples of."""
        tiles = zip(self.tile_steps(staged), self.tiles, strict=True)
        terms = [
            *(step for step, count in tiles if count > 1),
            self.group_step(staged) if self.groups > 1 else 0,
            *(step * staged.factor(loop) for loop, trips, step in self.nest if trips > 1),
        ]
        return gcd(staged.elements, *terms)

    @property
    def span(self) -> int:
        """Return the iterations of the first reduction loop that a group has of a chunk."""
        return self.chunk // self.groups


def plan_contraction(
    contraction: Contraction, threads: int, shared_limit: int
) -> ContractionPlan | None:
    """Return the fastest plan for a block, None where staging does not pay.

    Args:
        contraction: what to compute.
        threads: of the block.
        shared_limit: bytes of shared memory for staging and partial results.
    """
    if not _pays(contraction):
        return None
    best: tuple[float, ContractionPlan] | None = None
    for block, tile in _tilings(contraction, threads):
        found = _with_chunks(contraction, block, tile, threads, shared_limit)
        if found is not None:
            cost = _cycles(found)
            if best is None or cost < best[0]:
                best = cost, found
    return best[1] if best else None


def _pays(contraction: Contraction) -> bool:
    results = prod(contraction.extents[loop] for loop in contraction.parallel)
    reuse = [
        prod(contraction.extents[p] for p in contraction.parallel if not access.uses(p))
        for access in contraction.inputs
    ]
    work = results * prod(contraction.extents[loop] for loop in contraction.reduced)
    first = contraction.reduced[0]
    if not all(access.uses(first) for access in contraction.inputs):
        return False
    return len(reuse) > 1 and min(reuse) >= _LEAST_REUSE and work >= _LEAST_WORK


def _adjacent(contraction: Contraction) -> tuple[bool, ...]:
    """Return the parallel loops that walk along the last dimension of an operand."""
    return tuple(
        any(access.rows and access.rows[-1][loop] for access in contraction.inputs)
        for loop in contraction.parallel
    )


def _tilings(
    contraction: Contraction, threads: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the results of the block and of a thread along each parallel loop."""
    extents = [contraction.extents[loop] for loop in contraction.parallel]
    choices = [[t for t in _TILE_SIZES if t < 2 * extent] for extent in extents]
    for tile in product(*choices):
        if prod(tile) <= MOST_RESULTS:
            yield _block(extents, tile, threads), tile


def _block(extents: Sequence[int], tile: Sequence[int], threads: int) -> tuple[int, ...]:
    """Return the results of the block, nearly square: no more tiles than threads."""
    tiles = [-(-extent // t) for extent, t in zip(extents, tile, strict=True)]
    while prod(tiles) > threads:
        widest = max(range(len(tiles)), key=lambda n: (tiles[n] > 1, tiles[n] * tile[n]))
        parts = -(-extents[widest] // (tiles[widest] * tile[widest]))
        whole = -(-extents[widest] // tile[widest])
        tiles[widest] = min(-(-whole // (parts + 1)), tiles[widest] - 1)
    return tuple(count * t for count, t in zip(tiles, tile, strict=True))


def _with_chunks(
    contraction: Contraction,
    block: tuple[int, ...],
    tile: tuple[int, ...],
    threads: int,
    shared_limit: int,
) -> ContractionPlan | None:
    """Return the plan with the most groups and the longest chunk that shared memory holds."""
    extent = contraction.extents[contraction.reduced[0]]
    tiles = prod(b // t for b, t in zip(block, tile, strict=True))
    if tiles > threads:
        return None
    chunks = [c for c in range(min(extent, _LONGEST_CHUNK), 0, -1) if extent % c == 0]
    groups = 1
    while 2 * groups * tiles <= threads and groups < _MOST_GROUPS:
        groups *= 2
    while groups:
        for chunk in chunks:
            if chunk % groups == 0:
                found = _layout(contraction, block, tile, groups, chunk)
                if found.shared_bytes <= shared_limit and _copies(found) <= _MOST_COPIES * threads:
                    return found
        groups //= 2
    return None


def _copies(found: ContractionPlan) -> int:
    return sum(prod(operand.box) for operand in found.operands)


def _layout(
    contraction: Contraction,
    block: tuple[int, ...],
    tile: tuple[int, ...],
    groups: int,
    chunk: int,
) -> ContractionPlan:
    stages = 1 if chunk == contraction.extents[contraction.reduced[0]] else 2
    sizes = list(contraction.extents)
    for loop, size in zip(contraction.parallel, block, strict=True):
        sizes[loop] = size
    sizes[contraction.reduced[0]] = chunk
    covered = list(contraction.extents)
    for loop, size in zip(contraction.parallel, block, strict=True):
        covered[loop] = _round_up(covered[loop], size)
    operands: list[Staged] = []
    offset = 0
    for access in contraction.inputs:
        box = _extent_of(access, sizes)
        strides, elements = _padded(box)
        reach = _extent_of(access, covered)
        reach = tuple(a + b for a, b in zip(reach, access.constants, strict=True))
        operands.append(Staged(access, box, strides, elements, offset, reach))
        offset += stages * elements * access.element_bytes
        offset = _round_up(offset, 16)
    partial = groups * prod(block) * 4 if groups > 1 else 0
    return ContractionPlan(
        contraction, block, tile, _adjacent(contraction), groups, chunk,
        _unrolled(contraction, chunk // groups), tuple(operands), stages, max(offset, partial),
    )  # fmt: skip


def _extent_of(access: Access, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the indices that loops of some sizes cover along each dimension."""
    return tuple(
        1 + sum(factor * (size - 1) for factor, size in zip(row, sizes, strict=True))
        for row in access.rows
    )


def _padded(box: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return strides that keep rows aligned, but not all of them in the same banks."""
    strides = [1]
    for position, size in enumerate(reversed(box[1:])):
        stride = strides[0] * size
        if position == 0:
            stride = _round_up(size, VECTOR)
            stride += VECTOR if stride % WARP == 0 else 0
        strides.insert(0, stride)
    return tuple(strides), _round_up(strides[0] * box[0], VECTOR)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _unrolled(contraction: Contraction, span: int) -> int:
    """Return how many iterations of the innermost loop become straight-line code."""
    innermost = contraction.innermost
    if innermost != contraction.reduced[0]:
        window = contraction.extents[innermost]
        return window if window <= _LONGEST_WINDOW else 1
    return next(n for n in (_UNROLLED, 2, 1) if span % n == 0)


def _cycles(found: ContractionPlan) -> float:
    """Estimate the cycles that a multiprocessor takes."""
    contraction = found.contraction
    steps = prod(contraction.extents[loop] for loop in contraction.reduced)
    rounds = prod(
        -(-contraction.extents[loop] // b)
        for loop, b in zip(contraction.parallel, found.block, strict=True)
    )
    results = prod(found.tile)
    loads, waves = 0.0, 0.0
    for operand in found.operands:
        elements, wide = _elements_of_a_tile(found, operand.access)
        varies = operand.access.uses(contraction.parallel[-1])
        loads += elements / wide
        waves += elements / wide * (wide if varies else 1)
    warps = prod(found.tiles) * found.groups / WARP
    busy = warps * max(results / 4, waves) / found.groups
    # A warp alone: an instruction in each cycle at most, a product in each four at least.
    alone = max(results + loads, 4) / found.groups
    partial = found.groups * found.num_results / WARP if found.groups > 1 else 0
    fetched = sum(prod(o.box) * o.access.element_bytes for o in found.operands) * found.num_chunks
    return rounds * (steps * max(busy, alone) + fetched / _FETCHED + 2 * partial)


def _elements_of_a_tile(found: ContractionPlan, access: Access) -> tuple[float, int]:
    """Return the elements that a thread loads for one step, and how many at a time."""
    contraction = found.contraction
    elements = prod(
        t for loop, t in zip(contraction.parallel, found.tile, strict=True) if access.uses(loop)
    )
    last = access.rows[-1]
    along = [t for loop, t in zip(contraction.parallel, found.tile, strict=True) if last[loop] == 1]
    if not along and last[contraction.innermost] == 1:
        along = [found.unrolled]
    return elements, max((w for w in (1, 2, 4) if along and along[0] % w == 0), default=1)
