"""Generators of random nodes that reshape, cut, join, repeat or make tensors.

Each adds a node to a random graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from tests.fuzz.graph import RandomGraph, Value
from tests.fuzz.oracle import Rejected

ANY = "fffib"


def axes_as(graph: RandomGraph, x: Value, axes: Sequence[int], name: str, since: int = 13,
            **attributes: Any) -> list[Value]:  # fmt: skip
    """Add the operator ``name`` on ``x`` with ``axes``; return the node's results.

    The axes are an attribute before opset ``since``, and an input from that opset on. The node has
    the given further attributes.
    """
    if graph.opset < since:
        return graph.node(name, [x], axes=list(axes), **attributes)
    return graph.node(name, [x, graph.integers(axes)], **attributes)


def axis_of(graph: RandomGraph, rank: int) -> int:
    """Return a random axis of a tensor of rank ``rank``, possibly negative."""
    return graph.random.randrange(-rank, rank)


def _factors(graph: RandomGraph, number: int) -> list[int]:
    found: list[int] = []
    for _ in range(graph.random.randrange(3)):
        divisors = [d for d in range(1, number + 1) if number % d == 0] or [1]
        found.append(graph.random.choice(divisors))
        number //= found[-1]
    return graph.random.sample([*found, number], len(found) + 1)


def reshaped(graph: RandomGraph) -> None:
    """Add Reshape to another shape; a size may be -1 for inferred or 0 for copied."""
    x = graph.tensor(kinds=ANY)
    sizes = _factors(graph, prod(x.shape))
    if prod(x.shape) and graph.random.random() < 0.5:
        sizes[graph.random.randrange(len(sizes))] = -1
    first = x.shape[0] if x.shape else 0
    if first and first == sizes[0] and graph.random.random() < 0.5:
        sizes[0] = 0
    if graph.opset >= 14 and not prod(x.shape):
        graph.node("Reshape", [x, graph.integers(sizes)], allowzero=1)
    else:
        graph.node("Reshape", [x, graph.integers(sizes)])


def flattened(graph: RandomGraph) -> None:
    """Add Flatten, which gives a matrix."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    graph.node("Flatten", [x], axis=graph.random.randrange(-len(x.shape), len(x.shape) + 1))


def transposed(graph: RandomGraph) -> None:
    """Add Transpose with a random permutation."""
    x = graph.tensor((1, 2, 3, 4, 5), ANY)
    rank = len(x.shape)
    if graph.random.random() < 0.2:
        graph.node("Transpose", [x])
    else:
        graph.node("Transpose", [x], perm=graph.random.sample(range(rank), rank))


def squeezed(graph: RandomGraph) -> None:
    """Add Squeeze of some or all dimensions of size 1."""
    x = graph.tensor((1, 2, 3, 4, 5), ANY)
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    axes = graph.random.sample(ones, graph.random.randrange(len(ones) + 1))
    if not axes:
        graph.node("Squeeze", [x])
    else:
        shift = graph.random.choice((0, len(x.shape)))
        axes_as(graph, x, [axis - shift for axis in axes], "Squeeze")


def unsqueezed(graph: RandomGraph) -> None:
    """Add Unsqueeze, which inserts dimensions of size 1."""
    x = graph.tensor((0, 1, 2, 3), ANY)
    count = graph.random.choice((1, 1, 2))
    rank = len(x.shape) + count
    shift = graph.random.choice((0, rank))
    axes_as(graph, x, [a - shift for a in graph.random.sample(range(rank), count)], "Unsqueeze")


def concatenated(graph: RandomGraph) -> None:
    """Add Concat of one to five tensors."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    axis = axis_of(graph, len(x.shape))

    def fits(value: Value) -> bool:
        pairs = zip(value.shape, x.shape, strict=False)
        same = [a == b or i == axis % len(x.shape) for i, (a, b) in enumerate(pairs)]
        return value.dtype == x.dtype and len(value.shape) == len(x.shape) and all(same)

    others = [graph.pick(fits) or x for _ in range(graph.random.choice((0, 1, 1, 2, 3)))]
    if graph.random.random() < 0.3:
        shape = list(x.shape)
        shape[axis] = graph.size()
        others.append(graph.weight(shape, x.dtype))
    graph.node("Concat", graph.random.sample([x, *others], 1 + len(others)), axis=axis)


def split(graph: RandomGraph) -> None:
    """Add Split into parts of equal or of given sizes."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    axis = axis_of(graph, len(x.shape))
    count, length = graph.random.choice((1, 2, 3)), x.shape[axis]
    cuts = sorted(graph.random.randrange(length + 1) for _ in range(count - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, length], strict=True)]
    if length % count == 0 and graph.random.random() < 0.5:
        extra: dict[str, Any] = {"num_outputs": count} if graph.opset >= 18 else {}
        graph.node("Split", [x], count, axis=axis, **extra)
    elif graph.opset < 13:
        graph.node("Split", [x], count, axis=axis, split=sizes)
    else:
        graph.node("Split", [x, graph.integers(sizes)], count, axis=axis)


def _bounds(graph: RandomGraph, size: int) -> tuple[int, int, int]:
    step = graph.random.choice((1, 1, 1, 2, 3, -1, -2))
    low, high = sorted(graph.random.randrange(size + 1) for _ in range(2))
    start, end = (low, high) if step > 0 else (high - 1, low - 1)
    if step < 0 and end < 0:
        end = graph.random.choice((-size - 1, -(2**63) + 1))
    elif graph.random.random() < 0.3:
        start = start - size if start < size else start
    if step > 0 and graph.random.random() < 0.2:
        end = graph.random.choice((2**63 - 1, size + 5))
    return start, end, step


def sliced(graph: RandomGraph) -> None:
    """Add Slice with random bounds and steps, negative ones among them."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    rank = len(x.shape)
    axes = graph.random.sample(range(rank), graph.random.randrange(1, rank + 1))
    bounds = [_bounds(graph, x.shape[axis]) for axis in axes]
    shift = graph.random.choice((0, rank))
    starts, ends, steps = zip(*bounds, strict=True)
    if graph.opset < 10:
        if set(steps) != {1}:
            raise Rejected("there are no steps yet")
        graph.node("Slice", [x], starts=starts, ends=ends, axes=axes)
        return
    operands = [starts, ends, [axis - shift for axis in axes], steps]
    if axes == list(range(len(axes))) and set(steps) == {1}:
        operands = operands[:2]
    graph.node("Slice", [x, *map(graph.integers, operands)])


def padded(graph: RandomGraph) -> None:
    """Add Pad in a random mode; a negative padding cuts elements."""
    x = graph.tensor((1, 2, 3, 4), "ffi")
    rank = len(x.shape)
    mode = graph.random.choice(("constant", "constant", "reflect", "edge"))
    if mode == "constant":
        widths = [graph.random.choice((0, 0, 1, 2, -1, 5)) for _ in range(2 * rank)]
    else:
        widths = [graph.random.randrange(min(3, size + 1)) for size in x.shape * 2]
        widths = [0 if size < 2 else w for size, w in zip(x.shape * 2, widths, strict=True)]
    filling = graph.random.choice((0, 1, -3)) if mode == "constant" else 0
    if graph.opset < 11:
        graph.node("Pad", [x], mode=mode, pads=widths, value=float(filling))
        return
    operands = [x, graph.integers(widths)]
    if filling or (mode == "constant" and graph.random.random() < 0.5):
        operands.append(graph.constant(np.array(filling, x.dtype)))
    graph.node("Pad", operands, mode=mode)


def tiled(graph: RandomGraph) -> None:
    """Add Tile, which repeats a tensor along its axes."""
    x = graph.tensor((1, 2, 3, 4), ANY)
    graph.node("Tile", [x, graph.integers([graph.random.choice((1, 1, 2, 3)) for _ in x.shape])])


def expanded(graph: RandomGraph) -> None:
    """Add Expand, which broadcasts dimensions of size 1."""
    x = graph.tensor((0, 1, 2, 3), ANY)
    shape = [graph.size() if s == 1 and graph.random.random() < 0.6 else s for s in x.shape]
    if graph.random.random() < 0.3:
        shape.insert(0, graph.random.choice((1, 2, 3)))
    elif graph.random.random() < 0.3:
        shape = [1 if graph.random.random() < 0.3 else size for size in shape]
    graph.node("Expand", [x, graph.integers(shape)])


def interleaved(graph: RandomGraph) -> None:
    """Add DepthToSpace or SpaceToDepth."""
    block = graph.random.choice((2, 3))
    n, c, h, w = (graph.random.choice((1, 2, 3)) for _ in range(4))
    if graph.random.random() < 0.5:
        x = graph.input((n, c * block * block, h, w))
        mode = graph.random.choice(("DCR", "CRD"))
        graph.node("DepthToSpace", [x], blocksize=block, mode=mode)
    else:
        graph.node("SpaceToDepth", [graph.input((n, c, h * block, w * block))], blocksize=block)


def triangle(graph: RandomGraph) -> None:
    """Add Trilu: the elements above or below a diagonal."""
    x = graph.tensor((2, 3, 4), "ffib")
    shift = graph.integers(graph.random.randrange(-3, 4))
    graph.node("Trilu", [x, shift] if graph.random.random() < 0.7 else [x],
               upper=graph.random.randrange(2))  # fmt: skip


def made(graph: RandomGraph) -> None:
    """Add a node that makes a tensor, such as ConstantOfShape, Range or Shape."""
    name = graph.random.choice(("ConstantOfShape", "Range", "EyeLike", "Shape", "Size"))
    if name == "ConstantOfShape":
        value = numpy_helper.from_array(np.array([graph.random.choice((0, 1, -2))], np.float32))
        graph.node(name, [graph.integers(graph.shape(graph.random.choice((1, 2, 3))))], value=value)
    elif name == "Range":
        kind = graph.random.choice(("int64", "int32", "float32"))
        bounds = (
            graph.random.randrange(3),
            graph.random.randrange(12),
            graph.random.choice((1, 2)),
        )
        graph.node(name, [graph.constant(np.array(b, kind)) for b in bounds])
    elif name == "EyeLike":
        graph.node(name, [graph.tensor(2, "fi")], k=graph.random.randrange(-2, 3),
                   dtype=helper.np_dtype_to_tensor_dtype(np.dtype("float32")))  # fmt: skip
    else:
        graph.node(name, [graph.tensor(kinds=ANY)])


def cropped(graph: RandomGraph) -> None:
    """Add CenterCropPad, which crops or pads a tensor at both ends of some axes."""
    x = graph.tensor((1, 2, 3), "ff")
    axes = graph.random.sample(range(len(x.shape)), graph.random.randrange(1, len(x.shape) + 1))
    sizes = [max(1, x.shape[axis] + graph.random.randrange(-3, 4)) for axis in axes]
    graph.node("CenterCropPad", [x, graph.integers(sizes)], axes=axes)


def reversed_sequences(graph: RandomGraph) -> None:
    """Add ReverseSequence with a random length for each sequence."""
    x = graph.tensor((2, 3), "ff")
    lengths = [graph.random.randrange(1, max(x.shape[1], 1) + 1) for _ in range(x.shape[0])]
    graph.node("ReverseSequence", [x, graph.integers(lengths)], batch_axis=0, time_axis=1)


OPERATORS = (
    reshaped, reshaped, flattened, transposed, transposed, squeezed, unsqueezed, concatenated,
    concatenated, split, split, sliced, sliced, padded, tiled, expanded, interleaved, triangle,
    made, cropped, reversed_sequences,
)  # fmt: skip
