"""A region as the table that its C code reads: values and primitives, in 64-bit numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

Dims = tuple[int, ...]

CONVOLUTION, MATMUL, POOLING, ELTWISE, SOFTMAX, BINARY = range(6)
"""Kinds of primitives, as ``build.c`` numbers them."""

MOST_DIMS, _MOST_AXES, MOST_POSTS = 6, 3, 4


def dense(dims: Sequence[int]) -> Dims:
    """Return the strides of a tensor that lies in row-major order."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Value:
    """A tensor: the number of its buffer, or -1 if it lies in the scratch, and its strides."""

    dims: Dims
    strides: Dims
    buffer: int = -1
    is_input: bool = False

    def words(self) -> list[int]:
        """Return a ``struct value``."""
        dims, strides = (_padded(given, MOST_DIMS) for given in (self.dims, self.strides))
        return [len(self.dims), *dims, *strides, self.buffer, int(self.is_input)]


@dataclass(frozen=True)
class Post:
    """What is done with each element of a result: a function of it, or (0) a tensor is added."""

    algorithm: int
    alpha: float = 0.0
    beta: float = 0.0

    def words(self) -> list[int]:
        """Return a ``struct post``."""
        return [self.algorithm, _bits(self.alpha), _bits(self.beta)]


SUM = Post(0)


@dataclass(frozen=True)
class Windows:
    """Steps, dilation from 0 up, padding and sizes of windows along each axis."""

    strides: Dims = ()
    dilations: Dims = ()
    low: Dims = ()
    high: Dims = ()
    kernel: Dims = ()

    def words(self) -> list[int]:
        """Return these fields of a ``struct node``."""
        fields = (self.strides, self.dilations, self.low, self.high, self.kernel)
        return [word for given in fields for word in _padded(given, _MOST_AXES)]


@dataclass(frozen=True)
class Node:
    """A primitive. ``src``, ``weights``, ``bias``, ``sum`` and ``dst`` are numbers of values.

    Attributes:
        kind: one of the kinds above.
        src: what it reads.
        dst: what it computes.
        weights: the second operand, -1 if there is none.
        algorithm: the library's number.
        is_packed: whether the weights are constant, so that they are packed when opening.
        bias: -1 if there is none.
        sum: what a post operation adds, -1 if none does.
        axis: of softmax.
        function: of element-wise primitives.
        windows: of convolutions and pools.
        posts: in their order.
    """

    kind: int
    src: int
    dst: int
    weights: int = -1
    algorithm: int = 0
    is_packed: bool = False
    bias: int = -1
    sum: int = -1
    axis: int = 0
    function: Post = SUM
    windows: Windows = field(default_factory=Windows)
    posts: tuple[Post, ...] = ()

    def words(self) -> list[int]:
        """Return a ``struct node``."""
        _, alpha, beta = self.function.words()
        found = [self.kind, self.algorithm or self.function.algorithm, self.src, self.weights]
        found += [int(self.is_packed), self.bias, self.sum, self.dst, self.axis, alpha, beta]
        found += [*self.windows.words(), len(self.posts)]
        unused = (SUM,) * (MOST_POSTS - len(self.posts))
        return found + [word for post in (*self.posts, *unused) for word in post.words()]


@dataclass(frozen=True)
class Table:
    """The values and primitives of a region; ``scratch_buffer`` is behind all other buffers."""

    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    scratch_buffer: int

    @property
    def is_packed(self) -> bool:
        """Whether the state holds packed weights."""
        return any(node.is_packed for node in self.nodes)

    def words(self, scratch_bytes: int) -> list[int]:
        """Return the table, for a scratch of so many bytes."""
        rows = [word for row in (*self.values, *self.nodes) for word in row.words()]
        header = [len(self.values), len(self.nodes), scratch_bytes, self.scratch_buffer]
        return [1 + len(header) + len(rows), *header, *rows]


def _padded(given: Dims, size: int) -> Dims:
    return (*given, *(0,) * (size - len(given)))


def _bits(number: float) -> int:
    """Return a number's 64 bits, as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])
