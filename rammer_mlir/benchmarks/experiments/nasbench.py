"""Draw random modules (small operator graphs) of NAS-Bench-101, as in RAMMER, section 5.2.5.

A module has at most 7 vertices and 9 edges.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)

VERTICES, EDGES = 7, 9
ROWS, COLUMNS, CHANNELS = 28, 28, 128
ROW_BYTES = COLUMNS * CHANNELS * 4


@dataclass(frozen=True)
class _Kind:
    """An operation that a vertex can have, and its work.

    Attributes:
        name: name of the operation.
        tile: number of rows that an rTask writes.
        halo: number of additional rows that an rTask reads on each side of the rows that it writes.
        row_flops: scalar operations for a row of the output.
        weight_bytes: bytes of the weights.
    """

    name: str
    tile: int
    halo: int
    row_flops: int
    weight_bytes: int


_PRODUCTS = 2 * COLUMNS * CHANNELS * CHANNELS
KINDS = (
    _Kind("conv3x3", 4, 1, 9 * _PRODUCTS, 9 * CHANNELS * CHANNELS * 4),
    _Kind("conv1x1", 7, 0, _PRODUCTS, CHANNELS * CHANNELS * 4),
    _Kind("maxpool3x3", 14, 1, 9 * COLUMNS * CHANNELS, 0),
)
"""The operations of NAS-Bench-101 on a 28x28 map of 128 channels; a tile is some of its rows."""

_SUM = _Kind("output", 14, 0, COLUMNS * CHANNELS, 0)


def random_module(seed: int) -> TaskGraph:
    """Return the task graph of a random module of NAS-Bench-101, determined by ``seed``.

    Every vertex except the input is an rOperator, on a path from the input to the output. An
    rOperator with several inputs reads and adds them. Feature maps are divided into rTasks by rows
    only, so a buffer has an element for each row of a feature map.
    """
    rng = random.Random(seed)
    while True:
        sources = random_sources(rng)
        if sources:
            break
    kinds = [*(rng.choice(KINDS) for _ in sources[1:-1]), _SUM]
    last = len(sources) - 1
    buffers = tuple(
        Buffer(
            f"v{n}",
            ROWS,
            ROW_BYTES,
            "input" if not n else "output" if n == last else "intermediate",
        )
        for n in range(len(sources))
    )
    operators = tuple(
        ROperator(
            f"{kind.name}_{vertex}",
            (_kernel(kind, len(sources[vertex])),),
            tuple(View(buffer) for buffer in (*sources[vertex], vertex)),
        )
        for vertex, kind in enumerate(kinds, start=1)
    )
    return TaskGraph(buffers, operators)


def random_sources(rng: random.Random) -> list[list[int]]:
    """Draw a random module's edges; return for each vertex the vertices that it reads.

    As in NAS-Bench-101, each edge exists with probability 1/2. Vertices that are on no path from
    the input to the output are dropped, and the remaining vertices are renumbered in the same
    order. The list is empty if fewer than 3 vertices or more than ``EDGES`` edges remain.
    """
    pairs = [(a, b) for b in range(VERTICES) for a in range(b) if rng.random() < 0.5]
    forward, backward = {0}, {VERTICES - 1}
    for a, b in pairs:
        if a in forward:
            forward.add(b)
    for a, b in reversed(pairs):  # By descending target: its readers are known.
        if b in backward:
            backward.add(a)
    kept = sorted(forward & backward)
    within = {(a, b) for a, b in pairs if a in kept and b in kept}
    if len(kept) < 3 or len(within) > EDGES:
        return []
    number = {vertex: index for index, vertex in enumerate(kept)}
    found: list[list[int]] = [[] for _ in kept]
    for a, b in sorted(within):
        found[number[b]].append(number[a])
    return found


def _kernel(kind: _Kind, num_sources: int) -> RKernel:
    starts = np.arange(0, ROWS, kind.tile)
    low = np.maximum(starts - kind.halo, 0)
    high = np.minimum(starts + kind.tile + kind.halo, ROWS)
    reads = tuple(
        Access(argument, Boxes(low, (high - low)[:, None], (1,))) for argument in range(num_sources)
    )
    written = Boxes(starts, np.full((len(starts), 1), kind.tile), (1,))
    rows = num_sources * (kind.tile + 2 * kind.halo) + kind.tile
    additions = (num_sources - 1) * kind.tile * COLUMNS * CHANNELS
    return RKernel(
        f"{kind.name} {num_sources}",
        len(starts),
        reads,
        (Access(num_sources, written),),
        kind.tile * kind.row_flops + additions,
        rows * ROW_BYTES + kind.weight_bytes,
    )
