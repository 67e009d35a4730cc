"""Define the gradient rules of operators that only move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.broadcasting import sum_to
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]


def reshape(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a reshape's input: the result's gradient in the input's shape.

    This is the rule of Reshape, Flatten, Squeeze and Unsqueeze.
    """
    (dy,) = dys
    assert dy is not None
    return [g.reshape(dy, *node.operand(0).shape)]


def expand(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Expand's input.

    It is the result's gradient, summed over the dimensions along which Expand broadcast the input.
    """
    (dy,) = dys
    assert dy is not None
    return [sum_to(g, dy, node.operand(0).shape)]


def transpose(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a Transpose's input: the result's gradient, transposed back."""
    (dy,) = dys
    rank = len(node.operand(0).shape)
    order = node.integers("perm", range(rank)[::-1])
    return [g.op("Transpose", dy, perm=[order.index(axis) for axis in range(rank)])]


def concat(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of a Concat's inputs: the parts of the result's gradient."""
    (dy,) = dys
    axis = node.integer("axis", 0)
    sizes = [value.shape[axis] for value in node.inputs if value is not None]
    if len(sizes) == 1:
        return [dy]
    return g.ops("Split", dy, g.integers(*sizes), num_outputs=len(sizes), axis=axis)


def split(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a Split's input: the outputs' gradients, concatenated.

    Outputs that the loss does not depend on contribute zeros.
    """
    like = next(dy for dy in dys if dy is not None)
    parts = [
        g.zeros(part.shape, like) if dy is None else dy
        for dy, part in zip(dys, node.outputs, strict=True)
    ]
    return [g.op("Concat", *parts, axis=node.integer("axis", 0))]


def slice_(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of a Slice's input: the result's gradient, padded with zeros.

    Along axes with a step other than 1, the gradient is scattered into zeros.
    """
    (dy,) = dys
    assert dy is not None
    x = node.operand(0)
    begins, ends = [0] * len(x.shape), [0] * len(x.shape)
    stepped: list[tuple[int, range]] = []
    for axis, taken in _ranges(g, node):
        if taken.step == 1:
            begins[axis], ends[axis] = taken.start, x.shape[axis] - taken.stop
        else:
            stepped.append((axis, taken))
    for axis, taken in stepped:
        indices = g.constant(np.array(taken, np.int64), "indices")
        dy = add_rows(g, dy, indices, axis, x.shape[axis])
    if any(begins + ends):
        dy = g.op("Pad", dy, g.integers(*begins, *ends))
    return [dy]


def _ranges(g: ExtendedGraph, node: Node) -> list[tuple[int, range]]:
    """Return a pair for each sliced axis: the axis, and the range of indices that the Slice reads.

    Raises:
        ModelError: if the starts or ends are computed at run time.
    """
    shape = node.operand(0).shape
    given = [g.contents(value) if value else None for value in node.inputs[1:]]
    if None in (given[0], given[1]):
        raise node.refuse("constant starts and ends", "computed ones")
    starts, ends = given[0] or [], given[1] or []
    axes = (given[2] if len(given) > 2 else None) or [*range(len(starts))]
    steps = (given[3] if len(given) > 3 else None) or [1] * len(starts)
    found: list[tuple[int, range]] = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = shape[axis]
        found.append((axis % len(shape), range(*slice(start, end, step).indices(size))))
    return found


def gather(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Gather's data: slices of the result's gradient, added into zeros.

    Each slice is added at the index from which Gather has read it. The indices have no
    gradient.
    """
    (dy,) = dys
    assert dy is not None
    data, indices = node.operand(0), node.operand(1)
    axis = node.integer("axis", 0) % len(data.shape)
    return [add_rows(g, dy, indices, axis, data.shape[axis]), None]


def add_rows(g: ExtendedGraph, dy: Value, indices: Value, axis: int, size: int) -> Value:
    """Add the slices of ``dy`` into zeros at ``indices`` along an axis: the adjoint of Gather.

    The axes of ``dy`` from ``axis`` on are those of ``indices``; the result has a single axis of
    ``size`` in their place. Slices at equal indices are summed.
    """
    read = len(indices.shape)
    order = [*range(axis, axis + read), *range(axis), *range(axis + read, len(dy.shape))]
    rows = dy if order == sorted(order) else g.op("Transpose", dy, perm=order)
    rest = rows.shape[read:]
    column = g.op("Unsqueeze", indices, g.integers(-1))
    zeros = g.zeros([size, *rest], dy)
    summed = g.op("ScatterND", zeros, column, rows, reduction="add")
    back = [*range(1, axis + 1), 0, *range(axis + 1, len(rest) + 1)]
    return summed if back == sorted(back) else g.op("Transpose", summed, perm=back)


def gather_elements(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of GatherElements' data: the result's gradient, added into zeros.

    Each element is added at the position from which GatherElements has read it. If GatherElements
    has read a single element of each row, as in a loss, no scatter is needed: the index is compared
    with all positions of the row.
    """
    (dy,) = dys
    assert dy is not None
    data, indices = node.operand(0), node.operand(1)
    axis = node.integer("axis", 0) % len(data.shape)
    one_each = [*data.shape[:axis], 1, *data.shape[axis + 1 :]]
    if list(indices.shape) != one_each:
        zeros = g.zeros(data.shape, dy)
        return [g.op("ScatterElements", zeros, indices, dy, axis=axis, reduction="add"), None]
    size = data.shape[axis]
    positions = np.arange(size).reshape([-1, *[1] * (len(data.shape) - axis - 1)])
    places = g.constant(positions.astype(g.dtype(indices).name), "positions")
    wrapped = g.op("Add", indices, g.constant(np.array(size, g.dtype(indices).name), "size"))
    negative = g.op("Less", indices, g.constant(np.array(0, g.dtype(indices).name), "zero"))
    chosen = g.op("Equal", g.op("Where", negative, wrapped, indices), places)
    return [g.op("Where", chosen, dy, g.scalar(0, dy)), None]
