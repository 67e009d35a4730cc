"""Define the gradient rules of operators that only move elements.

In the rules, ``dy`` is the gradient of the loss with respect to the operator's result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.broadcasting import sum_to
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph, Node

Gradients = Sequence[Value | None]


def reshape(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the result's gradient, reshaped to the input's shape.

    This is the rule of Reshape, Flatten, Squeeze and Unsqueeze.
    """
    (dy,) = dys
    assert dy is not None
    return [g.reshape(dy, *node.operand(0).shape)]


def expand(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Expand's input.

    The gradient is that of the result, summed over the dimensions along which Expand broadcasts.
    """
    (dy,) = dys
    assert dy is not None
    return [sum_to(g, dy, node.operand(0).shape)]


def transpose(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Transpose's input: ``dy`` with the inverse permutation of axes."""
    (dy,) = dys
    rank = len(node.operand(0).shape)
    order = node.integers("perm", range(rank)[::-1])
    return [g.op("Transpose", dy, perm=[order.index(axis) for axis in range(rank)])]


def concat(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradients of Concat's inputs: slices of ``dy`` along the axis of the Concat."""
    (dy,) = dys
    axis = node.integer("axis", 0)
    sizes = [value.shape[axis] for value in node.inputs if value is not None]
    if len(sizes) == 1:
        return [dy]
    return g.ops("Split", dy, g.integers(*sizes), num_outputs=len(sizes), axis=axis)


def split(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Split's input: the outputs' gradients, concatenated.

    An output on which the loss does not depend contributes zeros.
    """
    like = next(dy for dy in dys if dy is not None)
    parts = [
        g.zeros(part.shape, like) if dy is None else dy
        for dy, part in zip(dys, node.outputs, strict=True)
    ]
    return [g.op("Concat", *parts, axis=node.integer("axis", 0))]


def slice_(g: ExtendedGraph, node: Node, dys: Gradients) -> Gradients:
    """Return the gradient of Slice's input: ``dy``, padded with zeros to the input's shape.

    Along an axis with a step other than 1, ``dy`` is scattered into zeros instead.
    """
    (dy,) = dys
    assert dy is not None
    x = node.operand(0)
    begins, ends = [0] * len(x.shape), [0] * len(x.shape)
    stepped: list[tuple[int, range]] = []
    for axis, taken in _ranges(g, node):
        if taken.step == 1:
            begins[axis], ends[axis] = taken.start, x.shape[axis] - taken.start - len(taken)
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
        ModelError: if the starts or ends are not constant.
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
    """Return the gradient of Gather's data, and None for the indices.

    The gradient of the data is a tensor of zeros, to which the slices of ``dy`` are added at the
    indices from which Gather read them.
    """
    (dy,) = dys
    assert dy is not None
    data, indices = node.operand(0), node.operand(1)
    axis = node.integer("axis", 0) % len(data.shape)
    return [add_rows(g, dy, indices, axis, data.shape[axis]), None]


def add_rows(g: ExtendedGraph, dy: Value, indices: Value, axis: int, size: int) -> Value:
    """Add the slices of ``dy`` to a tensor of zeros, each at its index; return the sum.

    This is the adjoint of Gather: if Gather copied slice ``indices[i]`` of its data, the slice
    ``i`` of ``dy`` is added to slice ``indices[i]`` of the returned tensor.

    Args:
        g: the graph, to which nodes are added.
        dy: gradient of Gather's result. It has the axes of ``indices`` in place of axis ``axis``
            of the returned tensor.
        indices: index of each slice along ``axis`` of the returned tensor. Slices with equal
            indices are summed.
        axis: the axis of the returned tensor that replaces the axes of ``indices``.
        size: size of the returned tensor along ``axis``.
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
    """Return the gradient of GatherElements' data, and None for the indices.

    The gradient of the data is a tensor of zeros, to which each element of ``dy`` is added at the
    position from which GatherElements read it. If GatherElements reads one element of each row, as
    in a loss, a comparison of the index with all positions of the row replaces this scatter.
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
