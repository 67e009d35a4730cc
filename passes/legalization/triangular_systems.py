"""Lowers ``stablehlo.triangular_solve`` to a substitution, which computes one row at a time.

Specification: https://openxla.org/stablehlo/spec#triangular_solve. If ``left_side`` is false, the
system is ``x * a = b``. The substitution then computes one column of ``x`` at a time, by solving
the transposed system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import arith, ir, linalg, scf, stablehlo, tensor
from rammer_mlir.passes.ir.generics import generic, splat
from rammer_mlir.passes.ir.traversal import operations_named, replace
from rammer_mlir.passes.legalization.elementwise import index, per_element

_OPEN = ir.ShapedType.get_dynamic_size()


def lower_triangular_systems(module: ir.Module) -> None:
    """Replace each ``stablehlo.triangular_solve`` of real numbers and static shape by a loop.

    Systems of complex numbers or of dynamic shape remain unchanged.
    """
    if stablehlo is None:
        return
    for op in list(operations_named(module.operation, "stablehlo.triangular_solve")):
        kinds = [ir.RankedTensorType(value.type) for value in op.operands]
        is_real = isinstance(kinds[0].element_type, ir.FloatType)
        if is_real and all(kind.has_static_shape for kind in kinds):
            with ir.InsertionPoint(op), op.location:
                replace(op, [_System.of(op).solution()])


@dataclass(frozen=True)
class _System:
    """Emitter of a substitution that solves a batch of triangular systems of equations.

    Attributes:
        matrices: the coefficients, of shape ``[..., n, n]``.
        sides: the right-hand sides, of shape ``[..., n, m]``, or ``[..., m, n]`` if ``on_left`` is
            false.
        on_left: whether the matrices are the left factors.
        is_lower: whether the i-th unknown depends on the unknowns before it; if False, it depends
            on the unknowns after it.
        is_transposed: whether the coefficients of the i-th equation are a column of the matrix; if
            False, they are a row.
        has_ones: whether all elements of the diagonals are taken as 1, whatever the matrices
            contain.
    """

    matrices: ir.Value
    sides: ir.Value
    on_left: bool
    is_lower: bool
    is_transposed: bool
    has_ones: bool

    @staticmethod
    def of(op: ir.Operation) -> _System:
        """Return the systems that a ``stablehlo.triangular_solve`` solves."""
        on_left, is_lower, has_ones = (
            ir.BoolAttr(op.attributes[name]).value
            for name in ("left_side", "lower", "unit_diagonal")
        )
        transposes = " NO_TRANSPOSE>" not in str(op.attributes["transpose_a"])
        is_transposed = transposes == on_left
        return _System(
            op.operands[0], op.operands[1], on_left, is_lower != is_transposed, is_transposed,
            has_ones,
        )  # fmt: skip

    @property
    def batch(self) -> list[int]:
        """The sizes of the batch dimensions: all dimensions of the tensors except the last two."""
        return list(ir.RankedTensorType(self.sides.type).shape)[:-2]

    @property
    def unknowns(self) -> int:
        """The number of unknowns of a system."""
        return ir.RankedTensorType(self.matrices.type).shape[-1]

    @property
    def columns(self) -> int:
        """The number of right-hand sides of a system."""
        return ir.RankedTensorType(self.sides.type).shape[-1 if self.on_left else -2]

    @property
    def element(self) -> ir.Type:
        """The element type of the coefficients and the right-hand sides."""
        return ir.RankedTensorType(self.sides.type).element_type

    def solution(self) -> ir.Value:
        """Emit the loop over the unknowns, and return the solution, of the shape of ``sides``."""
        zero = arith.constant(self.element, 0.0)
        start = splat(zero, ir.RankedTensorType(self.sides.type).shape)
        loop = scf.ForOp(index(0), index(self.unknowns), index(1), [start])
        with ir.InsertionPoint(loop.body):
            (known,) = loop.inner_iter_args
            at = loop.induction_variable
            if not self.is_lower:
                at = arith.subi(index(self.unknowns - 1), at)
            row = self._row(at, self._known_part(at, known))
            scf.YieldOp([self._with_row(known, at, row)])
        return loop.results[0]

    def _known_part(self, at: ir.Value, known: ir.Value) -> ir.Value:
        """Emit the sum, in equation ``at``, of the products of coefficients and solved unknowns.

        ``known`` contains the values of the unknowns solved so far. The returned tensor has an
        element for each right-hand side of each system.
        """
        rank = len(self.batch)
        loops = [ir.AffineDimExpr.get(n) for n in range(rank + 2)]
        *batch, column, unknown = loops
        place = [unknown, column] if self.on_left else [column, unknown]
        maps = [
            ir.AffineMap.get(rank + 2, 0, results)
            for results in ([*batch, unknown], [*batch, *place], [*batch, column])
        ]
        start = splat(arith.constant(self.element, 0.0), [*self.batch, self.columns])
        op = generic([self._coefficients(at), known], start, maps, [True] * (rank + 1) + [False])
        block = op.regions[0].blocks.append(*[self.element] * 3)
        with ir.InsertionPoint(block):
            coefficient, value, total = block.arguments
            number = linalg.IndexOp(rank + 1)
            before = arith.CmpIPredicate.slt if self.is_lower else arith.CmpIPredicate.sgt
            # The other triangle is not read by definition: it may contain anything.
            is_known = arith.cmpi(before, number.result, at)
            product = arith.mulf(coefficient, value)
            linalg.YieldOp([arith.select(is_known, arith.addf(total, product), total)])
        return op.results[0]

    def _row(self, at: ir.Value, known: ir.Value) -> ir.Value:
        """Emit the values of unknown ``at``, one for each right-hand side of each system.

        ``known`` is the result of ``_known_part``. The emitted code subtracts ``known`` from the
        right-hand side of equation ``at``, and divides the difference by the diagonal coefficient.
        """
        shape = [*self.batch, self.columns]
        rank = len(shape)
        each = ir.AffineMap.get_identity(rank)
        system = ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(n) for n in range(rank - 1)])
        inputs = [(self._slice(self.sides, self._row_of_side(at)), each), (known, each)]
        if not self.has_ones:
            inputs.append((self._slice(self.matrices, [at, at]), system))

        def body(elements: Sequence[ir.Value], _indices: Sequence[ir.Value]) -> ir.Value:
            side, part, *diagonal = elements
            rest = arith.subf(side, part)
            return arith.divf(rest, diagonal[0]) if diagonal else rest

        return per_element(shape, self.element, inputs, body)

    def _coefficients(self, at: ir.Value) -> ir.Value:
        """Emit a tensor with the coefficients of equation ``at`` for each system."""
        place = [None, at] if self.is_transposed else [at, None]
        return self._slice(self.matrices, place)

    def _row_of_side(self, at: ir.Value) -> list[ir.Value | None]:
        return [at, None] if self.on_left else [None, at]

    def _slice(self, source: ir.Value, place: Sequence[ir.Value | None]) -> ir.Value:
        """Emit and return the slice of ``source`` at ``place``, with all batch dimensions.

        ``place`` has an entry for each of the last two dimensions of ``source``: an index, whose
        dimension is dropped from the result, or None for the whole dimension.
        """
        offsets, geometry = self._geometry(source, place)
        kept = [size for size, at in zip(geometry[1][-2:], place, strict=True) if at is None]
        result = ir.RankedTensorType.get([*self.batch, *kept], self.element)
        return tensor.ExtractSliceOp(result, source, offsets, [], [], *geometry).result

    def _with_row(self, known: ir.Value, at: ir.Value, row: ir.Value) -> ir.Value:
        offsets, geometry = self._geometry(known, self._row_of_side(at))
        return tensor.InsertSliceOp(row, known, offsets, [], [], *geometry).result

    def _geometry(
        self, source: ir.Value, place: Sequence[ir.Value | None]
    ) -> tuple[list[ir.Value], tuple[list[int], list[int], list[int]]]:
        """Return the dynamic offsets of a slice, and its static offsets, sizes and strides.

        The slice has all batch dimensions. ``place`` has an entry for each of the last two
        dimensions of ``source``: an index, or None for the whole dimension. A static offset is
        MLIR's marker for dynamic offsets where ``place`` has an index.
        """
        shape = list(ir.RankedTensorType(source.type).shape)
        rank = len(self.batch)
        static = [0] * rank + [0 if at is None else _OPEN for at in place]
        sizes = [
            *shape[:rank],
            *(size if at is None else 1 for size, at in zip(shape[rank:], place, strict=True)),
        ]
        return [at for at in place if at is not None], (static, sizes, [1] * len(shape))
