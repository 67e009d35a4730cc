"""Synthetic task graphs: tiled operators on row-major buffers and views of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

import numpy as np

from rammer_mlir.scheduling.graph import (
    Access,
    Boxes,
    Buffer,
    BufferKind,
    RKernel,
    ROperator,
    TaskGraph,
    View,
)

Shape = tuple[int, ...]
Range = tuple[int, int]
"""First index in a dimension, and the number of indices."""
Tile = tuple[Range, ...]
Reader = Callable[[Tile], Tile]
"""A function from the tile that an rTask writes to the box that it reads of one input."""


@dataclass(frozen=True)
class Tensor:
    """A strided view of a buffer; shape, strides and offset are in elements."""

    buffer: int
    shape: Shape
    strides: Shape
    offset: int = 0

    def reshape(self, *shape: int) -> Tensor:
        """Return the same elements in another shape; the view must be contiguous."""
        assert self.strides == row_major(self.shape)
        assert prod(shape) == prod(self.shape)
        return replace(self, shape=shape, strides=row_major(shape))

    def part(self, *ranges: Range) -> Tensor:
        """Return the view of a part: each range is a first index and a number of indices."""
        start = sum(first * stride for (first, _), stride in zip(ranges, self.strides, strict=True))
        shape = tuple(count for _, count in ranges)
        return replace(self, shape=shape, offset=self.offset + start)


def row_major(shape: Shape) -> Shape:
    """Return the strides of a contiguous shape."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def tiles(shape: Shape, tile: Shape) -> list[Tile]:
    """Return the tiles of shape ``tile`` that cover a shape; the last ones may be smaller."""
    parts = [
        [(first, min(step, size - first)) for first in range(0, size, step)]
        for size, step in zip(shape, tile, strict=True)
    ]
    return list(product(*parts))


def boxes(tensor: Tensor, parts: Sequence[Tile]) -> Boxes:
    """Return the boxes of ``parts`` of a tensor, with offsets from the tensor's first element."""
    starts = [[first for first, _ in part] for part in parts]
    sizes = [[count for _, count in part] for part in parts]
    rank = len(tensor.shape)
    offsets = np.array(starts, dtype=np.int64).reshape(-1, rank) @ np.array(
        tensor.strides, dtype=np.int64
    )
    return Boxes(offsets, np.array(sizes, dtype=np.int64).reshape(-1, rank), tensor.strides)


@dataclass
class GraphMaker:
    """A builder of task graphs, to which operators are added one by one.

    Operators with equal rKernels share the rKernel objects.
    """

    buffers: list[Buffer] = field(default_factory=list[Buffer])
    operators: list[ROperator] = field(default_factory=list[ROperator])
    kernels: dict[str, RKernel] = field(default_factory=dict[str, RKernel])

    def graph(self) -> TaskGraph:
        """Return the task graph of all operators that were added."""
        return TaskGraph(tuple(self.buffers), tuple(self.operators))

    def tensor(self, *shape: int, kind: BufferKind = "intermediate") -> Tensor:
        """Add a buffer of 4-byte elements, and return a view of the whole buffer."""
        number = len(self.buffers)
        self.buffers.append(Buffer(f"{kind}{number}", prod(shape), 4, kind))
        return Tensor(number, shape, row_major(shape))

    def operator(
        self,
        kind: str,
        inputs: Sequence[tuple[Tensor, Reader]],
        out: Tensor,
        candidates: Sequence[Shape],
    ) -> Tensor:
        """Add an operator whose rTasks each write a tile of ``out``; return ``out``.

        ``kind`` is the first part of its name. An input is a tensor with a function that maps the
        tile that an rTask writes to the part of the tensor that it reads. Each tile shape in
        ``candidates`` gives a candidate rKernel.
        """
        operands = [tensor for tensor, _ in inputs] + [out]
        found = [self._kernel(kind, inputs, out, tile) for tile in candidates]
        name = f"{kind}{len(self.operators)}"
        views = tuple(View(tensor.buffer, tensor.offset) for tensor in operands)
        self.operators.append(ROperator(name, tuple(found), views))
        return out

    def _kernel(
        self, kind: str, inputs: Sequence[tuple[Tensor, Reader]], out: Tensor, tile: Shape
    ) -> RKernel:
        layout = [(tensor.shape, tensor.strides) for tensor, _ in inputs]
        name = f"{kind} {layout} {out.shape} {out.strides} {tile}"
        if name not in self.kernels:
            parts = tiles(out.shape, tile)
            reads = tuple(
                Access(argument, boxes(tensor, [reader(part) for part in parts]))
                for argument, (tensor, reader) in enumerate(inputs)
            )
            writes = (Access(len(inputs), boxes(out, parts)),)
            touched = sum(int(a.boxes.sizes[0].prod()) for a in (*reads, *writes))
            self.kernels[name] = RKernel(
                name, len(parts), reads, writes, prod(tile) * 1000, touched * 4
            )
        return self.kernels[name]

    def elementwise(self, *xs: Tensor, tile: Shape, out: Tensor | None = None) -> Tensor:
        """Add an elementwise operator: an rTask reads from each input the tile that it writes."""
        out = self.tensor(*xs[0].shape) if out is None else out
        return self.operator("map", [(x, lambda part: part) for x in xs], out, [tile])

    def stencil(self, x: Tensor, halo: int, tile: Shape, out: Tensor | None = None) -> Tensor:
        """Add a stencil: an rTask reads its tile and up to ``halo`` elements around it."""
        out = self.tensor(*x.shape) if out is None else out
        return self.operator(f"stencil{halo}_", [(x, _around(x.shape, halo))], out, [tile])

    def window(self, x: Tensor, size: int, tile: Shape) -> Tensor:
        """Add an operator whose result has an element for each window of ``size`` indices of ``x``.

        The windows have this size in each dimension, as those of an unpadded convolution.
        """
        out = self.tensor(*(extent - size + 1 for extent in x.shape))
        return self.operator(
            f"window{size}_", [(x, lambda t: tuple((a, n + size - 1) for a, n in t))], out, [tile]
        )

    def reduce(self, x: Tensor, tile: int) -> Tensor:
        """Add a reduction of all dimensions but the first; an rTask computes ``tile`` results."""
        out = self.tensor(x.shape[0])
        rest = tuple((0, extent) for extent in x.shape[1:])
        return self.operator("reduce", [(x, lambda part: (part[0], *rest))], out, [(tile,)])

    def normalize(self, x: Tensor, tile: Shape) -> Tensor:
        """Add an operator whose rTasks each read the whole operand."""
        everything = tuple((0, extent) for extent in x.shape)
        out = self.tensor(*x.shape)
        return self.operator("norm", [(x, lambda _: everything)], out, [tile])

    def matmul(self, a: Tensor, b: Tensor, candidates: Sequence[Shape]) -> Tensor:
        """Add a product of two matrices, with a candidate rKernel for each tile shape."""
        inner = a.shape[1]
        rows: Reader = lambda part: (part[0], (0, inner))  # noqa: E731
        columns: Reader = lambda part: ((0, inner), part[1])  # noqa: E731
        out = self.tensor(a.shape[0], b.shape[1])
        return self.operator("matmul", [(a, rows), (b, columns)], out, candidates)

    def pad(self, x: Tensor, width: int, tile: Shape) -> Tensor:
        """Add a padding of a matrix by ``width`` on each side; return the larger matrix.

        A single rTask writes the border; an elementwise operator copies the matrix into the
        interior.
        """
        rows, columns = (extent + 2 * width for extent in x.shape)
        out = self.tensor(rows, columns)
        inner = tuple((width, extent) for extent in x.shape)
        frame = (
            ((0, width), (0, columns)),
            ((rows - width, width), (0, columns)),
            (inner[0], (0, width)),
            (inner[0], (columns - width, width)),
        )
        writes = tuple(Access(0, boxes(out, [part])) for part in frame)
        kernel = RKernel(f"frame {rows} {columns} {width}", 1, (), writes, 100)
        name = f"frame{len(self.operators)}"
        self.operators.append(ROperator(name, (kernel,), (View(out.buffer),)))
        self.elementwise(x, tile=tile, out=out.part(*inner))
        return out

    def concat(self, xs: Sequence[Tensor], tile: Shape) -> Tensor:
        """Add a concatenation of matrices along the columns; return the result.

        For each matrix, an elementwise operator copies the matrix into its part of the result.
        """
        out = self.tensor(xs[0].shape[0], sum(x.shape[1] for x in xs))
        start = 0
        for x in xs:
            place = out.part((0, x.shape[0]), (start, x.shape[1]))
            self.elementwise(x, tile=tile, out=place)
            start += x.shape[1]
        return out

    def update(
        self, target: Tensor, *xs: Tensor, tile: Shape, halo: int = 0, shared: bool = False
    ) -> None:
        """Add an operator that updates ``target`` in place, tile by tile.

        An rTask reads its tile of each tensor in ``xs``. It may touch ``halo`` elements around its
        tile of ``target``, or, if ``shared``, all of ``target``.
        """
        parts = tiles(target.shape, tile)
        whole = tuple((0, extent) for extent in target.shape)
        touched = [whole if shared else _around(target.shape, halo)(part) for part in parts]
        layout = [(x.shape, x.strides) for x in (*xs, target)]
        name = f"update {layout} {tile} {halo} {shared}"
        if name not in self.kernels:
            reads = tuple(Access(number, boxes(x, parts)) for number, x in enumerate(xs))
            updates = (Access(len(xs), boxes(target, touched)),)
            self.kernels[name] = RKernel(
                name, len(parts), reads, (), prod(tile) * 1000, updates=updates
            )
        views = tuple(View(x.buffer, x.offset) for x in (*xs, target))
        kernels = (self.kernels[name],)
        self.operators.append(ROperator(f"update{len(self.operators)}", kernels, views))

    def output(self, x: Tensor, tile: Shape) -> Tensor:
        """Add a copy of ``x`` to an output of the model."""
        return self.elementwise(x, tile=tile, out=self.tensor(*x.shape, kind="output"))


def _around(shape: Shape, halo: int) -> Reader:
    def read(part: Tile) -> Tile:
        ends = [min(extent, a + n + halo) for (a, n), extent in zip(part, shape, strict=True)]
        starts = [max(0, a - halo) for a, _ in part]
        return tuple((a, b - a) for a, b in zip(starts, ends, strict=True))

    return read


def chain(length: int = 3, size: int = 12, tile: int = 4) -> TaskGraph:
    """Return a chain of elementwise operators on vectors."""
    maker = GraphMaker()
    x = maker.tensor(size, kind="input")
    for _ in range(length):
        x = maker.elementwise(x, tile=(tile,))
    maker.output(x, (tile,))
    return maker.graph()


def stencils(length: int = 3, size: int = 12, tile: int = 3) -> TaskGraph:
    """Return a chain of stencils on vectors."""
    maker = GraphMaker()
    x = maker.tensor(size, kind="input")
    for _ in range(length):
        x = maker.stencil(x, 1, (tile,))
    maker.output(x, (tile,))
    return maker.graph()


def perceptron() -> TaskGraph:
    """Return a graph of matmul, elementwise operator, matmul and reduction.

    The matmuls have several candidate rKernels.
    """
    maker = GraphMaker()
    x, w0 = maker.tensor(4, 6, kind="input"), maker.tensor(6, 8, kind="constant")
    hidden = maker.matmul(x, w0, [(2, 4), (4, 2), (4, 8)])
    hidden = maker.elementwise(hidden, tile=(2, 8))
    w1 = maker.tensor(8, 4, kind="constant")
    y = maker.matmul(hidden, w1, [(2, 2), (1, 4)])
    maker.output(maker.reduce(y, 2), (4,))
    return maker.graph()


def convolution() -> TaskGraph:
    """Return a graph of padding, window operator, reshape and normalization."""
    maker = GraphMaker()
    x = maker.elementwise(maker.tensor(4, 4, kind="input"), tile=(2, 2))
    y = maker.window(maker.pad(x, 1, (2, 4)), 3, (2, 2))
    maker.output(maker.normalize(y.reshape(2, 8), (1, 8)), (2, 4))
    return maker.graph()


def branches() -> TaskGraph:
    """Return parallel branches that are concatenated in place, and read through two views."""
    maker = GraphMaker()
    x = maker.tensor(4, 4, kind="input")
    left = maker.elementwise(x, tile=(2, 4))
    right = maker.stencil(maker.elementwise(x, tile=(4, 2)), 1, (2, 4))
    both = maker.concat([left, right, left], (2, 4))
    flat = maker.elementwise(both.reshape(48), tile=(20,))
    maker.output(maker.elementwise(flat.reshape(4, 12), both, tile=(3, 12)), (4, 6))
    return maker.graph()


def in_place() -> TaskGraph:
    """Return a graph of updates in place: of a state that is kept between runs, and of a sum."""
    maker = GraphMaker()
    x, state = maker.tensor(8, kind="input"), maker.tensor(8, kind="inout")
    a = maker.stencil(state, 1, (4,))
    maker.update(state, a, x, tile=(2,))
    total = maker.tensor(2)
    maker.update(total, tile=(2,))
    maker.update(total, state.part((0, 2)), tile=(1,), shared=True)
    maker.update(state, x, tile=(4,), halo=1)
    maker.update(total, state.part((6, 2)), tile=(2,))
    maker.output(total, (1,))
    return maker.graph()


SMALL: dict[str, Callable[[], TaskGraph]] = {
    "chain": chain,
    "stencils": stencils,
    "perceptron": perceptron,
    "convolution": convolution,
    "branches": branches,
    "in_place": in_place,
}


def random_graph(seed: int, length: int = 8) -> TaskGraph:
    """Return a random graph of matrices with about ``length`` operators and two outputs."""
    rng = random.Random(seed)
    maker = GraphMaker()
    pool = [maker.tensor(rng.randint(2, 5), rng.randint(2, 5), kind="input") for _ in range(2)]
    while len(maker.operators) < length:
        # Late tensors are taken more often, so that graphs become deep as well as wide.
        x = pool[-1 - min(int(rng.expovariate(0.5)), len(pool) - 1)]
        pool.append(_random_operator(rng, maker, x, pool))
        if prod(pool[-1].shape) > 60:
            pool.pop()
    for x in pool[-2:]:
        maker.output(x, _random_tile(rng, x.shape))
    return maker.graph()


def random_updates(seed: int, length: int = 8) -> TaskGraph:
    """Return a random graph that updates two states and an intermediate in place."""
    rng = random.Random(seed)
    maker = GraphMaker()
    rows, columns = rng.randint(2, 4), rng.randint(2, 4)
    pool = [maker.tensor(rows, columns, kind=kind) for kind in ("input", "inout", "inout")]
    pool.append(maker.elementwise(pool[0], tile=_random_tile(rng, (rows, columns))))
    while len(maker.operators) < length:
        x, tile = rng.choice(pool), _random_tile(rng, (rows, columns))
        if rng.random() < 0.4:
            pool.append(maker.stencil(x, rng.randint(0, 1), tile))
            continue
        target = rng.choice(pool[1:4])
        if rng.random() < 0.3:
            first = rng.randrange(rows)
            view = (first, rng.randint(1, rows - first)), (0, columns)
            target, x = target.part(*view), x.part(*view)
            tile = _random_tile(rng, target.shape)
        maker.update(target, x, tile=tile, halo=rng.randint(0, 1), shared=rng.random() < 0.2)
    for x in pool[-2:]:
        maker.output(x, _random_tile(rng, x.shape))
    return maker.graph()


def _random_tile(rng: random.Random, shape: Shape) -> Shape:
    return tuple(rng.randint(max(1, size // 3), size) for size in shape)


def _random_operator(
    rng: random.Random, maker: GraphMaker, x: Tensor, pool: Sequence[Tensor]
) -> Tensor:
    rows, columns = x.shape
    tile = _random_tile(rng, x.shape)
    kind = rng.choice(("map", "stencil", "norm", "reduce", "matmul", "pad", "concat", "flatten"))
    alike = [other for other in pool if other.shape == x.shape]
    if kind == "stencil":
        return maker.stencil(x, 1, tile)
    if kind == "norm":
        return maker.normalize(x, tile)
    if kind == "reduce":
        return maker.reduce(x, tile[0]).reshape(rows, 1)
    if kind == "matmul":
        b = maker.tensor(columns, rng.randint(1, 4), kind="constant")
        return maker.matmul(x, b, [_random_tile(rng, (rows, b.shape[1])) for _ in range(3)])
    if kind == "pad":
        return maker.pad(x, 1, tile)
    if kind == "concat":
        return maker.concat([x, *rng.sample(alike, 1)], tile)
    if kind == "flatten" and x.strides == row_major(x.shape):
        flat = maker.elementwise(x.reshape(rows * columns), tile=(max(2, rows),))
        return flat.reshape(columns, rows)
    return maker.elementwise(x, *rng.sample(alike, 1), tile=tile)
