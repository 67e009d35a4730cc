"""Gathering and scattering by computed indices.

Indices count from the end where they are negative. Those out of range are limited to it when
reading, and write nothing: ONNX leaves them undefined, and no memory but the tensor's is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from rammer_mlir.bindings import linalg
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.scalar import (
    INT64,
    DType,
    Scalar,
    highest,
    index_value,
    literal,
    lowest,
)
from rammer_mlir.frontends.onnx.builders.structured import (
    Expr,
    Tensor,
    constant,
    empty,
    fetch,
    full,
    part,
    reshape,
    structured,
)


def here(number: int) -> Scalar:
    """Return the index of a loop inside a body."""
    return index_value(linalg.IndexOp(number).result)


def from_front(index: Scalar, size: int) -> Scalar:
    """Count an index from the front, as int64."""
    wide = index.cast(INT64)
    return wide.compare("lt", 0).select(wide + size, wide)


def in_range(index: Scalar, size: int) -> Scalar:
    """Count an index from the front, limited to where there are elements."""
    return from_front(index, size).clamp(0, size - 1)


def gather(node: Node) -> Tensor:
    """Build Gather: whole slices along an axis."""
    x = node.tensor(0)
    axis = node.axis("axis", 0, x.rank)
    indices = node.fact(1)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if indices.value is not None:
        run = _consecutive(indices.value, x.shape[axis])
        if run is not None:
            return reshape(_rows(x, axis, run, indices.value.size), shape)
    return take(x, node.tensor(1), axis)


def _consecutive(
    indices: np.ndarray[tuple[int, ...], np.dtype[np.generic]], size: int
) -> int | None:
    """Return the first of neighbouring indices in ascending order, None if they are not such."""
    flat = [int(i) + size if i < 0 else int(i) for i in indices.reshape(-1)]
    if not flat or flat != list(range(flat[0], flat[0] + len(flat))):
        return None
    return flat[0] if 0 <= flat[0] and flat[-1] < size else None


def _rows(x: Tensor, axis: int, start: int, count: int) -> Tensor:
    starts, sizes = [0] * x.rank, list(x.shape)
    starts[axis], sizes[axis] = start, count
    return part(x, starts, sizes)


def take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Return the slices of ``x`` along an axis that ``indices`` of any rank name."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    inner = range(axis, axis + indices.rank)
    loops = [*range(axis), *range(axis + indices.rank, len(shape))]

    def body(index: Scalar) -> Scalar:
        place = [here(number) for number in loops]
        place.insert(axis, in_range(index, x.shape[axis]))
        return fetch(x, place)

    out = (empty(shape, x.dtype), range(len(shape)))
    return structured(shape, 0, [(indices, inner)], out, body)


def _gather_elements(node: Node) -> Tensor:
    x, indices = node.tensor(0), node.tensor(1)
    axis = node.axis("axis", 0, x.rank)
    shape = indices.shape
    loops = range(len(shape))

    def body(index: Scalar) -> Scalar:
        place = [
            in_range(index, x.shape[axis]) if number == axis else here(number) for number in loops
        ]
        return fetch(x, place)

    return structured(shape, 0, [(indices, loops)], (empty(shape, x.dtype), loops), body)


def _gather_nd(node: Node) -> Tensor:
    x, indices = node.tensor(0), node.tensor(1)
    batch = node.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    lead = indices.rank - 1
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def body() -> Scalar:
        first = [here(number) for number in range(lead)]
        place = first[:batch]
        for j in range(depth):
            index = fetch(indices, [*first, literal(j, INT64)])
            place.append(in_range(index, x.shape[batch + j]))
        place += [here(number) for number in range(lead, len(shape))]
        return fetch(x, place)

    return structured(shape, 0, [], (empty(shape, x.dtype), range(len(shape))), body)


def _compress(node: Node) -> Tensor:
    condition = node.constant(1)
    if condition is None:
        raise node.unsupported("its condition must be constant: it decides the result's shape")
    x = node.tensor(0)
    if "axis" in node.attributes:
        axis = node.axis("axis", 0, x.rank)
    else:
        x, axis = reshape(x, (x.size,)), 0
    return take(x, constant(np.flatnonzero(condition.reshape(-1))), axis)


Combine = Callable[[Scalar, Scalar], Scalar]

_REDUCTIONS: dict[str, tuple[Combine, Callable[[DType], float]]] = {
    "add": (lambda x, y: x + y, lambda _: 0),
    "mul": (lambda x, y: x * y, lambda _: 1),
    "max": (lambda x, y: x.maximum(y), lowest),
    "min": (lambda x, y: x.minimum(y), highest),
}
"""How updates of the same element combine, and what changes nothing."""


def scatter(
    x: Tensor,
    domain: Sequence[int],
    updates: tuple[Tensor, Sequence[Expr]],
    hits: Callable[[], Scalar],
    reduction: str,
) -> Tensor:
    """Combine each element with the updates that name it, in their order.

    Each element searches all updates for its own, so that elements stay independent of another.

    Args:
        x: data.
        domain: extents of the loops: the dimensions of the data, then one over the updates.
        updates: the new values and their index expressions.
        hits: whether the update of the current loops names the current element.
        reduction: ONNX's name: "none" replaces.
    """
    rank = x.rank
    values, exprs = updates
    if reduction != "none":
        combine, neutral = _REDUCTIONS[reduction]

        def gather_up(value: Scalar, total: Scalar) -> Scalar:
            return hits().select(combine(total, value), total)

        start = full(x.shape, neutral(x.dtype), x.dtype)
        total = structured(domain, 1, [(values, exprs)], (start, range(rank)), gather_up)
        return _combine(x, total, combine)

    def last(previous: Scalar) -> Scalar:
        return hits().select(here(rank), previous)

    start = full(x.shape, -1, INT64)
    found = structured(domain, 1, [], (start, range(rank)), last)

    def choose(old: Scalar, number: Scalar) -> Scalar:
        place = [number.maximum(0) if expr == rank else here(_loop(expr)) for expr in exprs]
        return number.compare("ge", 0).select(fetch(values, place), old)

    loops = range(rank)
    out = (empty(x.shape, x.dtype), loops)
    return structured(x.shape, 0, [(x, loops), (found, loops)], out, choose)


def _loop(expr: Expr) -> int:
    assert isinstance(expr, int)
    return expr


def _combine(x: Tensor, total: Tensor, combine: Combine) -> Tensor:
    loops = range(x.rank)
    out = (empty(x.shape, x.dtype), loops)
    return structured(x.shape, 0, [(x, loops), (total, loops)], out, combine)


def _scatter_elements(node: Node) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    axis = node.axis("axis", 0, x.rank)
    box = [x.shape[i] if i == axis else indices.shape[i] for i in range(x.rank)]
    inside = part(x, [0] * x.rank, box)
    exprs = [x.rank if i == axis else i for i in range(x.rank)]

    def hits() -> Scalar:
        place = [here(_loop(expr)) for expr in exprs]
        return from_front(fetch(indices, place), x.shape[axis]).compare("eq", here(axis))

    reduction = node.attribute("reduction", "none")
    result = scatter(inside, [*box, indices.shape[axis]], (updates, exprs), hits, reduction)
    return _put_back(x, result)


def _put_back(x: Tensor, corner: Tensor) -> Tensor:
    """Return ``x`` with its low corner replaced."""
    if corner.shape == x.shape:
        return corner
    loops = range(x.rank)

    def body(old: Scalar) -> Scalar:
        inside: Scalar | None = None
        place: list[Scalar] = []
        for i in loops:
            place.append(here(i).minimum(corner.shape[i] - 1))
            if corner.shape[i] < x.shape[i]:
                fits = here(i).compare("lt", corner.shape[i])
                inside = fits if inside is None else inside & fits
        assert inside is not None
        return inside.select(fetch(corner, place), old)

    return structured(x.shape, 0, [(x, loops)], (empty(x.shape, x.dtype), loops), body)


def _scatter_nd(node: Node) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    places = reshape(indices, (count, depth))
    values = reshape(updates, (count, *x.shape[depth:]))
    exprs = [x.rank, *range(depth, x.rank)]

    def hits() -> Scalar:
        equal: Scalar | None = None
        for j in range(depth):
            index = from_front(fetch(places, [here(x.rank), literal(j, INT64)]), x.shape[j])
            same = index.compare("eq", here(j))
            equal = same if equal is None else equal & same
        return literal(1, np.dtype(np.bool_)) if equal is None else equal

    reduction = node.attribute("reduction", "none")
    return scatter(x, [*x.shape, count], (values, exprs), hits, reduction)


def _tensor_scatter(node: Node) -> Tensor:
    """Build TensorScatter: the sequence dimension of a cache is written from an index on."""
    x, update = node.tensor(0), node.tensor(1)
    axis = node.axis("axis", -2, x.rank)
    starts = node.tensor(2) if node.has(2) else None
    circular = node.attribute("mode", "linear") == "circular"
    size, count = x.shape[axis], update.shape[axis]
    loops = range(x.rank)

    def body(old: Scalar) -> Scalar:
        offset = here(axis)
        if starts is not None:
            offset = offset - fetch(starts, [here(0)]).cast(INT64)
        if circular:
            rest = offset.remainder(size)
            offset = rest.compare("lt", 0).select(rest + size, rest)
        inside = offset.compare("ge", 0) & offset.compare("lt", count)
        place = [offset.clamp(0, count - 1) if i == axis else here(i) for i in loops]
        return inside.select(fetch(update, place), old)

    return structured(x.shape, 0, [(x, loops)], (empty(x.shape, x.dtype), loops), body)


BUILDERS: dict[str, Builder] = {
    "Compress": _compress,
    "Gather": gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
}
