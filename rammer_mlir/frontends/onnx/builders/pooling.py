"""Builds pooling: reductions over sliding windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from rammer_mlir.bindings import linalg, math
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.normalization import computing_type
from rammer_mlir.frontends.onnx.builders.reductions import (
    REDUCTIONS,
    Reduction,
    apply_reduction,
    is_extremum,
)
from rammer_mlir.frontends.onnx.builders.structured import (
    Operand,
    loop,
    pointwise,
    structured,
)
from rammer_mlir.frontends.onnx.builders.values import (
    Expr,
    Tensor,
    constant,
    full,
)
from rammer_mlir.frontends.onnx.builders.views import (
    pad,
)
from rammer_mlir.frontends.onnx.builders.windows import Window, window_of
from rammer_mlir.passes.ir.scalar import (
    F32,
    F64,
    INT64,
    DType,
    Scalar,
    index_value,
    is_float,
    literal,
    lowest,
)


@dataclass(frozen=True)
class _Pool:
    """The data of a pooling node, its sliding window, and the spatial extents of its result.

    Attributes:
        x: the data ``[N, C, *]``, not padded.
        window: kernel, strides, dilations and padding.
        space: spatial extents of the result.
    """

    x: Tensor
    window: Window
    space: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.space)

    @property
    def domain(self) -> list[int]:
        """Return the extents of the loops over batch, channels, windows and kernel taps.

        The order is ``[N, C, *space, *kernel]``.
        """
        return [*self.x.shape[:2], *self.space, *self.window.kernel]

    @property
    def exprs(self) -> list[Expr]:
        """Return the index expression of each dimension of the padded data.

        The variables of the expressions are the loops of ``domain``.
        """
        return [0, 1, *(self.position(i) for i in range(self.rank))]

    def position(self, axis: int) -> Expr:
        """Return the index of a window's tap along spatial dimension ``axis`` of the padded data.

        The index is an expression in the loops of ``domain`` over windows and taps of this
        dimension.
        """
        step, inner = self.window.strides[axis], loop(2 + self.rank + axis)
        return loop(2 + axis) * step + inner * self.window.dilations[axis]

    def padded(self, value: float) -> Tensor:
        """Emit the data, padded with ``value`` up to the end of the last window."""
        window = self.window
        needed = [
            (count - 1) * stride + extent
            for count, stride, extent in zip(
                self.space, window.strides, window.extents, strict=True
            )
        ]
        high = [
            max(total - low - size, 0)
            for total, low, size in zip(needed, window.low, self.x.shape[2:], strict=True)
        ]
        return pad(self.x, (0, 0, *window.low), (0, 0, *high), value)

    def reduce(self, x: Tensor, kind: Reduction, dtype: DType) -> Tensor:
        """Emit the reduction ``kind`` of the padded data ``x`` within each window.

        The reduction is computed in ``dtype``, which is also the element type of the result.
        """
        out = full([*self.x.shape[:2], *self.space], kind.initial(dtype), dtype)

        def body(value: Scalar, total: Scalar) -> Scalar:
            return kind.combine(total, kind.contribution(value.cast(dtype)))

        target = (out, range(2 + self.rank))
        return structured(self.domain, self.rank, [(x, self.exprs)], target, body)


def _pool(node: Node) -> _Pool:
    x = node.tensor(0)
    window = window_of(node, x.shape[2:], node.attribute("kernel_shape"))
    result = next(fact for fact in node.outputs if fact is not None)
    return _Pool(x, window, result.shape[2:])


def _max_pool(node: Node) -> list[Tensor | None]:
    pool = _pool(node)
    padded = pool.padded(lowest(pool.x.dtype))
    largest = pool.reduce(padded, REDUCTIONS["Max"], pool.x.dtype)
    if not node.uses(1):
        return [largest]
    return [largest, _positions(pool, padded, largest, bool(node.attribute("storage_order", 0)))]


def _positions(pool: _Pool, padded: Tensor, largest: Tensor, by_column: bool) -> Tensor:
    """Emit the position of each window's maximum in the flattened data (MaxPool's second result).

    If several elements of a window equal its maximum, the least of their positions is returned. An
    element of the padding may equal the maximum, but its position is never returned.

    Args:
        pool: the data without padding, and the window.
        padded: the padded data.
        largest: the maximum of each window.
        by_column: whether positions count with the first spatial dimension as the fastest one; else
            the last spatial dimension is the fastest.
    """
    space = pool.x.shape[2:]
    order = list(reversed(range(pool.rank))) if by_column else list(range(pool.rank))

    def body(value: Scalar, best: Scalar, first: Scalar) -> Scalar:
        places = [
            index_value(linalg.IndexOp(2 + axis).result) * pool.window.strides[axis]
            + index_value(linalg.IndexOp(2 + pool.rank + axis).result) * pool.window.dilations[axis]
            - pool.window.low[axis]
            for axis in range(pool.rank)
        ]
        batch, channel = (index_value(linalg.IndexOp(i).result) for i in (0, 1))
        flat = batch * pool.x.shape[1] + channel
        for axis in order:
            flat = flat * space[axis] + places[axis]
        found = is_extremum(value, best)
        # The padding may equal the maximum, but is not a position in the data.
        for place, size in zip(places, space, strict=True):
            found = found & place.compare("ge", 0) & place.compare("lt", size)
        return first.minimum(found.select(flat, literal(_FAR, INT64)))

    out = full(largest.shape, _FAR, INT64)
    lead: list[Expr] = list(range(2 + pool.rank))
    inputs = [(padded, pool.exprs), (largest, lead)]
    return structured(pool.domain, pool.rank, inputs, (out, lead), body)


_FAR = int(np.iinfo(np.int64).max)
"""A number that is greater than any position."""


def _average_pool(node: Node) -> Tensor:
    pool = _pool(node)
    kind = F64 if pool.x.dtype == F64 else F32 if is_float(pool.x.dtype) else pool.x.dtype
    total = pool.reduce(pool.padded(0), REDUCTIONS["Sum"], kind)
    border = bool(node.attribute("count_include_pad", 0))
    operands: list[Operand] = []
    common = 1.0
    for axis in range(pool.rank):
        counts = _counts(pool, axis, border)
        # Equal counts of all windows are folded into one division by a literal.
        if len(set(counts)) == 1:
            common *= counts[0]
        else:
            operands.append((constant(np.array(counts).astype(kind)), [2 + axis]))

    def body(total: Scalar, *counts: Scalar) -> Scalar:
        divisor: Scalar | float = common
        for count in counts:  # a product takes less time than another division
            divisor = count * divisor if divisor != 1 else count
        return (total if divisor == 1 else total / divisor).cast(pool.x.dtype)

    return pointwise(body, total, *operands, dtype=pool.x.dtype, shape=total.shape)


def _counts(pool: _Pool, axis: int, border: bool) -> list[int]:
    """Return, for each window along spatial dimension ``axis``, how many data elements it covers.

    If ``border``, elements of the padding count as data. A window without elements counts as 1, so
    that its mean is 0 instead of a division by zero.
    """
    window, size = pool.window, pool.x.shape[2 + axis]
    low, high = window.low[axis], window.high[axis]
    inside = range(-low, size + high) if border else range(size)
    return [
        max(
            sum(
                first * window.strides[axis] + tap * window.dilations[axis] - low in inside
                for tap in range(window.kernel[axis])
            ),
            1,
        )
        for first in range(pool.space[axis])
    ]


def _power_norm(order: int) -> Reduction:
    """Return the reduction that computes the p-norm ``sum(abs(x) ** p) ** (1 / p)``.

    ``order`` is p.
    """
    if order in (1, 2):
        return REDUCTIONS[f"L{order}"]
    return Reduction(
        lambda x, y: x + y,
        lambda _dtype: 0,
        lambda x: x.apply(math.AbsFOp).power(float(order)),
        lambda total, _count: total.power(1 / order),
    )


def _lp_pool(node: Node) -> Tensor:
    pool = _pool(node)
    kind = _power_norm(node.attribute("p", 2))
    wide = computing_type(pool.x.dtype)
    total = pool.reduce(pool.padded(0), kind, wide)
    return pointwise(lambda v: kind.finish(v, 1).cast(pool.x.dtype), total, dtype=pool.x.dtype)


def _global_pool(kind: Reduction, node: Node) -> Tensor:
    x = node.tensor(0)
    return apply_reduction(kind, x, list(range(2, x.rank))).keepdims(x.rank)


def _global_lp_pool(node: Node) -> Tensor:
    return _global_pool(_power_norm(node.attribute("p", 2)), node)


def _local_response_normalization(node: Node) -> Tensor:
    """Emit LRN: divide elements by ``(bias + alpha / size * squares) ** beta``.

    ``squares`` is the sum of the squares of ``size`` neighboring channels at the same position.
    The other names are attributes of ONNX's operator.
    """
    x, size = node.tensor(0), node.attribute("size")
    alpha, beta = node.attribute("alpha", 1e-4), node.attribute("beta", 0.75)
    bias, wide = node.attribute("bias", 1.0), computing_type(x.dtype)
    rest = [0] * (x.rank - 2)
    # ONNX puts the additional channel of an even size after the center.
    padded = pad(x, [0, (size - 1) // 2, *rest], [0, size // 2, *rest], 0)
    exprs: list[Expr] = [0, loop(1) + loop(x.rank), *range(2, x.rank)]
    squares = structured(
        [*x.shape, size],
        1,
        [(padded, exprs)],
        (full(x.shape, 0, wide), range(x.rank)),
        lambda v, total: total + v.cast(wide) * v.cast(wide),
    )

    def scaled(v: Scalar, total: Scalar) -> Scalar:
        factor = _negative_power(total * (alpha / size) + bias, beta)
        return (v.cast(wide) * factor).cast(x.dtype)

    return pointwise(scaled, x, squares, dtype=x.dtype)


def _negative_power(x: Scalar, exponent: float) -> Scalar:
    """Emit ``x ** -exponent`` of a positive number; the exponent 3/4 needs only square roots."""
    if exponent == 0.75:
        root = x.apply(math.RsqrtOp)
        return root * root.apply(math.SqrtOp)
    return x.power(-exponent)


BUILDERS: dict[str, Builder] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": partial(_global_pool, REDUCTIONS["Mean"]),
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": partial(_global_pool, REDUCTIONS["Max"]),
    "LRN": _local_response_normalization,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
}
"""Builders of pooling and of other operators across channels, by operator."""
