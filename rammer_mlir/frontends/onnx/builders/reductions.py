"""Builds reductions along axes: sums, norms, extrema and their positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from rammer_mlir.bindings import math
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.products import converted
from rammer_mlir.frontends.onnx.builders.structured import (
    Reduced,
    indexed,
    pointwise,
    reduce,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
)
from rammer_mlir.passes.ir.scalar import (
    F32,
    F64,
    INT64,
    DType,
    Scalar,
    highest,
    is_float,
    literal,
    lowest,
)

Function = Callable[[Scalar], Scalar]


@dataclass(frozen=True)
class Reduction:
    """A reduction along axes, as functions that emit scalar operations.

    ``contribution`` maps each element, ``combine`` combines the mapped element with the
    accumulator, ``initial`` returns the accumulator's initial value, and ``finish`` maps the final
    accumulator and the number of elements to the result. ``exact`` tells whether the result is one
    of the elements, as for the maximum.
    """

    combine: Callable[[Scalar, Scalar], Scalar]
    initial: Callable[[DType], float]
    contribution: Function = lambda x: x
    finish: Callable[[Scalar, int], Scalar] = lambda total, _count: total
    exact: bool = False
    """Whether the result is one of the elements, so that a wider dtype is unnecessary."""


def _zero(_dtype: DType) -> float:
    return 0


def _one(_dtype: DType) -> float:
    return 1


def _add(x: Scalar, y: Scalar) -> Scalar:
    return x + y


def absolute(x: Scalar) -> Scalar:
    """Emit the absolute value; an unsigned ``x`` is returned as it is."""
    if is_float(x.dtype):
        return x.apply(math.AbsFOp)
    return x.apply(math.AbsIOp) if x.dtype.kind == "i" else x


def _root(total: Scalar, _count: int) -> Scalar:
    if is_float(total.dtype):
        return total.apply(math.SqrtOp)
    return total.cast(F64).apply(math.SqrtOp).cast(total.dtype)


def _logarithm(total: Scalar, _count: int) -> Scalar:
    if is_float(total.dtype):
        return total.apply(math.LogOp)
    return total.cast(F64).apply(math.LogOp).cast(total.dtype)


REDUCTIONS = {
    "L1": Reduction(_add, _zero, absolute),
    "L2": Reduction(_add, _zero, lambda x: x * x, _root),
    "LogSum": Reduction(_add, _zero, finish=_logarithm),
    "Max": Reduction(lambda x, y: x.maximum(y), lowest, exact=True),
    "Mean": Reduction(_add, _zero, finish=lambda total, count: total / count),
    "Min": Reduction(lambda x, y: x.minimum(y), highest, exact=True),
    "Prod": Reduction(lambda x, y: x * y, _one),
    "Sum": Reduction(_add, _zero),
    "SumSquare": Reduction(_add, _zero, lambda x: x * x),
}
"""Reductions by the suffix of the operator's name, as in ``ReduceL1``."""


def apply_reduction(kind: Reduction, x: Tensor, axes: list[int]) -> Reduced:
    """Emit the reduction ``kind`` of ``x`` along ``axes``; return it in the dtype of ``x``.

    16-bit floats are accumulated in f32, unless the result is one of the elements
    (``kind.exact``).
    """
    wide = x.dtype if kind.exact or not is_float(x.dtype) or x.dtype == F64 else F32
    count = prod(x.shape[axis] for axis in axes)
    reduced = reduce(
        lambda x, total: kind.combine(total, kind.contribution(x.cast(wide))),
        x,
        axes,
        kind.initial(wide),
        wide,
    )
    return reduced.map(lambda total: kind.finish(total, count).cast(x.dtype), x.dtype)


def axes_of(node: Node, rank: int) -> list[int] | None:
    """Return the axes that a node reduces, in ascending order; None if it reduces no axis.

    Axes are in the range 0 to ``rank - 1``, where ``rank`` is that of the node's input.
    """
    given = node.integers(1, "axes")
    if given:
        return sorted({axis % rank for axis in given})
    return None if node.attribute("noop_with_empty_axes", 0) else list(range(rank))


def finish(node: Node, reduced: Reduced, rank: int) -> Tensor:
    """Return ``reduced`` in the shape of the result of ``node``.

    If the node's attribute ``keepdims`` is set, the reduced dimensions are kept with size 1.
    ``rank`` is the rank of the tensor before the reduction.
    """
    return reduced.keepdims(rank) if node.attribute("keepdims", 1) else reduced.tensor


def _reduction(kind: Reduction, node: Node) -> Tensor:
    x = node.tensor(0)
    axes = axes_of(node, x.rank)
    if axes is None:
        # Nothing is combined, but prologue and epilogue still apply to each element.
        return pointwise(lambda x: kind.finish(kind.contribution(x), 1), x)
    return finish(node, apply_reduction(kind, x, axes), x.rank)


def _log_sum_exp(node: Node) -> Tensor:
    """Emit ReduceLogSumExp; the maximum is subtracted first to avoid overflow."""
    x = node.tensor(0)
    axes = axes_of(node, x.rank)
    if axes is None:
        return x
    if not x.size:
        return finish(node, apply_reduction(REDUCTIONS["LogSum"], x, axes), x.rank)
    wide = computing_type(x.dtype)
    top = apply_reduction(REDUCTIONS["Max"], x, axes)
    if is_float(x.dtype):
        top = top.map(_finite_or_zero)
    powers = pointwise(
        lambda x, m: (x.cast(wide) - m.cast(wide)).apply(math.ExpOp), x, top, dtype=wide
    )
    total = apply_reduction(REDUCTIONS["Sum"], powers, axes)
    result = pointwise(
        lambda s, m: (s.apply(math.LogOp) + m.cast(wide)).cast(x.dtype),
        total.tensor,
        top.tensor,
        dtype=x.dtype,
    )
    return finish(node, Reduced(result, total.dims), x.rank)


def _finite_or_zero(x: Scalar) -> Scalar:
    """Emit ``x`` if it is finite, else 0.

    The result can be subtracted from an infinity without producing NaN.
    """
    finite = x.apply(math.AbsFOp).compare("lt", float("inf"))
    return finite.select(x, literal(0, x.dtype))


def _position_of_extremum(largest: bool, node: Node) -> Tensor:
    """Emit ArgMax if ``largest``, else ArgMin; return the int64 positions."""
    x = node.tensor(0)
    axis = node.axis("axis", 0, x.rank)
    last = bool(node.attribute("select_last_index", 0))
    return finish(node, _position(x, axis, largest, last), x.rank)


def _position(x: Tensor, axis: int, largest: bool, last: bool) -> Reduced:
    """Emit the int64 position of the extremum of ``x`` along an axis.

    The extremum is the maximum if ``largest``, else the minimum. If several elements equal the
    extremum, the first of their positions is returned, or the last if ``last``. Two reductions are
    emitted: the first finds the extremum, the second its position.
    """
    extremum = apply_reduction(REDUCTIONS["Max" if largest else "Min"], x, [axis])
    length = x.shape[axis]

    def matching(x: Scalar, best: Scalar, position: Scalar) -> Scalar:
        return is_extremum(x, best).select(position, literal(-1 if last else length, INT64))

    places = pointwise(
        matching, x, extremum, (_count_up(length), [axis]), dtype=INT64, shape=x.shape
    )
    return apply_reduction(REDUCTIONS["Max" if last else "Min"], places, [axis])


def is_extremum(x: Scalar, best: Scalar) -> Scalar:
    """Emit whether ``x`` equals ``best``, the maximum or minimum of ``x`` and other scalars.

    The result is also true if ``x`` is NaN, since ``best`` is then NaN.
    """
    same = x.compare("eq", best)
    return same | x.compare("ne", x) if is_float(x.dtype) else same


def _count_up(length: int) -> Tensor:
    """Emit an int64 vector of the integers from 0 to ``length - 1``."""
    return indexed([length], INT64, lambda indices: indices[0])


def _hardmax(node: Node) -> Tensor:
    """Emit Hardmax: 1 at the first position of the maximum along an axis, 0 elsewhere."""
    x = node.tensor(0)
    axis = node.axis("axis", -1, x.rank)
    first = _position(x, axis, largest=True, last=False)
    return pointwise(
        lambda place, chosen: place.compare("eq", chosen).cast(x.dtype),
        (_count_up(x.shape[axis]), [axis]),
        first,
        dtype=x.dtype,
        shape=x.shape,
    )


def _lp_normalization(node: Node) -> Tensor:
    """Emit LpNormalization: elements divided by the norm along an axis; 0 where the norm is 0."""
    x = node.tensor(0)
    axis = node.axis("axis", -1, x.rank)
    kind = REDUCTIONS[f"L{node.attribute('p', 2)}"]

    wide = computing_type(x.dtype)  # the norm of numbers of f16 may exceed their range

    def divide(v: Scalar, norm: Scalar) -> Scalar:
        zero = literal(0, wide)
        return norm.compare("eq", zero).select(zero, v.cast(wide) / norm).cast(x.dtype)

    norm = apply_reduction(kind, converted(x, wide), [axis])
    return pointwise(divide, x, norm, dtype=x.dtype)


BUILDERS: dict[str, Builder] = {
    **{f"Reduce{name}": partial(_reduction, kind) for name, kind in REDUCTIONS.items()},
    "ArgMax": partial(_position_of_extremum, True),
    "ArgMin": partial(_position_of_extremum, False),
    "Hardmax": _hardmax,
    "LpNormalization": _lp_normalization,
    "ReduceLogSumExp": _log_sum_exp,
}
"""Builders by operator name."""
