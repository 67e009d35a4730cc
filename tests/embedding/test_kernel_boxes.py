"""The computed boxes of a kernel's accesses contain all elements that its threads access.

The elements are found by brute force, for each thread of each block.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from rammer_mlir import dialects
from rammer_mlir.bindings import ir
from rammer_mlir.dialects.rtask.accesses import read_accesses
from rammer_mlir.lowering.from_gpu.rtask_from_gpu import FromGpu

Ids = dict[str, int]
"""A thread's ids, and the counter of the loop."""

_MASK = (1 << 64) - 1


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BY_CONSTANT: dict[str, Callable[[int, int], int]] = {
    "muli": lambda a, b: a * b,
    "divui": lambda a, b: (a & _MASK) // b,
    "divsi": _truncated,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "remui": lambda a, b: (a & _MASK) % b,
    "remsi": lambda a, b: a - b * _truncated(a, b),
}
OF_TWO: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "minsi": min,
    "maxsi": max,
}


@dataclass
class Expressions:
    """Random index computations, as MLIR text and as Python functions of a thread's ids.

    Attributes:
        rng: the generator of all random choices.
        lines: MLIR text of the operations so far.
        values: for each value, its name in MLIR, and the function that computes it from the ids.
    """

    rng: random.Random
    lines: list[str]
    values: list[tuple[str, Callable[[Ids], int]]]

    def constant(self, value: int) -> str:
        name = f"%k{len(self.lines)}"
        self.lines.append(f"{name} = arith.constant {value} : index")
        return name

    def _add(self, text: str, value: Callable[[Ids], int]) -> None:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.append((name, value))

    def grow(self) -> None:
        """Add a random operation on values that exist already."""
        (a, f), (b, g) = self.rng.choices(self.values, k=2)
        kind, k = self.rng.randrange(7), self.rng.randint(1, 5)
        if kind < 2:
            name = self.rng.choice(list(BY_CONSTANT))
            rule = BY_CONSTANT[name]
            factor = self.constant(k)
            self._add(f"arith.{name} {a}, {factor} : index", lambda i: rule(f(i), k))
        elif kind < 4:
            name = self.rng.choice(list(OF_TWO))
            join = OF_TWO[name]
            self._add(f"arith.{name} {a}, {b} : index", lambda i: join(f(i), g(i)))
        elif kind == 4:
            text = f"affine.apply affine_map<(d)[s] -> (d * {k} + s floordiv 2 - 1)>({a})[{b}]"
            self._add(text, lambda i: f(i) * k + g(i) // 2 - 1)
        elif kind == 5:
            text = f"affine.min affine_map<(d, e) -> (d - {k}, e mod {k}, 7)>({a}, {b})"
            self._add(text, lambda i: min(f(i) - k, g(i) % k, 7))
        else:
            limit = self.constant(k)
            name = f"%c{len(self.lines)}"
            self.lines.append(f"{name} = arith.cmpi slt, {a}, {limit} : index")
            text = f"arith.select {name}, {a}, {b} : index"
            self._add(text, lambda i: f(i) if f(i) < k else g(i))


@dataclass(frozen=True)
class Kernel:
    """A kernel with a loop, and the elements that each of its threads reads and writes in an array.

    Attributes:
        text: an MLIR module with the kernel and its only launch.
        grid: number of blocks in x, y and z.
        block: number of threads of a block in x, y and z.
        counters: values of the loop's counter.
        places: by "reads" and "updates", the indices of the accessed element in each dimension, as
            functions of a thread's ids and the counter.
    """

    text: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    counters: range
    places: dict[str, list[Callable[[Ids], int]]]

    def touched(self, what: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield all accesses of all threads: the rTask (a block), and the indices of the element.

        ``what`` is the kind of the accesses: "reads" or "updates".
        """
        for z, y, x in product(*(range(n) for n in reversed(self.grid))):
            rtask = x + self.grid[0] * (y + self.grid[1] * z)
            for tz, ty, tx in product(*(range(n) for n in reversed(self.block))):
                for counter in self.counters:
                    ids = {"bx": x, "by": y, "bz": z, "tx": tx, "ty": ty, "tz": tz, "i": counter}
                    yield rtask, tuple(index(ids) for index in self.places[what])


SHAPE = (9, 14)


def random_kernel(seed: int) -> Kernel:
    """Return a kernel that copies elements between random places, in a loop."""
    rng = random.Random(seed)
    grid = tuple(rng.randint(1, 4) for _ in range(3))
    block = tuple(rng.randint(1, 4) for _ in range(3))
    first, step = rng.randint(0, 2), rng.randint(1, 3)
    counters = range(first, first + rng.randint(1, 6), step)
    lines = [f"%{kind}{axis} = gpu.{name}_id {axis}" for kind, name in (("b", "block"),
             ("t", "thread")) for axis in "xyz"]  # fmt: skip
    names = ["bx", "by", "bz", "tx", "ty", "tz", "i"]
    values: list[tuple[str, Callable[[Ids], int]]] = [
        (f"%{name}", lambda ids, name=name: ids[name]) for name in names
    ]
    expressions = Expressions(rng, [], values)
    for _ in range(rng.randint(2, 8)):
        expressions.grow()
    source, target = ([rng.choice(values[-4:]) for _ in range(2)] for _ in range(2))
    kind = f"memref<{SHAPE[0]}x{SHAPE[1]}xf32>"
    sizes = "\n".join(f"%c{n} = arith.constant {n} : index" for n in range(1, 5))
    ids, computed = "\n".join(lines), "\n".join(expressions.lines)
    text = f"""
module attributes {{gpu.container_module}} {{
func.func @host(%x: {kind}, %y: {kind}) {{
  {sizes}
  gpu.launch_func @k::@copy blocks in ({", ".join(f"%c{n}" for n in grid)})
      threads in ({", ".join(f"%c{n}" for n in block)}) args(%x : {kind}, %y : {kind})
  return
}}
gpu.module @k {{
gpu.func @copy(%x: {kind}, %y: {kind}) kernel {{
  {ids}
  %first = arith.constant {counters.start} : index
  %end = arith.constant {counters.stop} : index
  %step = arith.constant {counters.step} : index
  scf.for %i = %first to %end step %step {{
    {computed}
    %v = memref.load %x[{", ".join(name for name, _ in source)}] : {kind}
    memref.store %v, %y[{", ".join(name for name, _ in target)}] : {kind}
  }}
  gpu.return
}}
}}
}}"""
    places = {"reads": [f for _, f in source], "updates": [f for _, f in target]}
    return Kernel(text, grid, block, counters, places)


def boxes_of(text: str) -> dict[str, Any]:
    """Return the boxes of the only rKernel in ``text``, a module with a launch.

    The keys are "reads" and "updates". For each access, there is a pair of arrays: the starts and
    the ends (exclusive) of the box, with a row for each rTask.
    """
    context = ir.Context()
    dialects.register(context)
    with context:
        module = ir.Module.parse(text)
        FromGpu().run(module)
        module.operation.verify()
        for op in module.body.operations:
            if op.operation.name == "rtask.kernel":
                count = ir.IntegerAttr(op.operation.attributes["num_rtasks"]).value
                return {
                    key: [
                        access.boxes(count, SHAPE)
                        for access in read_accesses(op.operation, key)
                        if len(access.sizes) == len(SHAPE)
                    ]
                    for key in ("reads", "updates")
                }
    raise AssertionError("the kernel writes something")


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_no_element_is_outside_of_its_box(first: int) -> None:
    """A thread's accesses are in its rTask's box, except those outside of the array."""
    inside = boxed = 0
    for seed in range(first, first + 50):
        kernel = random_kernel(seed)
        found = boxes_of(kernel.text)
        for what in ("reads", "updates"):
            ((starts, ends),) = found[what]
            touched: dict[int, set[tuple[int, ...]]] = {}
            for rtask, place in kernel.touched(what):
                if all(0 <= index < size for index, size in zip(place, SHAPE, strict=True)):
                    touched.setdefault(rtask, set()).add(place)
                    assert (starts[rtask] <= place).all(), (seed, what, rtask, place)
                    assert (place < ends[rtask]).all(), (seed, what, rtask, place)
            inside += sum(map(len, touched.values()))
            boxed += int(np.prod(ends - starts, axis=1).sum())
    # Boxes are not exact, but whole arrays would be ten times as much again.
    assert inside and boxed < 10 * inside


def tile_kernel(index: str) -> str:
    """Return MLIR text of a launch of 3 x 2 blocks of 5 x 4 threads.

    ``index`` is text of the kernel's last operations, which store %f in %y. They may use %row and
    %column, the thread's position in a tile of 4 x 5 elements of its block.
    """
    kind = f"memref<{SHAPE[0]}x{SHAPE[1]}xf32>"
    return f"""
module attributes {{gpu.container_module}} {{
func.func @host(%y: {kind}, %n: memref<index>) {{
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  gpu.launch_func @k::@fill blocks in (%c3, %c2, %c1) threads in (%c5, %c4, %c1)
      args(%y : {kind}, %n : memref<index>)
  return
}}
gpu.module @k {{
gpu.func @fill(%y: {kind}, %n: memref<index>) kernel {{
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %f = arith.constant 1.0 : f32
  %bx = gpu.block_id x
  %by = gpu.block_id y
  %tx = gpu.thread_id x
  %ty = gpu.thread_id y
  %r0 = arith.muli %by, %c4 : index
  %row = arith.addi %r0, %ty : index
  %q0 = arith.muli %c5, %bx : index
  %column = arith.addi %tx, %q0 : index
  {index}
  gpu.return
}}
}}
}}"""


EXACT = {
    "tile": ("memref.store %f, %y[%row, %column] : memref<9x14xf32>", (4, 5), (4, 5)),
    "bound from memory": (
        """%c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.load %n[] : memref<index>
  scf.for %i = %c0 to %m step %c1 {
    memref.store %f, %y[%row, %i] : memref<9x14xf32>
  }""",
        (4, 0),
        (4, 14),
    ),
    "index from memory": (
        """%m = memref.load %n[] : memref<index>
  memref.store %f, %y[%m, %column] : memref<9x14xf32>""",
        (0, 5),
        (9, 5),
    ),
    "subview": (
        """%part = memref.subview %y[%r0, 0] [4, 14] [1, 1]
      : memref<9x14xf32> to memref<4x14xf32, strided<[14, 1], offset: ?>>
  memref.store %f, %part[%ty, %column] : memref<4x14xf32, strided<[14, 1], offset: ?>>""",
        (4, 5),
        (4, 5),
    ),
    "vector": (
        """%v = arith.constant dense<1.0> : vector<2xf32>
  %wide = arith.addi %q0, %q0 : index
  vector.store %v, %y[%row, %q0] : memref<9x14xf32>, vector<2xf32>""",
        (4, 5),
        (4, 2),
    ),
    "affine loop": (
        """affine.for %k = 1 to 9 step 3 {
    affine.store %f, %y[symbol(%row), %k - 1] : memref<9x14xf32>
  }""",
        (4, 0),
        (4, 7),
    ),
    "affine loop with bounds that move": (
        """affine.for %k = max affine_map<(r) -> (r, 0)>(%r0)
      to min affine_map<(r) -> (r + 4, 9)>(%r0) {
    affine.store %f, %y[%k, symbol(%column)] : memref<9x14xf32>
  }""",
        (4, 5),
        (4, 5),
    ),
    "guard": (
        """%c9 = arith.constant 9 : index
  %fits = arith.cmpi ult, %row, %c9 : index
  scf.if %fits {
    memref.store %f, %y[%row, %column] : memref<9x14xf32>
  }""",
        (4, 5),
        (4, 5),
    ),
    "flat": (
        """%c14 = arith.constant 14 : index
  %r1 = arith.muli %row, %c14 : index
  %place = arith.addi %r1, %tx : index
  %r2 = arith.divui %place, %c14 : index
  %column2 = arith.remui %place, %c14 : index
  memref.store %f, %y[%r2, %column2] : memref<9x14xf32>""",
        (4, 0),
        (4, 14),
    ),
    "flatter": (
        """%c14 = arith.constant 14 : index
  %r1 = arith.muli %by, %c14 : index
  %place = arith.addi %r1, %tx : index
  %r2 = arith.divui %place, %c14 : index
  %column2 = arith.remui %place, %c14 : index
  memref.store %f, %y[%r2, %column2] : memref<9x14xf32>""",
        (1, 0),
        (1, 5),
    ),
}
"""Index computations, the steps of boxes along the block's y and x, and the sizes of boxes."""


@pytest.mark.parametrize("name", EXACT)
def test_boxes_of_what_kernels_often_do(name: str) -> None:
    text, (down, right), (rows, columns) = EXACT[name]
    ((starts, ends),) = boxes_of(tile_kernel(text))["updates"]
    for rtask in range(6):
        first = np.array([rtask // 3 * down, rtask % 3 * right])
        assert (starts[rtask] == np.minimum(first, SHAPE)).all()
        assert (ends[rtask] == np.minimum(first + np.array([rows, columns]), SHAPE)).all()
