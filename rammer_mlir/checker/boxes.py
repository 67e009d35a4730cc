"""Strided boxes of bytes, exactly: disjoint pieces of them, and which pieces share bytes.

Positions are written in a mixed radix, whose digits are worth the strides of both sides. A piece
is an interval for each digit, so that two pieces share bytes if all their intervals meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rammer_mlir.checker.archive import Int64Array, ranges

_FEW = 1 << 10
"""Pairs up to which comparing all is faster than sorting."""

Chain = tuple[int, ...]
"""What the digits are worth: 1, then multiples of each other."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Bytes ``offset + sum(k[d] * strides[d])``, ``0 <= k[d] < sizes[d]``, each one once.

    Attributes:
        task: [pieces], number of the rTask.
        offset: [pieces], from the rKernel's pointer.
        sizes: [pieces, dimensions].
        strides: ascending; the first is 1.
    """

    task: Int64Array
    offset: Int64Array
    sizes: Int64Array
    strides: tuple[int, ...]

    @cached_property
    def ends(self) -> Int64Array:
        """Return for each piece the position after its last byte."""
        return self.offset + ((self.sizes - 1) * np.array(self.strides)).sum(axis=1) + 1

    @cached_property
    def volume(self) -> Int64Array:
        """Return the bytes of each piece."""
        return self.sizes.prod(axis=1)

    @cached_property
    def largest(self) -> list[int]:
        """Return the largest size in each dimension."""
        return self.sizes.max(axis=0, initial=1).tolist()


def pieces_of(
    offsets: Int64Array, sizes: Int64Array, strides: list[int], element_bytes: int
) -> Pieces:
    """Turn the boxes of an access into pieces; an rTask without bytes has none."""
    task = np.flatnonzero((sizes > 0).all(axis=1))
    offset, sizes = offsets[task].copy(), sizes[task]
    dims: list[tuple[int, Int64Array]] = []
    for stride, size in zip(strides, sizes.T, strict=True):
        offset += np.minimum(stride, 0) * (size - 1)
        dims.append((abs(stride), size))
    dims = sorted((dim for dim in dims if dim[0] and (dim[1] > 1).any()), key=lambda dim: dim[0])
    found = Pieces(task, offset, np.full((len(task), 1), element_bytes, np.int64), (1,))
    while dims:
        stride, size = dims.pop(0)
        owner = np.arange(len(found.task))
        found, owner = _with_dimension(found, stride, size)
        dims = [(other, column[owner]) for other, column in dims]
    return found


def _with_dimension(found: Pieces, stride: int, size: Int64Array) -> tuple[Pieces, Int64Array]:
    """Repeat pieces; also return which piece each of the new ones was."""
    width, inner = found.strides[-1], found.sizes[:, -1]
    span = found.ends - found.offset
    dense = (size > 1) & (stride % width == 0) & (inner >= stride // width)
    dense &= span - (inner - 1) * width <= width
    if ((span <= stride) | (size == 1) | dense).all():
        sizes, strides, outer = found.sizes.copy(), found.strides, np.where(dense, 1, size)
        sizes[:, -1] = np.where(dense, inner + stride // width * (size - 1), inner)
        if (outer > 1).any():
            sizes, strides = np.concatenate((sizes, outer[:, None]), axis=1), (*strides, stride)
        return Pieces(found.task, found.offset, sizes, strides), np.arange(len(size))
    owner, number = _listed(size)
    offset = found.offset[owner] + number * stride
    return Pieces(found.task[owner], offset, found.sizes[owner], found.strides), owner


def _listed(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    return ranges(np.zeros(len(counts), np.int64), counts)


def chain_of(a: Pieces, b: Pieces) -> Chain:
    """Choose what digits are worth: strides that divide each other, where dimensions are large."""
    weights: dict[int, int] = {}
    for pieces in (a, b):
        for stride, size in zip(pieces.strides, pieces.largest, strict=True):
            weights[stride] = max(weights.get(stride, 0), size)
    chain = [1]
    for stride in sorted(weights):
        while stride % chain[-1] and weights[chain[-1]] < weights[stride]:
            chain.pop()
        if stride > chain[-1] and stride % chain[-1] == 0:
            chain.append(stride)
    return tuple(chain)


@dataclass(frozen=True, eq=False)
class Digits:
    """Parts of pieces: for each digit of the chain, the interval ``low .. high - 1``."""

    piece: Int64Array
    low: Int64Array
    high: Int64Array

    def raised(self, rows: int) -> Digits:
        """Add to the last digit, which has no end."""
        more = np.zeros(self.low.shape[1], np.int64)
        more[-1] = rows
        return Digits(self.piece, self.low + more, self.high + more)


def digits_of(pieces: Pieces, shift: int, chain: Chain) -> Digits:
    """Write pieces, ``shift`` bytes further, as digits."""
    piece, rest = np.arange(len(pieces.task)), pieces.offset + shift
    count = np.ones((len(piece), len(chain)), np.int64)
    for stride, size in zip(pieces.strides, pieces.sizes.T, strict=True):
        if stride in chain:
            count[:, chain.index(stride)] = size[piece]
        else:
            owner, number = _listed(size[piece])
            piece, rest, count = piece[owner], rest[owner] + number * stride, count[owner]
    low = np.empty_like(count)
    for digit in range(len(chain) - 1, -1, -1):
        low[:, digit], rest = np.divmod(rest, chain[digit])
    for digit in range(len(chain) - 1):
        piece, low, count = _carried(piece, low, count, digit, chain[digit + 1] // chain[digit])
    return Digits(piece, low, low + count)


def _carried(
    piece: Int64Array, low: Int64Array, count: Int64Array, digit: int, radix: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Split intervals of a digit that reach its radix, and carry to the next digit."""
    carry, low[:, digit] = np.divmod(low[:, digit], radix)
    low[:, digit + 1] += carry
    row = (count[:, digit] == radix) & (count[:, digit + 1] > 1)
    count[row, digit] *= count[row, digit + 1]
    count[row, digit + 1] = 1
    start, end = low[:, digit], low[:, digit] + count[:, digit]
    wraps = end > radix
    if not wraps.any():
        return piece, low, count
    begun = (start > 0).astype(np.int64)
    whole, tail = end // radix - begun, end % radix
    parts = (
        (~wraps, start, count[:, digit], 0 * start, count[:, digit + 1]),
        (wraps & (start > 0), start, radix - start, 0 * start, count[:, digit + 1]),
        (wraps & (whole > 0), 0 * start, 0 * start + radix, begun, whole),
        (wraps & (tail > 0), 0 * start, tail, end // radix, count[:, digit + 1]),
    )
    found: list[tuple[Int64Array, Int64Array, Int64Array]] = []
    for kept, begin, size, carry, outer in parts:
        lows, counts = low[kept], count[kept]
        lows[:, digit], counts[:, digit] = begin[kept], size[kept]
        lows[:, digit + 1] += carry[kept]
        counts[:, digit + 1] = outer[kept]
        found.append((piece[kept], lows, counts))
    pieces, all_lows, all_counts = zip(*found, strict=True)
    return np.concatenate(pieces), np.concatenate(all_lows), np.concatenate(all_counts)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Parts of two accesses that share bytes.

    Attributes:
        first, second: pieces of each.
        volume: how many bytes they share.
        compared: how many pairs of parts were looked at.
    """

    first: Int64Array
    second: Int64Array
    volume: Int64Array
    compared: int


def overlap(a: Digits, b: Digits) -> Overlap:
    """Find all pairs of parts whose intervals meet in each digit."""
    i, j = _candidates(a, b)
    common = np.minimum(a.high[i], b.high[j]) - np.maximum(a.low[i], b.low[j])
    meet = np.flatnonzero((common > 0).all(axis=1))
    return Overlap(a.piece[i[meet]], b.piece[j[meet]], common[meet].prod(axis=1), len(i))


def _candidates(a: Digits, b: Digits) -> tuple[Int64Array, Int64Array]:
    """Return pairs of parts that may meet: all of few, else those that do in the best digit."""
    if len(a.piece) * len(b.piece) <= _FEW:
        return np.divmod(np.arange(len(a.piece) * len(b.piece)), max(len(b.piece), 1))
    best = min(range(a.low.shape[1]), key=lambda digit: _meetings(a, b, digit))
    order = np.argsort(a.low[:, best], kind="stable")
    reach = np.maximum.accumulate(a.high[order, best])
    first = np.searchsorted(reach, b.low[:, best], side="right")
    last = np.searchsorted(a.low[order, best], b.high[:, best], side="left")
    counts = np.maximum(last - first, 0)
    j, place = ranges(first, counts)
    return order[place], j


def _meetings(a: Digits, b: Digits, digit: int) -> int:
    """Count the pairs that meet in one digit."""
    begun = np.searchsorted(np.sort(a.low[:, digit]), b.high[:, digit], side="left")
    ended = np.searchsorted(np.sort(a.high[:, digit]), b.low[:, digit], side="right")
    return int((begun - ended).sum())


def runs_of(pieces: Pieces) -> tuple[Int64Array, Int64Array]:
    """Return runs of consecutive bytes: where they begin, and their lengths."""
    begin, sizes = pieces.offset, pieces.sizes
    for dim in range(1, len(pieces.strides)):
        owner, number = _listed(sizes[:, dim])
        begin, sizes = begin[owner] + number * pieces.strides[dim], sizes[owner]
    return begin, sizes[:, 0]
