"""Tests that the overlaps that are found between strided boxes are right.

They are compared with explicit sets of elements.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rammer_mlir.scheduling.graph import Boxes
from rammer_mlir.scheduling.overlap import TaskPairs, overlap, radix_basis
from tests.scheduling.interleavings import elements


def boxes(offsets: list[int], sizes: list[tuple[int, ...]], strides: tuple[int, ...]) -> Boxes:
    return Boxes(np.array(offsets, dtype=np.int64), np.array(sizes, dtype=np.int64), strides)


def exact(reads: Boxes, writes: Boxes, read_origin: int, write_origin: int) -> list[set[int]]:
    """Return, for each read box, the write boxes that share an element with it.

    The boxes are in one buffer. The offsets of the read boxes count from ``read_origin``, those of
    the write boxes from ``write_origin``.
    """
    shift = write_origin - read_origin
    written = [{e + shift for e in elements(writes, w)} for w in range(len(writes.offsets))]
    return [
        {w for w, some in enumerate(written) if some & elements(reads, t)}
        for t in range(len(reads.offsets))
    ]


def found(pairs: TaskPairs) -> list[set[int]]:
    return [set(pairs.of(t).tolist()) for t in range(len(pairs.row))]


@st.composite
def any_boxes(draw: st.DrawFn) -> Boxes:
    rank = draw(st.integers(0, 3))
    count = draw(st.integers(1, 5))
    strides = tuple(draw(st.lists(st.integers(0, 12), min_size=rank, max_size=rank)))
    sizes = [tuple(draw(st.integers(0, 4)) for _ in range(rank)) for _ in range(count)]
    offsets = [draw(st.integers(0, 40)) for _ in range(count)]
    table = np.array(sizes, dtype=np.int64).reshape(count, rank)
    return Boxes(np.array(offsets, dtype=np.int64), table, strides)


@given(any_boxes(), any_boxes(), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_no_overlap_is_missed(reads: Boxes, writes: Boxes, at: int, start: int) -> None:
    expected = exact(reads, writes, at, start)
    for more, needed in zip(found(overlap(reads, writes, at, start)), expected, strict=True):
        assert more >= needed


def tiles(random: Random, shape: tuple[int, ...], dims: tuple[tuple[int, ...], ...]) -> Boxes:
    """Return random boxes of a row-major array, some of whose adjacent dimensions are collapsed.

    ``dims`` has the dimensions of each collapsed group. In a collapsed dimension, boxes begin and
    end at multiples of the inner size, so that they are boxes of the original array too.
    """
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    count = random.randint(1, 6)
    offsets, sizes = [0] * count, [[0] * len(dims) for _ in range(count)]
    for box in range(count):
        for place, group in enumerate(dims):
            inner = int(np.prod([shape[d] for d in group[1:]], dtype=np.int64))
            first = random.randrange(shape[group[0]])
            length = random.randint(1, shape[group[0]] - first)
            offsets[box] += first * inner * strides[group[-1]]
            sizes[box][place] = length * inner
    return boxes(offsets, [tuple(s) for s in sizes], tuple(strides[group[-1]] for group in dims))


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_views_and_reshapes_are_exact(random: Random) -> None:
    shape = tuple(random.randint(1, 4) for _ in range(3))
    groupings = [((0,), (1,), (2,)), ((0, 1), (2,)), ((0,), (1, 2)), ((0, 1, 2),)]
    reads = tiles(random, shape, random.choice(groupings))
    writes = tiles(random, shape, random.choice(groupings))
    assert found(overlap(reads, writes)) == exact(reads, writes, 0, 0)


def test_slices_of_one_buffer_are_exact() -> None:
    """A reader of the left half of a buffer does not depend on the writer of the right half."""
    left = boxes([0, 12], [(2, 3), (2, 3)], (6, 1))
    right = boxes([3, 15], [(2, 3), (2, 3)], (6, 1))
    reader = boxes([0], [(4, 3)], (6, 1))
    assert found(overlap(reader, left)) == [{0, 1}]
    assert found(overlap(reader, right)) == [set()]


def test_equal_boxes_share_a_row() -> None:
    reads = boxes([0, 0, 8, 0], [(8,)] * 4, (1,))
    pairs = overlap(reads, boxes([0, 4, 8, 12], [(4,)] * 4, (1,)))
    assert pairs.num_rows == 2
    assert found(pairs) == [{0, 1}, {0, 1}, {2, 3}, {0, 1}]


def test_no_boxes_at_all() -> None:
    none = Boxes(np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64), (1,))
    some = boxes([0], [(4,)], (1,))
    assert found(overlap(some, none)) == [set()]
    assert found(overlap(none, some)) == []


@pytest.mark.parametrize(
    ("strides", "basis"),
    [((12, 4, 1), (12, 4, 1)), ((12, 8, 4), (12, 4, 1)), ((100, 99, 9), (99, 9, 1)), ((0,), (1,))],
)
def test_basis_is_the_longest_chain_of_divisors(
    strides: tuple[int, ...], basis: tuple[int, ...]
) -> None:
    assert radix_basis(boxes([0], [(2,) * len(strides)], strides)) == basis
