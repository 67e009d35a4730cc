"""Emits products with constant matrices, such as Winograd's transforms, as straight-line code.

``A @ x @ B^T`` with constant ``A`` and ``B`` is computed for many small matrices ``x``. A lane of a
register computes one such product: a micro tile loads all elements of its matrices ``x`` into
registers, and multiplies along each dimension of ``x``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from rammer_mlir.bindings import arith, ir
from rammer_mlir.lowering.cpu.vectorize.emit import NestEmitter
from rammer_mlir.lowering.cpu.vectorize.linear_map import Rows, linear_map
from rammer_mlir.lowering.cpu.vectorize.memory import Mask
from rammer_mlir.lowering.cpu.vectorize.nest import Nest
from rammer_mlir.lowering.cpu.vectorize.registers import Instance, Span, Spans
from rammer_mlir.lowering.cpu.vectorize.tile import TilePlan
from rammer_mlir.lowering.ir_walk import producer
from rammer_mlir.passes.ir.structured import constant_value

_MOST_RESULTS = 64
"""Largest number of results per point for which straight-line code is emitted."""


@dataclass(frozen=True)
class Factor:
    """A constant matrix, and the dimensions of the nest that index it.

    Attributes:
        matrix: the rows of the matrix.
        rows: the index of the dimension along which the row changes.
        columns: the index of the dimension along which the column changes.
    """

    matrix: Rows
    rows: int
    columns: int


@dataclass(frozen=True)
class Transform:
    """A nest that multiplies its last input by constant matrices, and the plan of its micro tile.

    With one factor ``A`` the result is ``A @ x``, with two factors ``A`` and ``B`` it is ``A @ x @
    B^T``, where ``x`` is the last input.
    """

    factors: tuple[Factor, ...]
    plan: TilePlan


def find_transform(
    nest: Nest, initial: Sequence[ir.Value | None], vector_bits: int
) -> Transform | None:
    """Return the transform that a nest computes; None without a transform that can be emitted.

    A nest computes a transform if it multiplies its last input by constant matrices, and adds the
    products to an output that contains zeros. The transform can be emitted if the lanes can
    lie along a dimension that indexes no matrix (``_vector_dim``), and a micro tile has at most
    ``_MOST_RESULTS`` results.

    Args:
        nest: the nest.
        initial: for each output, the constant that it is known to contain before the nest, or None.
        vector_bits: width of a vector register in bits.
    """
    factors = _factors(nest)
    if factors is None or not _multiplies_all(nest):
        return None
    if initial[0] is None or constant_value(initial[0]) != 0.0:
        return None
    small = [dim for factor in factors for dim in (factor.rows, factor.columns)]
    reductions = {dim for dim, kind in enumerate(nest.reduction) if kind}
    if not all(_is_whole(nest, factor) for factor in factors) or len(set(small)) != len(small):
        return None
    if {factor.columns for factor in factors} != reductions:
        return None
    vector = _vector_dim(nest, small, max(1, vector_bits // nest.lane_bits))
    if vector is None or np.prod([len(factor.matrix) for factor in factors]) > _MOST_RESULTS:
        return None
    number = {dim: position for position, dim in enumerate(nest.loops)}
    others = [dim for dim in nest.loops if dim not in small and dim != vector]
    plan = TilePlan(
        vector=number[vector],
        lanes=vector_bits // nest.lane_bits,
        unroll=tuple((number[f.rows], len(f.matrix)) for f in factors if f.rows in number),
        order=tuple(number[dim] for dim in (*others, vector)) + tuple(
            number[f.rows] for f in factors if f.rows in number
        ),
    )  # fmt: skip
    return Transform(factors, plan)


def _factors(nest: Nest) -> tuple[Factor, ...] | None:
    """Return all inputs but the last as constant matrices; None if one of them is not constant."""
    constants = list(nest.operation.operands)[: -nest.outputs][:-1]
    found: list[Factor] = []
    for value, map_ in zip(constants, nest.generic.maps, strict=False):
        matrix = _constant_matrix(value)
        dims = [expr.position for expr in map_.results if isinstance(expr, ir.AffineDimExpr)]
        if matrix is None or len(dims) != 2:
            return None
        found.append(Factor(matrix, dims[0], dims[1]))
    return tuple(found) or None


def _is_whole(nest: Nest, factor: Factor) -> bool:
    sizes = [nest.sizes[factor.rows], nest.sizes[factor.columns]]
    return sizes == [len(factor.matrix), len(factor.matrix[0])]


def _constant_matrix(value: ir.Value) -> Rows | None:
    """Return the rows of a constant f32 matrix in a ``memref.global``; None for other values."""
    if isinstance(value.owner, ir.Block) or producer(value) != "memref.get_global":
        return None
    module = value.owner.operation
    name = ir.FlatSymbolRefAttr(module.attributes["name"]).value
    while module.parent is not None:
        module = module.parent.operation
    for operation in (o.operation for o in module.regions[0].blocks[0].operations):
        if operation.name != "memref.global":
            continue
        if ir.StringAttr(operation.attributes["sym_name"]).value == name:
            kind = ir.MemRefType(value.type)
            if kind.rank != 2 or not isinstance(kind.element_type, ir.F32Type):
                return None
            return np.array(operation.attributes["initial_value"]).tolist()
    return None


def _multiplies_all(nest: Nest) -> bool:
    """Return whether the nest's body adds the product of all inputs to its only output."""
    body, inputs = nest.body, len(nest.operands) - nest.outputs
    names = [instruction.name for instruction in body.instructions]
    combiners = body.combiners
    return (
        nest.outputs == 1
        and combiners is not None
        and combiners[0].name == "arith.addf"
        and sorted(names) == ["arith.addf", *["arith.mulf"] * (inputs - 1)]
        and all(body.uses(slot) == 1 for slot in range(inputs))
    )


def _vector_dim(nest: Nest, small: list[int], lanes: int) -> int | None:
    """Return a dimension for the lanes of registers, or None if no dimension is suitable.

    The last input and the output must be contiguous along the dimension. The size of the dimension
    must be a multiple of ``lanes``. The dimensions in ``small``, which index the constant matrices,
    are not suitable.
    """
    moving = [*nest.operands[-2:], *([] if nest.finish is None else nest.finish.operands)]
    if any(operand.results is not None for operand in nest.operands):
        return None
    for dim in reversed(nest.loops):
        size = nest.sizes[dim]
        if dim in small or not isinstance(size, int) or size % lanes:
            continue
        strides = [operand.strides[dim] for operand in moving if not operand.is_scalar]
        if strides[0] == strides[1] == 1 and all(s in (0, 1) for s in strides):
            return dim
    return None


class TransformEmitter(NestEmitter):
    """Emits a transform: loads elements of small matrices, and multiplies along each dimension.

    Each lane of the registers belongs to a different matrix.
    """

    def __init__(
        self, nest: Nest, transform: Transform, initial: Sequence[ir.Value | None]
    ) -> None:
        super().__init__(nest, transform.plan, initial)
        self.factors = transform.factors

    def reduced(self, spans: Spans, instances: list[Instance]) -> list[list[ir.Value]]:
        """Emit the transform of a micro tile.

        ``spans`` has the micro tile's part of each loop, and ``instances`` its registers. The
        returned list has an element for each register: a list with the register's only result.
        """
        arithmetic = _Vectors(ir.VectorType.get([self.lanes], self.inputs[-1].element))
        place = {} if self.vector is None else {self.vector: 0}
        values: dict[tuple[int, ...], ir.Value] = {}
        columns = [factor.columns for factor in self.factors]
        sizes = [len(factor.matrix[0]) for factor in self.factors]
        for offsets in product(*map(range, reversed(sizes))):
            at = dict(zip(reversed(columns), offsets, strict=True))
            instance = Instance(place | at, Mask(None, None))
            everywhere = spans | {
                dim: Span(0, size) for dim, size in zip(columns, sizes, strict=True)
            }
            values[tuple(at[dim] for dim in columns)] = self.registers.load(
                self.inputs[-1], everywhere, instance
            )
        for number, factor in enumerate(self.factors):
            values = _mapped(values, number, factor.matrix, arithmetic)
        rows = [factor.rows for factor in self.factors]
        return [[values[tuple(i.offsets.get(dim, 0) for dim in rows)]] for i in instances]


def _mapped(
    values: dict[tuple[int, ...], ir.Value], dim: int, matrix: Rows, arithmetic: _Vectors
) -> dict[tuple[int, ...], ir.Value]:
    """Emit the product of ``matrix`` with dimension ``dim`` of an array of registers.

    ``values`` maps the indices of each element of the array to the element's register. The returned
    mapping has the registers of the product.
    """
    lines: dict[tuple[int, ...], list[ir.Value]] = {}
    for place, value in values.items():
        lines.setdefault((*place[:dim], *place[dim + 1 :]), []).append(value)
    found: dict[tuple[int, ...], ir.Value] = {}
    for place, line in lines.items():
        for row, value in enumerate(linear_map(matrix, line, arithmetic)):
            found[(*place[:dim], row, *place[dim:])] = value
    return found


@dataclass(frozen=True)
class _Vectors:
    """Emits arithmetic on registers of the vector type ``kind``; multiply-adds may be fused."""

    kind: ir.VectorType

    def add(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return arith.addf(left, right)

    def subtract(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return arith.subf(left, right)

    def scale(self, factor: float, value: ir.Value) -> ir.Value:
        return arith.mulf(self._everywhere(factor), value)

    def multiply_add(self, factor: float, value: ir.Value, addend: ir.Value) -> ir.Value:
        flags = ir.Attribute.parse("#arith.fastmath<contract>")
        scaled = arith.mulf(self._everywhere(factor), value, fastmath=flags)
        return arith.addf(scaled, addend, fastmath=flags)

    def _everywhere(self, factor: float) -> ir.Value:
        number = ir.FloatAttr.get(self.kind.element_type, factor)
        return arith.constant(self.kind, ir.DenseElementsAttr.get_splat(self.kind, number))
