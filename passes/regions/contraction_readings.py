"""Recognizes contractions: matrix products and convolutions, in any operand layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured, plain_dim
from rammer_mlir.passes.regions.expressions import Expression, Input, apply, body_expression
from rammer_mlir.passes.regions.reading import Attribute, Reading
from rammer_mlir.passes.regions.reductions import starts_at
from rammer_mlir.passes.regions.weights import Weights, operand_of
from rammer_mlir.passes.regions.windows import (
    Axis,
    axis_of,
    layout_of,
    source_image,
    spatial_letters,
    window_attributes,
)


def _sum_of(widen: str) -> Expression:
    """Return the body expression ``widen(x0) * widen(x1) + x2`` of a contraction.

    ``widen`` is the name of the function that casts both factors; empty for no cast.
    """
    first, second = (apply(widen, Input(n)) if widen else Input(n) for n in range(2))
    return apply("add", apply("mul", first, second), Input(2))


_PRODUCTS = (_sum_of(""), _sum_of("cast_i32"), _sum_of("cast_f32"))
"""Body expressions of contractions: in one type, of integers summed in i32, of halves in f32."""


@dataclass(frozen=True)
class _Roles:
    """The loops of a contraction by their roles, each list in the order of the indexing maps.

    Attributes:
        both: parallel loops that index both inputs: batches or groups.
        left, right: parallel loops that index only the first or only the second input.
        summed: reduction loops, except those over windows.
    """

    both: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    summed: tuple[int, ...]


def read_contraction(op: Structured, weights: Weights) -> Reading | None:
    """Recognize a matrix product or convolution; return its description, None if it is neither.

    The sums have to start at zero. ``weights`` count as constants.
    """
    if len(op.inputs) != 2 or op.num_outputs != 1 or body_expression(op) not in _PRODUCTS:
        return None
    if not starts_at(op, 0.0):
        return None
    return _read_product(op, weights) or _read_convolution(op, weights)


def _read_product(op: Structured, weights: Weights) -> Reading | None:
    """Recognize a matrix product, also batched, and return its description; None for others.

    Batch dimensions have to be the leading dimensions of all operands.
    """
    dims = [op.operand_dims(number) for number in range(3)]
    left, right, out = dims
    if left is None or right is None or out is None:
        return None
    roles = _roles(op, ())
    if not len(roles.left) == len(roles.right) == len(roles.summed) == 1:
        return None
    batch = list(roles.both)
    m, n, k = roles.left[0], roles.right[0], roles.summed[0]
    if out != [*batch, m, n] or sorted(left[-2:]) != sorted((m, k)):
        return None
    if sorted(right[-2:]) != sorted((n, k)) or not left[:-2] == right[:-2] == batch:
        return None
    attributes: dict[str, Attribute] = {
        "transpose_a": left[-2:] == [k, m],
        "transpose_b": right[-2:] == [n, k],
    }
    kind = "batch_matmul" if batch else "matmul"
    return _reading(op, kind, op.inputs[0], attributes, (), weights)


def _reading(
    op: Structured,
    kind: str,
    first: ir.Value,
    attributes: dict[str, Attribute],
    before: tuple[ir.Operation, ...],
    weights: Weights,
) -> Reading:
    operation = op.op.operation
    return Reading(
        kind,
        (operand_of(first, weights), operand_of(op.inputs[1], weights)),
        operand_of(operation.results[0], weights),
        attributes,
        (*before, operation),
        op.points,
    )


def _roles(op: Structured, axes: Sequence[Axis]) -> _Roles:
    windows = {axis.window for axis in axes}
    first, second = (set(loops) for loops in op.used_loops[:2])
    order = dict.fromkeys(
        loop
        for map_ in (op.maps[2], op.maps[0])
        for expr in map_.results
        if (loop := plain_dim(expr)) is not None
    )

    def chosen(*, parallel: bool, left: bool, right: bool) -> tuple[int, ...]:
        return tuple(
            loop
            for loop in order
            if op.parallel[loop] == parallel
            and (loop in first, loop in second) == (left, right)
            and loop not in windows
        )

    return _Roles(
        both=chosen(parallel=True, left=True, right=True),
        left=chosen(parallel=True, left=True, right=False),
        right=chosen(parallel=True, left=False, right=True),
        summed=chosen(parallel=False, left=True, right=True),
    )


def _read_convolution(op: Structured, weights: Weights) -> Reading | None:
    """Recognize a convolution and return its description; None for any other contraction.

    The image is the first input, and its first dimension is the batch.
    """
    found = _axes(op)
    if found is None:
        return None
    batch, axes = found
    letters = _letters(op, batch, axes)
    if letters is None:
        return None
    groups, names = letters
    layouts = [layout_of(op.maps[number], names[number], axes) for number in range(3)]
    image, kernel, out = layouts
    if image is None or kernel is None or out is None:
        return None
    source = source_image(op.inputs[0], image, 0.0)
    attributes: dict[str, Attribute] = {
        **window_attributes(op, axes),
        "pads": source.pads,
        "groups": groups,
        "layout": source.layout,
        "weight_layout": kernel,
        "output_layout": out,
    }
    is_depthwise = groups > 1 and "C" not in kernel
    kind = f"{'depthwise_' if is_depthwise else ''}conv{len(axes)}d"
    return _reading(op, kind, source.value, attributes, source.operations, weights)


def _axes(op: Structured) -> tuple[int, list[Axis]] | None:
    """Return the index of a convolution's batch loop, and the spatial axes.

    The axes are in the order of the image's dimensions. Return None if the contraction is no
    convolution.
    """
    image, kernel = op.maps[0], set(op.used_loops[1])
    batch = plain_dim(image.results[0]) if len(image.results) else None
    if batch is None or batch in kernel or not op.parallel[batch]:
        return None
    axes: list[Axis] = []
    for expr in list(image.results)[1:]:
        loop = plain_dim(expr)
        if loop is not None and (not op.parallel[loop] or loop in kernel):
            continue
        axis = axis_of(expr, op.parallel)
        if axis is None or axis.loop in kernel or axis.loop not in op.used_loops[2]:
            return None
        axes.append(axis)
    windows = [axis.window for axis in axes if axis.window is not None]
    loops = [axis.loop for axis in axes]
    distinct = len({*windows, *loops}) == len(windows) + len(loops)
    return (batch, axes) if axes and distinct and set(windows) <= kernel else None


def _letters(
    op: Structured, batch: int, axes: Sequence[Axis]
) -> tuple[int, list[dict[int, str]]] | None:
    """Return the number of groups of a convolution, and the layout letters of its loops.

    The second result has, for each operand, a map from loop index to letter, for the loops that
    index the operand. Letters are those of layouts such as NCHW. Return None if the loops are not
    those of a convolution.

    Args:
        op: the contraction.
        batch: the index of the batch loop.
        axes: the spatial axes.
    """
    roles = _roles(op, axes)
    spatial = spatial_letters(axes)
    others = set(roles.left) - {batch, *(axis.loop for axis in axes)}
    if others or not spatial or max(map(len, (roles.both, roles.right, roles.summed))) > 2:
        return None
    shared = {batch: "N", **spatial}
    groups, channels, filters = roles.both, roles.summed, roles.right
    extent = 1
    for loop in groups:
        extent *= op.extents[loop]
    lettered = [
        {**shared, **_named(groups, "G" if channels else "C"), **_named(channels, "C")},
        {**shared, **_named(groups, "G"), **_named(channels, "C"), **_named(filters, "F")},
        {**shared, **_named(groups, "G" if filters else "F"), **_named(filters, "F")},
    ]
    used = {batch, *spatial, *groups, *channels, *filters}
    return (extent, lettered) if used == set(range(len(op.parallel))) else None


def _named(loops: Sequence[int], letter: str) -> dict[int, str]:
    """Return a map from loop index to layout letter for the one or two loops over a dimension.

    A second loop runs within blocks of the dimension and gets the lower-case letter, as in NCHWc.
    """
    return dict(zip(loops, (letter, letter.lower()), strict=False))
