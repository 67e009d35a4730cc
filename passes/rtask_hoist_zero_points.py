"""`rtask-hoist-zero-points`: subtracts zero points from sums of byte products, not from factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rammer_mlir.bindings import arith, ir, tensor
from rammer_mlir.passes.base import Form, Pass
from rammer_mlir.passes.contractions.zero_points import (
    ByteDifferences,
    ByteFactor,
    Scale,
    Zero,
    find_byte_differences,
)
from rammer_mlir.passes.ir.boxes import loops_in
from rammer_mlir.passes.ir.constant_pad import find_constant_pad, strips_of, surrounded
from rammer_mlir.passes.ir.elementwise import (
    Operand,
    elementwise,
    filled,
    full,
    projection,
    scalar,
    whole,
)
from rammer_mlir.passes.ir.entry import entry_block
from rammer_mlir.passes.ir.generics import generic, splat
from rammer_mlir.passes.ir.structured import Structured, is_generic, plain_dim, shape_of
from rammer_mlir.passes.quantization.elements import viewed
from rammer_mlir.passes.weights.derived import DerivedWeights
from rammer_mlir.passes.weights.folded import fold_views

_FEWEST = 8
"""Minimum number of terms: for fewer terms, the rewrite saves less than it costs."""

_MOST_SCALED = 33_000
"""Maximum number of terms of scaled sums, which must fit in i32: 2^31 / (255 * 255)."""

_SIGN = 128
"""The number that inverting the sign bit adds to a signed byte, or subtracts from an unsigned."""


@dataclass(frozen=True)
class HoistZeroPoints(Pass):
    """Subtract zero points from sums of products of 8-bit integers instead of from each factor.

    sum((a - p) * (w - q)) = sum(a * w) - p * sum(w) - q * (sum(a) - k * p) for sums of k terms
    (gemmlowp; Jacob et al., *Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference*, 2018, section 2.3). The right factor w is a weight; its sums
    are computed at compile time. If the factors are dequantized, their scales are multiplied with
    the sums too, instead of with each factor.

    The new contraction has one unsigned and one signed factor, as dot-product instructions need. If
    both factors are signed or both are unsigned, the sign bit of each element of the left factor is
    inverted. This adds or subtracts 128, and is corrected like a zero point.

    A contraction remains unchanged if its sums have fewer than 8 terms, or if its factors have
    scales and its integer sums have so many terms that they might not fit in an i32.
    """

    name: ClassVar[str] = "rtask-hoist-zero-points"
    takes: ClassVar[Form | None] = Form.TENSORS

    def run(self, module: ir.Module) -> None:
        """Replace contractions of differences ``(a - p) * (w - q)`` by contractions of bytes a, w.

        p and q are zero points; the differences may have scales. The right factor w has to be a
        weight.
        """
        weights = DerivedWeights(module)
        fold_views(entry_block(module), weights)
        for op in list(entry_block(module).operations):
            found = find_byte_differences(Structured(op), weights) if is_generic(op) else None
            if found is None:
                continue
            rewriter = _Rewriter(found, weights)
            if rewriter.is_possible:
                with ir.InsertionPoint(op), op.operation.location:
                    op.operation.results[0].replace_all_uses_with(rewriter.rewritten())
                op.operation.erase()
        weights.finish()


@dataclass(frozen=True)
class _Rewriter:
    """Rewrites a contraction of differences ``(a - p) * (w - q)`` to one of 8-bit integers a, w.

    ``found`` describes the contraction; ``weights`` are those of the entry function, to which
    derived weights are added.
    """

    found: ByteDifferences
    weights: DerivedWeights

    @property
    def is_possible(self) -> bool:
        """Whether the contraction can be rewritten, and has enough terms for the rewrite to pay.

        A zero point or scale must be the same for all terms of a sum. If there are scales, the sums
        must fit in an i32.
        """
        op, left, right = self.found.op, self.left, self.right
        if self._terms < _FEWEST or not set(op.reduction_loops) <= set(self._right_loops):
            return False
        if left.is_padded and left.zero is not None and left.zero.number is None and left.zero.dims:
            return False
        if right.zero is not None:
            # The zero point is multiplied by sums of the left factor over all reduction loops.
            if not set(op.reduction_loops) <= set(op.used_loops[self.found.left]):
                return False
            if not self._is_parallel(right.zero, self._right_loops):
                return False
        if left.scale is not None and right.scale is not None:
            is_scaled = self._is_parallel(left.scale, self._left_loops) and self._is_parallel(
                right.scale, self._right_loops
            )
            if not is_scaled or self._terms > _MOST_SCALED:
                return False
        return left.zero is None or self._is_parallel(left.zero, self._left_loops)

    def _is_parallel(self, zero: Zero | Scale, loops: Sequence[int]) -> bool:
        """Whether a zero point or scale is the same for all terms of each sum of the contraction.

        ``zero`` belongs to a factor of the contraction. ``loops`` has, for each dimension of this
        factor, the index of the loop that indexes the dimension; it is empty if the contraction
        reads the factor in windows.
        """
        return not zero.dims or bool(
            loops and all(self.found.op.parallel[loops[d]] for d in zero.dims)
        )

    @property
    def left(self) -> ByteFactor:
        """The left factor of the contraction, which is not a weight."""
        return self.found.factors[self.found.left]

    @property
    def right(self) -> ByteFactor:
        """The right factor of the contraction, which is a weight."""
        return self.found.factors[self.found.right]

    @property
    def _terms(self) -> int:
        total = 1
        for loop in self.found.op.reduction_loops:
            total *= self.found.op.extents[loop]
        return total

    @property
    def _left_loops(self) -> list[int]:
        """The index of the loop that indexes each dimension of the left factor.

        The list is empty if the contraction reads the left factor in windows.
        """
        return self.found.op.operand_dims(self.found.left) or []

    @property
    def _right_loops(self) -> list[int]:
        """The index of the loop that indexes each dimension of the right factor, the weight."""
        return self.found.op.operand_dims(self.found.right) or []

    def rewritten(self) -> ir.Value:
        """Emit the contraction of 8-bit integers, and correct its sums for zero points and scales.

        Return a value equal to the result of the original contraction.
        """
        right = self.right.value
        for view in self.right.views:
            right = self.weights.reshape(right, shape_of(view.results[0]))
        left = self._left_bytes()
        return self._corrected(self._contracted(left, right), left, right)

    @property
    def _shift(self) -> int:
        """The number that inverting the sign bits subtracts from the left factor's elements.

        It is 128 or -128; 0 if sign bits are not inverted.
        """
        if self.left.is_unsigned != self.right.is_unsigned:
            return 0
        return _SIGN if self.left.is_unsigned else -_SIGN

    def _left_bytes(self) -> ir.Value:
        """Emit the left factor of the new contraction: 8-bit integers, no zero point subtracted.

        If both factors are signed or both are unsigned, the sign bits of the left factor are
        inverted. The left factor's reshapes and paddings are applied. Padding elements equal the
        zero point, since they stand for differences of 0.
        """
        value, zero = self.left.value, self.left.zero
        point = None if zero is None else zero.number
        border = 0 if point is None else point
        if self._shift:
            value = _with_other_sign(value)
            border = border - _SIGN if border >= 0 else border + _SIGN
        for view in self.left.views:
            pad = find_constant_pad(view.opview)
            if pad is None or zero is None or point is not None:
                value = viewed(value, [view], border)
            else:
                number = _with_other_sign(zero.value) if self._shift else zero.value
                strips = [_filled_with(number, shape) for shape in strips_of(pad)]
                value = surrounded(pad, value, strips)
        return value

    def _contracted(self, left: ir.Value, right: ir.Value) -> ir.Value:
        op = self.found.op
        i32 = ir.IntegerType.get_signless(32)
        operands = [left, right] if self.found.left == 0 else [right, left]
        is_unsigned = self.right.is_unsigned != (self.found.left == 0)

        def body(elements: Sequence[ir.Value]) -> ir.Value:
            first = _extended(elements[0], is_unsigned=is_unsigned)
            second = _extended(elements[1], is_unsigned=not is_unsigned)
            return arith.addi(elements[2], arith.muli(first, second))

        start = splat(arith.constant(i32, 0), shape_of(op.op.operation.results[0]))
        return filled(generic(operands, start, op.maps, op.parallel), body)

    def _corrected(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """Emit operations that correct the new contraction's sums for zero points, and scale them.

        ``total`` contains the sums of products, ``left`` and ``right`` the factors of the products.
        Return a value equal to the result of the original contraction.
        """
        shift, i32 = self._shift, ir.IntegerType.get_signless(32)
        first, second = self.left.zero, self.right.zero
        operands = [whole(total)]
        if shift or first is not None:
            operands.append(self._sums_of_weights(right))
        if first is not None:
            operands.append(self._point(first, self._left_loops))
        scales = [
            self._point(factor.scale, loops)
            for factor, loops in ((self.left, self._left_loops), (self.right, self._right_loops))
            if factor.scale is not None
        ]
        if second is not None:
            operands.append(self._point(second, self._right_loops))
            operands.append(self._sums_of_data(left))

        def body(elements: Sequence[ir.Value]) -> ir.Value:
            given = iter(elements)
            result = next(given)
            sums = next(given) if shift or first is not None else None
            point = None if first is None else _extended(next(given), first.is_unsigned)
            if sums is not None:
                factor = arith.constant(i32, shift)
                if point is not None:
                    factor = arith.subi(factor, point)
                result = arith.addi(result, arith.muli(sums, factor))
            if second is not None:
                zero, sums = _extended(next(given), second.is_unsigned), next(given)
                moved = arith.constant(i32, shift)
                if point is not None:
                    moved = arith.subi(moved, point)
                terms = arith.muli(moved, arith.constant(i32, self._terms))
                result = arith.subi(result, arith.muli(zero, arith.addi(sums, terms)))
            if scales:
                factor = arith.mulf(next(given), next(given))
                result = arith.mulf(arith.sitofp(ir.F32Type.get(), result), factor)
            return result

        if len(operands) + len(scales) == 1:
            return total
        kind = ir.F32Type.get() if scales else i32
        return elementwise([*operands, *scales], shape_of(total), kind, body)

    def _point(self, zero: Zero | Scale, loops: Sequence[int]) -> Operand:
        return self._operand(zero.value, [loops[dim] for dim in zero.dims])

    def _operand(self, value: ir.Value, loops: Sequence[int]) -> Operand:
        """Return ``value`` as an operand of an elementwise operation on the contraction's result.

        ``loops`` has, for each dimension of ``value``, the index of the contraction's loop that
        indexes the dimension.
        """
        result = self.found.op.result_dims(0) or []
        return Operand(value, [result.index(loop) for loop in loops])

    def _sums_of_weights(self, right: ir.Value) -> Operand:
        loops, reduced = self._right_loops, self.found.op.reduction_loops
        rest = [loop for loop in loops if loop not in reduced]
        order = [loops.index(loop) for loop in (*reduced, *rest)]
        if order != sorted(order):
            right = self.weights.transpose(right, order)
        if len(reduced) > 1:
            kept = [self.found.op.extents[loop] for loop in rest]
            right = self.weights.reshape(right, [self._terms, *kept])
        sums = self.weights.sum(right, is_unsigned=self.right.is_unsigned)
        return self._operand(sums, rest)

    def _sums_of_data(self, left: ir.Value) -> Operand:
        """Emit the sums of ``left``, the left factor, along the reduction loops.

        Dimensions that a single reduction loop indexes, such as channels, are summed first; the
        results are then summed over the windows. Return the sums as the operand of an elementwise
        operation.
        """
        op = self.found.op
        exprs = list(op.maps[self.found.left].results)
        dims = [plain_dim(expr) for expr in exprs]
        summed = [n for n, loop in enumerate(dims) if loop in op.reduction_loops]
        is_unsigned = not self.right.is_unsigned
        value = _summed_along(left, summed, is_unsigned=is_unsigned)
        rest = [expr for n, expr in enumerate(exprs) if n not in summed]
        loops = sorted({loop for expr in rest for loop in loops_in(expr)})
        taps = [loop for loop in loops if not op.parallel[loop]]
        kept = [loop for loop in loops if op.parallel[loop]]
        plain = [dim for expr in rest if (dim := plain_dim(expr)) is not None]
        if len(plain) == len(rest):
            return self._operand(value, plain)
        return self._operand(self._summed_over_windows(value, rest, kept, taps), kept)

    def _summed_over_windows(
        self,
        value: ir.Value,
        exprs: Sequence[ir.AffineExpr],
        kept: Sequence[int],
        taps: Sequence[int],
    ) -> ir.Value:
        """Emit the sum of the elements of an i32 tensor in each window of the contraction.

        ``exprs`` has, for each dimension of the tensor, the affine expression of the contraction's
        loops that indexes the dimension. ``kept`` are the loops that index the result, one for each
        of its dimensions; ``taps`` are the reduction loops over a window.
        """
        op, order = self.found.op, [*kept, *taps]
        i32 = ir.IntegerType.get_signless(32)
        # Other loops do not occur in the expressions.
        places = [
            ir.AffineExpr.get_dim(order.index(d) if d in order else 0)
            for d in range(len(op.parallel))
        ]
        renumbered = ir.AffineMap.get(len(order), 0, places)
        shape = [op.extents[loop] for loop in kept]
        read = ir.AffineMap.get(len(order), 0, [expr.compose(renumbered) for expr in exprs])
        written = projection(range(len(kept)), len(order))
        if not taps:
            empty = tensor.EmptyOp(shape, i32).result
            copy = generic([value], empty, [read, written], [True] * len(kept))
            return filled(copy, lambda elements: elements[0])
        # Loops over a window need an operand that has its shape.
        window = tensor.EmptyOp([op.extents[loop] for loop in taps], i32).result
        maps = [read, projection(range(len(kept), len(order)), len(order)), written]
        kinds = [*[True] * len(kept), *[False] * len(taps)]
        made = generic([value, window], full(shape, arith.constant(i32, 0)), maps, kinds)
        return filled(made, lambda elements: arith.addi(elements[2], elements[0]))


def _summed_along(value: ir.Value, dims: Sequence[int], *, is_unsigned: bool) -> ir.Value:
    """Emit the sums of a tensor of i8 along the dimensions ``dims``, in i32.

    ``is_unsigned`` tells whether the elements are unsigned.
    """
    shape = shape_of(value)
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    i32 = ir.IntegerType.get_signless(32)
    if not dims:
        return elementwise(
            [whole(value)], shape, i32, lambda e: _extended(e[0], is_unsigned=is_unsigned)
        )
    order = [*kept, *dims]
    start = full([shape[dim] for dim in kept], arith.constant(i32, 0))
    maps = [
        projection([order.index(dim) for dim in range(len(shape))], len(shape)),
        projection(range(len(kept)), len(shape)),
    ]
    made = generic([value], start, maps, [dim in kept for dim in order])
    return filled(made, lambda e: arith.addi(e[1], _extended(e[0], is_unsigned=is_unsigned)))


def _with_other_sign(value: ir.Value) -> ir.Value:
    """Invert the sign bit of each element of a tensor of bytes, which adds or subtracts 128."""
    element = ir.RankedTensorType(value.type).element_type
    bit = arith.constant(element, -_SIGN)
    return elementwise(
        [whole(value)], shape_of(value), element, lambda elements: arith.xori(elements[0], bit)
    )


def _filled_with(number: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Emit a tensor of shape ``shape``, filled with the element of the 0-D tensor ``number``."""
    element = ir.RankedTensorType(number.type).element_type
    return elementwise([scalar(number)], shape, element, lambda elements: elements[0])


def _extended(value: ir.Value, is_unsigned: bool) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    return (arith.extui if is_unsigned else arith.extsi)(i32, value)
