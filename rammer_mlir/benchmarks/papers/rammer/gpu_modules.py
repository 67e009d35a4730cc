"""Build task graphs of random modules of NAS-Bench-101, with tiles for a GPU.

A module is a small operator graph. It belongs to one of three stacks. The feature maps in the
second and third stack have a quarter and a sixteenth of the first stack's pixels, and two and four
times its channels. Therefore, operators there have fewer, longer rTasks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product

import numpy as np

from rammer_mlir.benchmarks.experiments.nasbench import random_sources
from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)

STACKS = ((32, 128), (16, 256), (8, 512))
"""(rows and columns, channels) of each stack."""

CHUNK = 32
"""Number of channels in a chunk; an element of a buffer is a row of pixels of a chunk."""

TILE_ELEMENTS = (2048, 8192)
"""Number of elements that an rTask computes, for each candidate rKernel.

The first candidate is the fastest rKernel; the second has fewer and longer rTasks.
"""


@dataclass(frozen=True)
class _Kind:
    """A kind of operation of a module.

    Attributes:
        name: name of the operation.
        window: height and width of the operation's window.
        contracts: whether the operation sums over all input channels.
    """

    name: str
    window: int
    contracts: bool


KINDS = (_Kind("conv3x3", 3, True), _Kind("conv1x1", 1, True), _Kind("maxpool3x3", 3, False))
_SUM = _Kind("output", 1, False)


def gpu_module(seed: int) -> TaskGraph:
    """Return the task graph of a random module of one of NAS-Bench-101's three stacks of modules.

    ``seed`` determines the module and the stack. An rOperator with several inputs reads and adds
    them.
    """
    rng = random.Random(seed)
    rows, channels = STACKS[seed % len(STACKS)]
    while not (sources := random_sources(rng)):
        pass
    kinds = [*(rng.choice(KINDS) for _ in sources[1:-1]), _SUM]
    last = len(sources) - 1
    chunks = channels // CHUNK
    buffers = tuple(
        Buffer(
            f"v{n}",
            rows * chunks,
            rows * CHUNK * 4,
            "input" if not n else "output" if n == last else "intermediate",
        )
        for n in range(len(sources))
    )
    operators = tuple(
        ROperator(
            f"{kind.name}_{vertex}",
            tuple(
                _kernel(kind, rows, chunks, len(sources[vertex]), size) for size in TILE_ELEMENTS
            ),
            tuple(View(buffer) for buffer in (*sources[vertex], vertex)),
        )
        for vertex, kind in enumerate(kinds, start=1)
    )
    return TaskGraph(buffers, operators)


def _kernel(kind: _Kind, rows: int, chunks: int, num_sources: int, size: int) -> RKernel:
    """Return an rKernel whose rTasks each write ``size`` elements of a feature map.

    A tile consists of whole rows of pixels and whole chunks of ``CHUNK`` channels.

    Args:
        kind: the operation.
        rows: height and width of the feature map in pixels.
        chunks: number of chunks of channels in the feature map.
        num_sources: number of inputs, which the operation adds.
        size: number of elements that an rTask writes.
    """
    tile = min(rows, size // (rows * CHUNK))
    wide = max(1, size // (tile * rows * CHUNK))  # chunks of channels, if a tile has all rows
    places = np.array(list(product(range(0, rows, tile), range(0, chunks, wide))))
    first, halo = places[:, 0], kind.window // 2
    low, high = np.maximum(first - halo, 0), np.minimum(first + tile + halo, rows)
    strides = (chunks, 1)
    if kind.contracts:
        starts, width = low * chunks, np.full(len(places), chunks)
    else:
        starts, width = low * chunks + places[:, 1], np.full(len(places), wide)
    read = Boxes(starts, np.stack([high - low, width], axis=1), strides)
    written = Boxes(
        first * chunks + places[:, 1], np.tile(np.array([tile, wide]), (len(places), 1)), strides
    )
    channels = chunks * CHUNK if kind.contracts else 1
    flops = (2 if kind.contracts else 1) * size * kind.window**2 * channels
    read_elements = (tile + 2 * halo) * rows * (chunks if kind.contracts else wide) * CHUNK
    weights = kind.window**2 * channels * wide * CHUNK if kind.contracts else 0
    return RKernel(
        f"{kind.name} {num_sources} {size}",
        len(places),
        tuple(Access(argument, read) for argument in range(num_sources)),
        (Access(num_sources, written),),
        flops_per_rtask=flops + (num_sources - 1) * read_elements,
        bytes_per_rtask=4 * (num_sources * read_elements + size + weights),
    )
