"""Random ``linalg.generic`` operations, as MLIR text and as NumPy code on f64 or wide integers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from kernel_harness import Array

DTYPES: dict[str, type[np.generic]] = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i32": np.int32,
    "i64": np.int64,
    "i8": np.int8,
}
_SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 48, 64)
_COMBINERS = {
    "add": ("addf", "addi", np.add),
    "max": ("maximumf", "maxsi", np.maximum),
    "min": ("minimumf", "minsi", np.minimum),
    "mul": ("mulf", "muli", np.multiply),
}


@dataclass
class Term:
    """A result of an indexing map: a linear combination of loop indices, divided by ``divisor``.

    Attributes:
        factors: the factor of each loop index, by the loop's number.
        constant: the number that is added before the division.
        divisor: the number by which the sum is divided, rounding down.
    """

    factors: dict[int, int]
    constant: int = 0
    divisor: int = 1

    def text(self) -> str:
        parts = [f"d{loop} * {factor}" for loop, factor in self.factors.items()]
        linear = " + ".join([*parts, str(self.constant)])
        return linear if self.divisor == 1 else f"({linear}) floordiv {self.divisor}"

    def values(self, grids: Array) -> Array:
        total = np.full(grids.shape[1:], self.constant)
        for loop, factor in self.factors.items():
            total = total + factor * grids[loop]
        return total // self.divisor

    def extent(self, sizes: list[int]) -> int:
        reach = sum(max(0, f) * (sizes[loop] - 1) for loop, f in self.factors.items())
        return (reach + self.constant) // self.divisor + 1


@dataclass
class Buffer:
    """A memref operand: the results of its indexing map, and a layout with padding and offset.

    Attributes:
        terms: the results of the indexing map, one for each dimension.
        shape: the sizes of the memref.
        padded: the sizes of the memory from which the strides are computed, at least ``shape``.
        offset: the index of the memref's first element in its array.
        strides: the strides of the dimensions, in elements.
    """

    terms: list[Term]
    shape: list[int]
    padded: list[int]
    offset: int
    strides: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        stride = 1
        for size in reversed(self.padded):
            self.strides.insert(0, stride)
            stride *= size
        self.elements = stride + self.offset

    def type(self, element: str, dynamic: set[int] | None = None) -> str:
        """Return the memref type; sizes of dimensions that ``dynamic`` loops index become ``?``."""
        sizes = [
            "?" if dynamic and set(term.factors) & dynamic else str(size)
            for term, size in zip(self.terms, self.shape, strict=True)
        ]
        layout = f"strided<{self.strides}, offset: {self.offset}>"
        return f"memref<{''.join(f'{size}x' for size in sizes)}{element}, {layout}>"

    def view(self, data: Array) -> Array:
        strides = [stride * data.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(data[self.offset :], self.shape, strides)


class RandomGeneric:
    """A random ``linalg.generic`` of one to three inputs.

    With ``dynamic``, the sizes of some loops are known at run time only.
    """

    def __init__(self, seed: int, dynamic: bool) -> None:
        self.random = random.Random(seed)
        self.dynamic = dynamic
        self.element = self.random.choice(list(DTYPES))
        self._choose_loops()
        self.inputs = self._choose_inputs()
        result = [Term({loop: 1}) for loop in self.random.sample(self.parallel, len(self.parallel))]
        self.output = self._buffer(result)
        choices = ["add", "max", "min"]
        self.combiner = self.random.choice(choices)
        self.mixers = [self.random.choice(["add", "mul", "max"]) for _ in self.inputs[1:]]
        self.rtask = self.random.choice([0, 1, 2, 5, 9, 16, 20, 40, 64]) if dynamic else 0
        self.shortened = {d for d in range(self.loops) if dynamic and self.random.random() < 0.5}

    def _choose_loops(self) -> None:
        parallel, reductions = self.random.randint(1, 3), self.random.randint(0, 2)
        self.loops = parallel + reductions
        self.sizes = [self.random.choice(_SIZES) for _ in range(self.loops)]
        while np.prod(self.sizes) > 20000:
            self.sizes[self.random.randrange(self.loops)] = self.random.choice(_SIZES[:4])
        order = self.random.sample(range(self.loops), self.loops)
        self.parallel = sorted(order[:parallel])
        self.reductions = sorted(order[parallel:])

    def _choose_inputs(self) -> list[Buffer]:
        walks = [self._random_terms() for _ in range(self.random.randint(1, 2))]
        plain = {
            next(iter(term.factors))
            for terms in walks
            for term in terms
            if list(term.factors.values()) == [1] and not term.constant and term.divisor == 1
        }
        missing = [loop for loop in self.reductions if loop not in plain]
        if missing:  # every loop's size has to show somewhere
            walks.append([Term({loop: 1}) for loop in missing])
        return [self._buffer(terms) for terms in walks]

    def _random_terms(self) -> list[Term]:
        loops = [loop for loop in range(self.loops) if self.random.random() < 0.75]
        self.random.shuffle(loops)
        return [self._random_term(loop) for loop in loops]

    def _random_term(self, loop: int) -> Term:
        kind = 0.0 if self.dynamic else self.random.random()
        if kind < 0.75:
            return Term({loop: 1})
        if kind < 0.82:
            return Term({loop: self.random.choice([2, 3, 5])}, constant=1)
        if kind < 0.88:
            return Term({loop: 1}, divisor=2)
        if kind < 0.95:
            other = self.random.randrange(self.loops)
            return Term({loop: 2, other: 1} if other != loop else {loop: 3})
        return Term({loop: -1}, constant=self.sizes[loop] - 1)

    def _buffer(self, terms: list[Term]) -> Buffer:
        shape = [term.extent(self.sizes) for term in terms]
        padded = [size + self.random.choice([0, 0, 3]) for size in shape]
        return Buffer(terms, shape, padded, self.random.choice([0, 0, 5]))

    @property
    def is_float(self) -> bool:
        return self.element.startswith("f")

    def source(self) -> str:
        """Return the kernel as MLIR text."""
        buffers = [*self.inputs, self.output]
        arguments = ", ".join(f"%a{k}: {b.type(self.element)}" for k, b in enumerate(buffers))
        loops = ", ".join(f"d{d}" for d in range(self.loops))
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(t.text() for t in b.terms)})>" for b in buffers
        )
        kinds = ['"reduction"' if d in self.reductions else '"parallel"' for d in range(self.loops)]
        types = [b.type(self.element, self.shortened) for b in buffers]
        names = [f"%v{k}" for k in range(len(buffers))]
        return f"""
func.func private @k(%id: index, {arguments}) {{
{self._views(buffers)}
  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{", ".join(kinds)}]}}
      ins({", ".join(names[:-1])} : {", ".join(types[:-1])}) outs({names[-1]} : {types[-1]}) {{
  ^bb0({", ".join(f"%x{k}: {self.element}" for k in range(len(buffers)))}):
{self._body()}
  }}
  return
}}"""

    def _views(self, buffers: list[Buffer]) -> str:
        lines = [
            f"  %n{d} = affine.min affine_map<(d0) -> ({self.sizes[d]}, d0)>(%id)"
            for d in sorted(self.shortened)
        ]
        for k, buffer in enumerate(buffers):
            sizes = [
                f"%n{loop}" if (loop := next(iter(t.factors))) in self.shortened else str(size)
                for t, size in zip(buffer.terms, buffer.shape, strict=True)
            ]
            zeros, ones = ["0"] * len(sizes), ["1"] * len(sizes)
            lines.append(
                f"  %v{k} = memref.subview %a{k}[{', '.join(zeros)}] [{', '.join(sizes)}] "
                f"[{', '.join(ones)}] : {buffer.type(self.element)} "
                f"to {buffer.type(self.element, self.shortened)}"
            )
        return "\n".join(lines)

    def _body(self) -> str:
        which = 0 if self.is_float else 1
        lines, value = [], "%x0"
        for number, mixer in enumerate(self.mixers, start=1):
            operation = _COMBINERS[mixer][which]
            lines.append(f"    %m{number} = arith.{operation} {value}, %x{number} : {self.element}")
            value = f"%m{number}"
        operation = _COMBINERS[self.combiner][which]
        old = f"%x{len(self.inputs)}"
        lines.append(f"    %r = arith.{operation} {old}, {value} : {self.element}")
        lines.append(f"    linalg.yield %r : {self.element}")
        return "\n".join(lines)

    def random_data(self) -> list[Array]:
        """Return a flat array for each buffer, with some elements more than the buffer has."""
        generator = np.random.default_rng(self.random.randrange(1 << 30))
        return [
            (
                generator.uniform(-1, 1, b.elements + 8)
                if self.is_float
                else generator.integers(-20, 20, b.elements + 8)
            ).astype(DTYPES[self.element])
            for b in [*self.inputs, self.output]
        ]

    def expected(self, data: list[Array]) -> Array:
        """Return the flat output array after the operation, in float64 or in wrapping integers."""
        wide: Any = np.float64 if self.is_float else DTYPES[self.element]
        sizes = [
            min(size, self.rtask) if d in self.shortened else size
            for d, size in enumerate(self.sizes)
        ]
        grids = np.indices(sizes)
        values = [
            np.broadcast_to(b.view(x).astype(wide)[tuple(t.values(grids) for t in b.terms)], sizes)
            for b, x in zip(self.inputs, data[:-1], strict=True)
        ]
        total = values[0]
        for mixer, value in zip(self.mixers, values[1:], strict=True):
            total = _COMBINERS[mixer][2](total, value)
        result = data[-1].astype(wide)
        loops = [next(iter(term.factors)) for term in self.output.terms]
        target = self.output.view(result)[tuple(slice(0, sizes[loop]) for loop in loops)]
        moved = np.transpose(total, [*loops, *self.reductions])
        combine = _COMBINERS[self.combiner][2]
        flat = (
            moved.reshape(*target.shape, -1) if total.size else np.empty((*target.shape, 0), wide)
        )
        for column in np.moveaxis(flat, -1, 0):
            target[...] = combine(target, column)
        return result
