"""Generators of random nodes that gather, scatter, sort or accumulate elements.

Each adds a node to a random graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.graph import RandomGraph, Value
from tests.fuzz.operators.shaping import ANY, axis_of


def indices(graph: RandomGraph, shape: tuple[int, ...], size: int) -> Value:
    """Return a value of the given shape with random indices, negative ones among them.

    They index a dimension of ``size`` elements. The value is a constant or an input of the graph.
    """
    kind = graph.random.choice(("int64", "int64", "int32"))
    if graph.random.random() < 0.5:
        return graph.input(shape, kind, f"i{size}")
    return graph.weight(shape, kind, f"i{size}")


def gathered(graph: RandomGraph) -> None:
    """Add Gather: slices at random indices of an axis."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    axis = axis_of(graph, len(x.shape))
    shape = graph.shape(graph.random.choice((0, 1, 1, 2)), 32)
    graph.node("Gather", [x, indices(graph, shape, x.shape[axis])], axis=axis)


def gathered_elements(graph: RandomGraph) -> None:
    """Add GatherElements: single elements at random indices along an axis."""
    x = graph.tensor((1, 2, 3), ANY)
    axis = axis_of(graph, len(x.shape))
    shape = [graph.random.randrange(1, size + 1) if size else 0 for size in x.shape]
    shape[axis] = graph.random.choice((1, 2, 5))
    graph.node("GatherElements", [x, indices(graph, tuple(shape), x.shape[axis])], axis=axis)


def _places(graph: RandomGraph, x: Value, depth: int, batch: tuple[int, ...]) -> Value:
    """Return a constant of random index tuples, as the indices of GatherND and ScatterND.

    Its shape is [*batch, depth]: each tuple along the last axis has one index, possibly negative,
    for each of the first ``depth`` dimensions of ``x``.
    """
    generator = np.random.default_rng(graph.random.randrange(1 << 30))
    columns = [generator.integers(-size, size, batch) for size in x.shape[:depth]]
    return graph.constant(np.stack(columns, -1).astype(np.int64))


def gathered_nd(graph: RandomGraph) -> None:
    """Add GatherND: slices at random indices of several dimensions."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    depth = graph.random.randrange(1, len(x.shape) + 1)
    batch = graph.shape(graph.random.choice((0, 1, 2)), 16)
    graph.node("GatherND", [x, _places(graph, x, depth, batch)])


def scattered_elements(graph: RandomGraph) -> None:
    """Add ScatterElements, which updates distinct elements along an axis.

    A reduction may combine the updates with the old elements.
    """
    x = graph.tensor((1, 2, 3), "ffi")
    axis = axis_of(graph, len(x.shape))
    shape = [graph.random.randrange(1, size + 1) if size else 0 for size in x.shape]
    size = x.shape[axis]
    shape[axis] = graph.random.randrange(1, max(2, size))
    reduction = graph.random.choice(("none", "add", "max", "mul"))
    extra: dict[str, Any] = (
        {} if reduction == "none" or graph.opset < 18 else {"reduction": reduction}
    )
    order = graph.random.sample(range(size), min(size, shape[axis])) or [0]
    column = np.array(order * shape[axis], np.int64)[: shape[axis]]
    places = np.broadcast_to(
        np.moveaxis(column.reshape(-1, *[1] * (len(shape) - 1)), 0, axis), shape
    )
    updates = graph.weight(shape, x.dtype)
    graph.node("ScatterElements", [x, graph.constant(places.copy()), updates], axis=axis, **extra)


def scattered_nd(graph: RandomGraph) -> None:
    """Add ScatterND: it overwrites distinct slices with updates, or adds the updates to them."""
    x = graph.tensor((1, 2, 3), "ffi")
    depth = graph.random.randrange(1, len(x.shape) + 1)
    count = int(np.prod(x.shape[:depth]))
    chosen = graph.random.sample(range(count), graph.random.randrange(min(count, 6) + 1))
    places = np.stack(np.unravel_index(np.array(chosen, np.int64), x.shape[:depth]), -1)
    updates = graph.weight((len(chosen), *x.shape[depth:]), x.dtype)
    extra: dict[str, Any] = (
        {"reduction": "add"} if graph.opset >= 16 and graph.random.random() < 0.4 else {}
    )
    graph.node("ScatterND", [x, graph.constant(places.astype(np.int64)), updates], **extra)


def encoded(graph: RandomGraph) -> None:
    """Add OneHot of random indices."""
    depth = graph.random.choice((1, 3, 5))
    places = indices(graph, graph.shape(graph.random.choice((0, 1, 2)), 64), depth)
    values = graph.constant(np.array([graph.random.choice((0, -1)), 2], np.float32))
    axis = axis_of(graph, len(places.shape) + 1)
    graph.node("OneHot", [places, graph.integers(depth), values], axis=axis)


def extreme_places(graph: RandomGraph) -> None:
    """Add ArgMax or ArgMin of numbers without rounding errors, so that the result is certain."""
    x = graph.tensor((1, 2, 3, 4), "ffi", exact=True)
    extra: dict[str, Any] = (
        {"select_last_index": 1} if graph.opset >= 12 and graph.random.random() < 0.3 else {}
    )
    name = graph.random.choice(("ArgMax", "ArgMin"))
    keepdims = graph.random.randrange(2)
    graph.node(name, [x], axis=axis_of(graph, len(x.shape)), keepdims=keepdims, **extra)


def top(graph: RandomGraph) -> None:
    """Add TopK of numbers that have no rounding errors, so that their order is certain."""
    x = graph.tensor((1, 2, 3), "ffi", exact=True)
    axis = axis_of(graph, len(x.shape))
    k = graph.random.randrange(min(x.shape[axis], 8) + 1)
    extra: dict[str, Any] = {"largest": graph.random.randrange(2)} if graph.opset >= 11 else {}
    if graph.opset < 10:
        graph.node("TopK", [x], 2, axis=axis, k=k)
    else:
        graph.node("TopK", [x, graph.integers([k])], 2, axis=axis, **extra)


def accumulated(graph: RandomGraph) -> None:
    """Add CumSum along an axis."""
    x = graph.tensor((1, 2, 3), "ffi")
    axis = graph.integers(axis_of(graph, len(x.shape)))
    graph.node("CumSum", [x, axis], exclusive=graph.random.randrange(2),
               reverse=graph.random.randrange(2))  # fmt: skip


def compressed(graph: RandomGraph) -> None:
    """Add Compress: slices that a constant of booleans selects."""
    x = graph.tensor((1, 2, 3), "ffi")
    axis = axis_of(graph, len(x.shape))
    chosen = [graph.random.random() < 0.5 for _ in range(x.shape[axis])]
    graph.node("Compress", [x, graph.constant(np.array(chosen, np.bool_))], axis=axis)


OPERATORS = (
    gathered, gathered, gathered_elements, gathered_nd, scattered_elements, scattered_nd, encoded,
    extreme_places, top, accumulated, compressed,
)  # fmt: skip
