"""Computes reuse distances: bytes that a program touches between two uses of the same memory.

Memory is still in a cache if its reuse distance is below the cache's size (the stack distances of
Mattson et al., 1970, on whole buffers). A program runs repeatedly, so the first use of a buffer in
a run follows the last use in the previous run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np

from rammer_mlir.scheduling.graph import Access, Reuse, RKernel, TaskGraph
from rammer_mlir.scheduling.overlap import span

_STEPS_PER_OCTAVE = 4
"""Number of steps between a reuse distance and its double, to which distances are rounded.

A list of a thousand uses thus remains short.
"""


def with_reuse(graph: TaskGraph) -> TaskGraph:
    """Return the graph with the reuse distances of the touched memory in each rKernel's ``reuse``.

    If several operators use the same rKernel, the bytes at each reuse distance are averaged over
    these operators, because an rKernel has a single cost.
    """
    bytes_at: dict[RKernel, Counter[int]] = {}
    users: Counter[RKernel] = Counter()
    every = {kernel for operator in graph.operators for kernel in operator.kernels}
    elements = {kernel: _elements(kernel) for kernel in every}
    touched = [[_footprints(graph, n, elements[kernel]) for kernel in operator.kernels]
               for n, operator in enumerate(graph.operators)]  # fmt: skip
    for number, distances in _distances([candidates[0] for candidates in touched]):
        candidates = graph.operators[number].kernels
        for kernel, footprint in zip(candidates, touched[number], strict=True):
            users[kernel] += 1
            for buffer, amount in footprint.items():
                if buffer in distances:
                    bytes_at.setdefault(kernel, Counter())[_step(distances[buffer])] += amount
    new = {
        kernel: replace(kernel, reuse=_averages(found, users[kernel]))
        for kernel, found in bytes_at.items()
    }
    operators = tuple(
        replace(operator, kernels=tuple(new.get(kernel, kernel) for kernel in operator.kernels))
        for operator in graph.operators
    )
    return replace(graph, operators=operators)


def _step(distance: int) -> int:
    return ceil(_STEPS_PER_OCTAVE * log2(max(distance, 1)))


def _averages(bytes_at: Counter[int], users: int) -> tuple[Reuse, ...]:
    return tuple(
        Reuse(round(2 ** (step / _STEPS_PER_OCTAVE)), amount / users)
        for step, amount in sorted(bytes_at.items())
        if amount
    )


def _footprints(
    graph: TaskGraph, number: int, elements: Sequence[tuple[int, int]]
) -> dict[int, int]:
    """Return the bytes that operator ``number`` touches, by buffer.

    ``elements`` has pairs: the index of an argument, and the count of its touched elements.
    """
    operands = graph.operators[number].operands
    found: dict[int, int] = {}
    for argument, count in elements:
        buffer = operands[argument].buffer
        amount = count * graph.buffers[buffer].element_bytes
        found[buffer] = max(found.get(buffer, 0), amount)
    return found


def _elements(kernel: RKernel) -> list[tuple[int, int]]:
    """Return pairs of the index of an argument and an estimate of its touched elements.

    There is a pair for each argument that the rKernel reads, writes or updates.
    """
    accesses = (*kernel.reads, *kernel.writes, *kernel.updates)
    return [(access.argument, _num_elements(access)) for access in accesses]


def _num_elements(access: Access) -> int:
    """Return an estimate of the count of elements that the boxes of an access contain together.

    The estimate is the smaller of two counts: the sum of the sizes of the boxes, and the length of
    the range of elements that contains all boxes.
    """
    boxes = access.boxes
    if not len(boxes.offsets):
        return 0
    asked = int(np.prod(boxes.sizes, axis=1).sum())
    spanned = int((boxes.offsets + span(boxes)).max() - boxes.offsets.min()) + 1
    return min(asked, spanned)


def _distances(footprints: Sequence[dict[int, int]]) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield each operator's index and the reuse distances of its buffers, in bytes by buffer.

    The distances are those of a run that follows an earlier run. ``footprints`` has for each
    operator the count of bytes that the operator touches, by buffer.
    """
    uses = _Uses(2 * sum(map(len, footprints)) + 1)
    for run in range(2):
        for number, footprint in enumerate(footprints):
            # An operator's accesses are interleaved: its whole footprint counts for each buffer.
            found = {b: uses.since(b) for b in footprint if uses.knows(b)} if run else {}
            own = sum(footprint.values())
            for buffer, amount in footprint.items():
                uses.touch(buffer, amount)
            if run:
                yield number, {buffer: max(d, own) for buffer, d in found.items()}


@dataclass
class _Uses:
    """The last use of each buffer, to compute the bytes touched since that use.

    Uses are numbered by time. A Fenwick tree over these numbers stores the bytes of each buffer at
    its last use, so a suffix sum is a reuse distance. ``length`` is the maximum count of uses.
    """

    length: int

    def __post_init__(self) -> None:
        self._tree = [0] * (self.length + 1)
        self._last: dict[int, tuple[int, int]] = {}
        self._now = 0
        self._total = 0

    def knows(self, buffer: int) -> bool:
        return buffer in self._last

    def since(self, buffer: int) -> int:
        """Return the bytes touched since a buffer's last use, plus the bytes of that last use."""
        place, amount = self._last[buffer]
        return self._total - self._sum(place) + amount

    def touch(self, buffer: int, amount: int) -> None:
        if buffer in self._last:
            place, before = self._last[buffer]
            self._add(place, -before)
        self._now += 1
        self._last[buffer] = self._now, amount
        self._add(self._now, amount)

    def _add(self, place: int, amount: int) -> None:
        self._total += amount
        while place <= self.length:
            self._tree[place] += amount
            place += place & -place

    def _sum(self, place: int) -> int:
        found = 0
        while place:
            found += self._tree[place]
            place -= place & -place
        return found
