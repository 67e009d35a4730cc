"""Builds scattering: updates replace elements of a tensor, or are combined with them.

If the indices are constant or the updates few, a parallel loop over the result finds the update of
each element. Otherwise a sequential loop over the updates writes them. Negative indices count from
the end; indices out of range, which ONNX leaves undefined, write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from rammer_mlir.bindings import arith, ir, scf, tensor
from rammer_mlir.frontends.onnx.builders.indexing import from_front, here
from rammer_mlir.frontends.onnx.builders.node import Builder, Node
from rammer_mlir.frontends.onnx.builders.structured import fetch, structured
from rammer_mlir.frontends.onnx.builders.values import Tensor, constant, empty, full
from rammer_mlir.frontends.onnx.builders.views import reshape
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.passes.ir.scalar import (
    BOOL,
    INT64,
    DType,
    Scalar,
    highest,
    index_value,
    literal,
    lowest,
)

_LARGEST_SEARCH = 1 << 22
"""Largest number of index comparisons with which elements search for their updates."""

Combine = Callable[[Scalar, Scalar], Scalar]


def _sum(x: Scalar, y: Scalar) -> Scalar:
    return x + y


def _product(x: Scalar, y: Scalar) -> Scalar:
    return x * y


def _zero(_dtype: DType) -> float:
    return 0


def _one(_dtype: DType) -> float:
    return 1


_REDUCTIONS: dict[str, tuple[Combine, Callable[[DType], float]]] = {
    "add": (_sum, _zero),
    "mul": (_product, _one),
    "max": (Scalar.maximum, lowest),
    "min": (Scalar.minimum, highest),
}
"""The combining function and its neutral element, by the attribute ``reduction``."""


@dataclass(frozen=True)
class _Scatter:
    """A scatter of updates into data, in terms that fit both ScatterElements and ScatterND.

    An update of ScatterElements targets an element of the data. An update of ScatterND targets a
    slice: the data at one index tuple of its first dimensions.

    Attributes:
        x: the data.
        updates: for ScatterND, a tensor ``[count, *rest]`` with a slice for each update; for
            ScatterElements, a tensor in the shape of the indices.
        searched: shape of an array with an entry for each possible target. For ScatterND, these are
            the extents of the indexed dimensions of the data; for ScatterElements, this is the
            shape of the indices with the data's extent along the axis.
        count: count of updates that may target the same element.
        hits: emits, in the body of a loop nest, whether an update targets an element. The innermost
            loop is the update's index, below ``count``. The outer loops are the element's indices:
            they range over the shape ``searched``, or over the whole data if the node has a
            reduction.
        update_at: maps an element's indices, and the index (below ``count``) of an update of that
            element, to the indices of the new element in ``updates``.
        place_at: maps indices in ``updates`` to the indices of the target element in the data.
    """

    x: Tensor
    updates: Tensor
    searched: Sequence[int]
    count: int
    hits: Callable[[], Scalar]
    update_at: Callable[[list[Scalar], Scalar], list[Scalar]]
    place_at: Callable[[list[Scalar]], list[Scalar]]


def _scatter(scatter: _Scatter, reduction: str, found: Array | None) -> Tensor:
    """Emit the data with the updates scattered into it.

    ``reduction`` is "none" or a key of ``_REDUCTIONS``. ``found`` is None if an index is not
    constant or is out of range. Otherwise it is an array of the shape ``scatter.searched``: for
    each element, the index of the last update that targets the element, or -1 if no update does.
    """
    if not scatter.updates.size:
        return scatter.x
    # Without a reduction only an element's last update counts; constant indices determine it.
    if reduction == "none" and found is not None:
        return _replaced(scatter, constant(found))
    work = prod(scatter.searched if reduction == "none" else scatter.x.shape) * scatter.count
    if work > _LARGEST_SEARCH:
        return _one_by_one(scatter, None if reduction == "none" else _REDUCTIONS[reduction][0])
    if reduction == "none":
        return _replaced(scatter, _last_hits(scatter))
    return _combined(scatter, reduction)


def _last_hits(scatter: _Scatter) -> Tensor:
    """Emit, for each element, the index of the last update that targets it; -1 for no update.

    The result is a tensor of the shape ``scatter.searched``. The emitted loops compare each element
    with all updates.
    """
    rank = len(scatter.searched)
    start = full(scatter.searched, -1, INT64)

    def last(previous: Scalar) -> Scalar:
        return scatter.hits().select(here(rank), previous)

    return structured([*scatter.searched, scatter.count], 1, [], (start, range(rank)), last)


def _replaced(scatter: _Scatter, found: Tensor) -> Tensor:
    x = scatter.x
    loops = range(x.rank)
    beyond = [i for i in range(found.rank) if found.shape[i] < x.shape[i]]

    def choose(old: Scalar, *number: Scalar) -> Scalar:
        place = [here(i) for i in loops]
        inside = literal(1, BOOL)
        for i in beyond:
            inside = inside & place[i].compare("lt", found.shape[i])
            # Clamp the index, because select evaluates both operands.
            place[i] = place[i].minimum(found.shape[i] - 1)
        chosen = number[0] if number else fetch(found, place[: found.rank])
        hit = inside & chosen.compare("ge", 0)
        return hit.select(fetch(scatter.updates, scatter.update_at(place, chosen.maximum(0))), old)

    reads = [(x, loops)]
    # A table that covers the data is an operand; otherwise the body fetches its elements.
    if not beyond:
        reads.append((found, range(found.rank)))
    return structured(x.shape, 0, reads, (empty(x.shape, x.dtype), loops), choose)


def _combined(scatter: _Scatter, reduction: str) -> Tensor:
    x = scatter.x
    combine, neutral = _REDUCTIONS[reduction]
    loops = range(x.rank)
    limits = scatter.searched

    def gather_up(total: Scalar) -> Scalar:
        place = [here(i) for i in loops]
        hit = literal(1, BOOL)
        for i, limit in enumerate(limits):
            hit = hit & place[i].compare("lt", limit)
            place[i] = place[i].minimum(limit - 1)
        number = here(x.rank)
        value = fetch(scatter.updates, scatter.update_at(place, number))
        return (hit & scatter.hits()).select(combine(total, value), total)

    start = full(x.shape, neutral(x.dtype), x.dtype)
    total = structured([*x.shape, scatter.count], 1, [], (start, loops), gather_up)
    out = (empty(x.shape, x.dtype), loops)
    return structured(x.shape, 0, [(x, loops), (total, loops)], out, combine)


def _one_by_one(scatter: _Scatter, combine: Combine | None) -> Tensor:
    """Emit the data after writing the updates sequentially, in loops.

    ``combine`` computes a new element from the old element and the update; None replaces the
    element by the update.
    """

    def nest(value: ir.Value, outer: list[Scalar]) -> ir.Value:
        if len(outer) == scatter.updates.rank:
            return _written(scatter, value, outer, combine)
        zero, one, end = (
            arith.ConstantOp(ir.IndexType.get(), bound).result
            for bound in (0, 1, scatter.updates.shape[len(outer)])
        )
        loop = scf.ForOp(zero, end, one, [value])
        with ir.InsertionPoint(loop.body):
            inner = nest(loop.inner_iter_args[0], [*outer, index_value(loop.induction_variable)])
            scf.YieldOp([inner])
        return loop.results[0]

    return Tensor(nest(scatter.x.value, []), scatter.x.dtype)


def _written(
    scatter: _Scatter, value: ir.Value, update: list[Scalar], combine: Combine | None
) -> ir.Value:
    place: list[Scalar] = []
    inside = literal(1, BOOL)
    for index, size in zip(scatter.place_at(update), scatter.x.shape, strict=True):
        # Clamp and compare, so that out-of-range updates rewrite an old element.
        limited = index.clamp(0, size - 1)
        inside = inside & index.compare("eq", limited)
        place.append(limited)
    old = fetch(Tensor(value, scatter.x.dtype), place)
    new = fetch(scatter.updates, update)
    if combine is not None:
        new = combine(old, new)
    chosen = inside.select(new, old)
    return tensor.InsertOp(chosen.value, value, [index.index() for index in place]).result


def _scatter_elements(node: Node) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    axis = node.axis("axis", 0, x.rank)
    searched = list(indices.shape)
    searched[axis] = x.shape[axis]

    def at(place: Sequence[Scalar], number: Scalar) -> list[Scalar]:
        return [*place[:axis], number, *place[axis + 1 :]]

    def limited(i: int) -> Scalar:
        return here(i).minimum(indices.shape[i] - 1) if indices.shape[i] < x.shape[i] else here(i)

    def hits() -> Scalar:
        place = at([limited(i) for i in range(x.rank)], here(x.rank))
        return from_front(fetch(indices, place), x.shape[axis]).compare("eq", here(axis))

    def place_at(update: list[Scalar]) -> list[Scalar]:
        return at(update, from_front(fetch(indices, update), x.shape[axis]))

    scatter = _Scatter(x, updates, searched, indices.shape[axis], hits, at, place_at)
    known = node.constant(1)
    found = None if known is None else _known_elements(known, searched, axis)
    return _scatter(scatter, node.attribute("reduction", "none"), found)


def _known_elements(indices: Array, searched: Sequence[int], axis: int) -> Array | None:
    """Return, for each element of ScatterElements' data, the last update that targets it.

    The result has the update's index along ``axis`` of the updates, or -1 if no update targets the
    element. Returns None if an index is out of range.

    Args:
        indices: constant indices along ``axis`` of the data.
        searched: the shape of the returned array: that of ``indices``, but with the data's extent
            along ``axis``.
        axis: the axis of the scatter.
    """
    size = searched[axis]
    places = indices.astype(np.int64)
    if ((places < -size) | (places >= size)).any():
        return None
    found = np.full(searched, -1, np.int64)
    for number in range(indices.shape[axis]):
        row = np.take(places, [number], axis)
        np.put_along_axis(found, np.where(row < 0, row + size, row), number, axis)
    return found


def _scatter_nd(node: Node) -> Tensor:
    x, indices, updates = node.tensor(0), node.tensor(1), node.tensor(2)
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    places = reshape(indices, (count, depth))
    values = reshape(updates, (count, *x.shape[depth:]))

    def index(number: Scalar, j: int) -> Scalar:
        return from_front(fetch(places, [number, literal(j, INT64)]), x.shape[j])

    def hits_at(number: Scalar) -> Scalar:
        same = [index(number, j).compare("eq", here(j)) for j in range(depth)]
        return reduce(Scalar.__and__, same, literal(1, BOOL))

    def update_at(place: list[Scalar], number: Scalar) -> list[Scalar]:
        return [number, *place[depth:]]

    def place_at(update: list[Scalar]) -> list[Scalar]:
        return [*(index(update[0], j) for j in range(depth)), *update[1:]]

    reduction = node.attribute("reduction", "none")
    searched = x.shape[:depth]
    last = depth if reduction == "none" else x.rank
    scatter = _Scatter(x, values, searched, count, lambda: hits_at(here(last)), update_at, place_at)
    known = node.constant(1)
    found = None if known is None else _known_places(known.reshape(count, depth), searched)
    return _scatter(scatter, reduction, found)


def _known_places(places: Array, searched: Sequence[int]) -> Array | None:
    """Return, for each element or slice of ScatterND's data, the last update that targets it.

    The result has the update's row in ``places``, or -1 if no update targets the element.
    ``places`` has a row for each update: the index tuple of its target. ``searched``, the shape of
    the result, has the extents of the indexed dimensions. Returns None if an index is out of range.
    """
    sizes = np.array(searched, np.int64)
    wide = places.astype(np.int64)
    if ((wide < -sizes) | (wide >= sizes)).any():
        return None
    found = np.full(searched, -1, np.int64)
    for number, place in enumerate(np.where(wide < 0, wide + sizes, wide)):
        found[tuple(place)] = number
    return found


def _tensor_scatter(node: Node) -> Tensor:
    """Emit TensorScatter: a copy of a cache into which an update is written.

    The optional input 2 has, for each index of dimension 0 (the batch), the index along the
    attribute ``axis`` at which the update begins; 0 if omitted. In mode ``circular``, the update
    continues at index 0 after the end of the cache.
    """
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
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
}
