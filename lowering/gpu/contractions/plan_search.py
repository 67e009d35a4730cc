"""Chooses a block's contraction plan by a cost model.

In the model, a multiprocessor issues in each cycle the multiply-adds of four warps, or an access of
128 bytes to shared memory. A matrix instruction takes ``MatrixUnit.cycles`` cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import prod

from rammer_mlir.lowering.gpu.contractions.matrix_unit import MatrixUnit
from rammer_mlir.lowering.gpu.contractions.plan import (
    WARP,
    Access,
    Contraction,
    ContractionPlan,
    MatrixLoops,
    Tiling,
    lay_out,
)
from rammer_mlir.lowering.gpu.register_pressure import (
    MOST_ACCUMULATORS,
    MOST_FETCHED,
    MOST_MATRICES,
)

_TILE_SIZES = (1, 2, 4, 8)
_LEAST_REUSE = 4
"""Smallest number of uses of an operand's element for which staging pays."""

_LEAST_WORK = 1 << 14
"""Smallest number of products of a contraction for which staging outweighs synchronization."""

_LONGEST_CHUNK = 64
_MOST_GROUPS = 32

_UNROLLED = 4
_LONGEST_WINDOW = 7
"""Largest number of unrolled steps of an innermost reduction loop that is a window."""

_FETCHED = 64
"""Bytes per cycle that a multiprocessor reads from the device's second-level cache."""

_ACCESSED = 128
"""Bytes that a multiprocessor reads from shared memory per cycle."""

_LATENCY = 30
"""Cycles from a load from shared memory to its use."""


def plan_contraction(
    contraction: Contraction,
    threads: int,
    shared_limit: int,
    *,
    unit: MatrixUnit | None = None,
) -> ContractionPlan | None:
    """Return a block's plan with the least predicted time; None if no plan is worthwhile or fits.

    Plans with the matrix instruction, if any fits, take precedence over all others. No plan is
    worthwhile if operand elements are reused too little, if the contraction is small, or if an
    input does not depend on the first reduction loop. A plan must fit in shared memory.

    Args:
        contraction: the contraction.
        threads: number of threads of the block.
        shared_limit: bytes of shared memory for staging and partial results.
        unit: the target's matrix instruction, restricted to permitted element types; None for none.
    """
    if not _pays(contraction):
        return None
    if unit is not None and contraction.matrix_element in unit.steps:
        warps = threads // unit.lanes
        tilings = _matrix_tilings(contraction, warps, unit)
        found = _fastest(contraction, tilings, warps, shared_limit)
        if found is not None:
            return found
    return _fastest(contraction, _tilings(contraction, threads), threads, shared_limit)


def _fastest(
    contraction: Contraction, tilings: Iterator[Tiling], workers: int, shared_limit: int
) -> ContractionPlan | None:
    best: tuple[float, ContractionPlan] | None = None
    for tiling in tilings:
        found = _with_chunks(contraction, tiling, workers, shared_limit)
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


def _tilings(contraction: Contraction, threads: int) -> Iterator[Tiling]:
    """Yield candidate tilings in which every thread computes a tile without matrix instructions.

    ``threads`` is the number of threads of a block.
    """
    extents = [contraction.extents[loop] for loop in contraction.parallel]
    choices = [[t for t in _TILE_SIZES if t < 2 * extent] for extent in extents]
    for tile in product(*choices):
        if prod(tile) <= MOST_ACCUMULATORS:
            yield Tiling(_block(extents, tile, threads), tile)


def _matrix_tilings(contraction: Contraction, warps: int, unit: MatrixUnit) -> Iterator[Tiling]:
    """Yield candidate tilings in which every warp computes a tile by matrix instructions.

    ``warps`` is the number of warps of the block.
    """
    extents = [contraction.extents[loop] for loop in contraction.parallel]
    if len(contraction.inputs) != 2:
        return
    for rows, columns in permutations(contraction.parallel, 2):
        matrix = _matrix_loops(contraction, unit, rows, columns)
        if matrix is None:
            continue
        for m, n in product((1, 2, 4), (1, 2, 4, 8)):
            sizes = {rows: m * unit.rows, columns: n * unit.columns}
            tile = tuple(sizes.get(loop, 1) for loop in contraction.parallel)
            if m * n <= MOST_MATRICES:
                yield Tiling(_block(extents, tile, warps), tile, matrix)


def _matrix_loops(
    contraction: Contraction, unit: MatrixUnit, rows: int, columns: int
) -> MatrixLoops | None:
    for left, right in ((0, 1), (1, 0)):
        a, b = contraction.inputs[left], contraction.inputs[right]
        if a.uses(rows) and b.uses(columns) and not (a.uses(columns) or b.uses(rows)):
            return MatrixLoops(unit, rows, columns, left, right)
    return None


def _block(extents: Sequence[int], tile: Sequence[int], threads: int) -> tuple[int, ...]:
    """Return the number of results that the block computes along each parallel loop.

    These numbers are as equal as possible. They are multiples of the sizes ``tile`` of a tile, and
    give at most ``threads`` tiles. ``extents`` has the number of iterations of each parallel loop.
    """
    tiles = [-(-extent // t) for extent, t in zip(extents, tile, strict=True)]
    while prod(tiles) > threads:
        widest = max(range(len(tiles)), key=lambda n: (tiles[n] > 1, tiles[n] * tile[n]))
        parts = -(-extents[widest] // (tiles[widest] * tile[widest]))
        whole = -(-extents[widest] // tile[widest])
        tiles[widest] = min(-(-whole // (parts + 1)), tiles[widest] - 1)
    return tuple(count * t for count, t in zip(tiles, tile, strict=True))


def _with_chunks(
    contraction: Contraction, tiling: Tiling, workers: int, shared_limit: int
) -> ContractionPlan | None:
    """Return the plan that fits with the most groups and, among those, the longest chunk.

    Groups of threads (or warps) divide the iterations of a chunk. A plan fits if it needs at most
    ``shared_limit`` bytes of shared memory, and each thread copies at most ``MOST_FETCHED`` bytes
    per chunk. Returns None if no plan fits. ``workers`` is the block's number of warps if
    ``tiling`` uses matrix instructions, else the block's number of threads.
    """
    extent = contraction.extents[contraction.reduced[0]]
    if tiling.num_tiles > workers:
        return None
    matrix = tiling.matrix
    unit = matrix.unit.steps[contraction.matrix_element] if matrix else 1
    threads = workers * (matrix.unit.lanes if matrix else 1)
    chunks = [c for c in range(min(extent, _LONGEST_CHUNK), 0, -1) if extent % c == 0]
    groups = 1
    while 2 * groups * tiling.num_tiles <= workers and groups < _MOST_GROUPS:
        groups *= 2
    while groups:
        for chunk in (c for c in chunks if c % (groups * unit) == 0):
            unrolled = 1 if matrix else _unrolled(contraction, chunk // groups)
            found = lay_out(contraction, tiling, groups, chunk, unrolled)
            if found.shared_bytes <= shared_limit and _copied(found, threads) <= MOST_FETCHED:
                return found
        groups //= 2
    return None


def _fetched(found: ContractionPlan) -> int:
    """Return the bytes of all operands that a block copies to shared memory per chunk."""
    return sum(prod(o.box) * o.access.element_bytes for o in found.operands)


def _copied(found: ContractionPlan, threads: int) -> int:
    """Return the greatest number of bytes per chunk that a thread copies to shared memory.

    ``threads`` is the number of threads of the block, which divide the copies among them.
    """
    return sum(-(-prod(o.box) // threads) * o.access.element_bytes for o in found.operands)


def _unrolled(contraction: Contraction, span: int) -> int:
    """Return the unroll factor of the innermost reduction loop.

    Groups of threads divide the iterations of a chunk; ``span`` is the number of iterations of the
    first reduction loop that each group computes per chunk.
    """
    innermost = contraction.innermost
    if innermost != contraction.reduced[0]:
        window = contraction.extents[innermost]
        return window if window <= _LONGEST_WINDOW else 1
    return next(n for n in (_UNROLLED, 2, 1) if span % n == 0)


def _cycles(found: ContractionPlan) -> float:
    """Return the estimated cycles of a multiprocessor to compute an rTask by the plan ``found``."""
    if found.matrix:
        return _matrix_cycles(found, found.matrix.unit)
    contraction = found.contraction
    steps = prod(contraction.extents[loop] for loop in contraction.reduced)
    results = prod(found.tile)
    loads, waves = 0.0, 0.0
    for operand in found.operands:
        elements, wide = _elements_of_a_tile(found, operand.access)
        varies = operand.access.uses(contraction.parallel[-1])
        loads += elements / wide
        waves += elements / wide * (wide if varies else 1)
    warps = prod(found.tiles) * found.groups / WARP
    busy = warps * max(results / 4, waves) / found.groups
    # A single warp issues at most an instruction per cycle, and a product every four cycles.
    alone = max(results + loads, 4) / found.groups
    return _rounds(found) * (steps * max(busy, alone) + _overhead(found))


def _matrix_cycles(found: ContractionPlan, unit: MatrixUnit) -> float:
    """Return the estimated cycles of a multiprocessor to compute an rTask by the plan ``found``.

    The plan uses the matrix instruction ``unit``.
    """
    steps = prod(found.contraction.extents[loop] for loop in found.contraction.reduced)
    rows, columns = found.num_matrices
    warps = prod(found.tiles)
    each = unit.steps[found.contraction.matrix_element]
    element_bytes = found.contraction.inputs[0].element_bytes
    loaded = (rows * unit.rows + columns * unit.columns) * each * element_bytes
    busy = warps * max(rows * columns * unit.cycles, loaded / _ACCESSED)
    # A single warp waits for its loads, and uses only a quarter of the matrix units.
    alone = (4 * rows * columns * unit.cycles + _LATENCY) / found.groups
    return _rounds(found) * (steps // each * max(busy, alone) + _overhead(found))


def _rounds(found: ContractionPlan) -> int:
    loops = zip(found.contraction.parallel, found.block, strict=True)
    return prod(-(-found.contraction.extents[loop] // b) for loop, b in loops)


def _overhead(found: ContractionPlan) -> float:
    """Return the estimated cycles for fetching all chunks and combining partial results.

    The estimate is for as many results as the block computes at a time. There are partial results
    only if several groups of threads divide a chunk.
    """
    partial = found.groups * found.num_results / WARP if found.groups > 1 else 0
    return _fetched(found) * found.num_chunks / _FETCHED + 2 * partial


def _elements_of_a_tile(found: ContractionPlan, access: Access) -> tuple[float, int]:
    """Return how many elements of an operand a thread loads per iteration, and the load width.

    The elements are loaded from shared memory in each iteration of the reduction loops. The load
    width is the number of elements per load: 1, 2 or 4.
    """
    contraction = found.contraction
    elements = prod(
        t for loop, t in zip(contraction.parallel, found.tile, strict=True) if access.uses(loop)
    )
    last = access.rows[-1]
    along = [t for loop, t in zip(contraction.parallel, found.tile, strict=True) if last[loop] == 1]
    if not along and last[contraction.innermost] == 1:
        along = [found.unrolled]
    return elements, max((w for w in (1, 2, 4) if along and along[0] % w == 0), default=1)
