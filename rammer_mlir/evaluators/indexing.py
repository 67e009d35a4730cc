"""Evaluates ONNX operators that gather, scatter, sort and search, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rammer_mlir.evaluators.operation import (
    Evaluator,
    Numbers,
    Operation,
    require,
    single,
)

_FEW = 8
"""If TopK selects less than 1/``_FEW`` of a row, it sorts only elements that may be selected."""

_Places = tuple[Numbers, ...]


def _gather(operation: Operation) -> Numbers:
    return np.take(operation.input(0), operation.input(1), operation.attribute("axis", 0))


def _element_places(operation: Operation) -> _Places:
    """Return one index array per dimension of input 0, for GatherElements or ScatterElements.

    The index array of the dimension ``axis`` (an attribute) is input 1. The index array of any
    other dimension has, for each element of input 1, this element's own index along that dimension.
    """
    x, indices = operation.input(0), operation.input(1)
    places = list(np.indices(indices.shape, sparse=True))
    places[operation.attribute("axis", 0) % x.ndim] = indices
    return tuple(places)


def _gather_elements(operation: Operation) -> Numbers:
    return operation.input(0)[_element_places(operation)]


def _gather_nd(operation: Operation) -> Numbers:
    x, indices = operation.input(0), operation.input(1)
    batch = operation.attribute("batch_dims", 0)
    lead = indices.shape[:-1]
    outer = np.ogrid[tuple(map(slice, lead[:batch]))]
    outer = [g.reshape(*g.shape, *[1] * (len(lead) - batch)) for g in outer]
    return x[(*outer, *np.moveaxis(indices, -1, 0))]


def _written(operation: Operation, places: _Places) -> Numbers:
    """Return a copy of input 0 with the elements of input 2 written at the indices ``places``.

    ``places`` has an index array for each indexed dimension of input 0. If the attribute
    ``reduction`` is none, written elements replace old elements. If ``reduction`` is add, mul, min
    or max, that operation combines an old element with all elements written to its place.
    """
    result, updates = operation.input(0).copy(), operation.input(2)
    reduction = operation.attribute("reduction", b"none").decode()
    if reduction == "none":
        result[places] = updates
        return result
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[reduction]
    combine.at(result, places, updates)
    return result


def _scatter_elements(operation: Operation) -> Numbers:
    return _written(operation, _element_places(operation))


def _scatter_nd(operation: Operation) -> Numbers:
    return _written(operation, tuple(np.moveaxis(operation.input(1), -1, 0)))


def _one_hot(operation: Operation) -> Numbers:
    indices, values = operation.input(0), operation.input(2)
    depth = int(operation.input(1).reshape(-1)[0])
    axis = operation.attribute("axis", -1)
    given = indices.astype(np.int64)
    wrapped = np.where(given < 0, given + depth, given)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    hits = np.expand_dims(wrapped, axis) == np.arange(depth).reshape(shape)
    return np.where(hits, values[1], values[0])


def _compress(operation: Operation) -> Numbers:
    x, chosen = operation.input(0), np.flatnonzero(operation.input(1))
    axis = operation.attribute("axis")
    return np.take(x.reshape(-1), chosen) if axis is None else np.take(x, chosen, axis)


def _non_zero(operation: Operation) -> Numbers:
    x = operation.input(0)
    require(x.ndim > 0)
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


def _order(x: Numbers, axis: int, largest: bool) -> Numbers:
    """Return the indices that sort ``x`` along an axis, descending if ``largest``.

    Equal elements keep the order of their indices. NaN sorts above all numbers, as in compiled
    programs; ONNX Runtime defines no order for NaN.
    """
    if not largest:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backward, axis)


def _top_k(operation: Operation) -> Sequence[Numbers]:
    x, (count,) = operation.input(0), operation.integers(1) or [0]
    axis = operation.attribute("axis", -1)
    require(0 <= count <= x.shape[axis])
    largest = bool(operation.attribute("largest", 1))
    if x.dtype.kind in "fiu" and 0 < count < x.shape[axis] // _FEW and x.size:
        rows = np.moveaxis(x, axis, -1)
        chosen = [_first_of_row(row, count, largest) for row in rows.reshape(-1, x.shape[axis])]
        indices = np.moveaxis(np.reshape(chosen, (*rows.shape[:-1], count)), -1, axis)
    else:
        indices = np.take(_order(x, axis, largest), np.arange(count), axis)
    indices = indices.astype(np.int64)
    return [np.take_along_axis(x, indices, axis), indices]


def _first_of_row(row: Numbers, count: int, largest: bool) -> Numbers:
    """Return the indices of the ``count`` largest or smallest elements of a row, sorted by value.

    For speed, a partition of the row first finds the candidates, and only the candidates are
    sorted.
    """
    last = len(row) - count if largest else count - 1
    bound = np.partition(row, last)[last]
    # Comparisons with NaN are false, so NaN stays a candidate, as it should.
    candidates = np.flatnonzero(~(row < bound) if largest else ~(row > bound))
    return candidates[_order(row[candidates], 0, largest)[:count]]


def _extreme(operation: Operation) -> Numbers:
    """Return the indices of the maxima or minima along the attribute ``axis`` (ArgMax, ArgMin).

    NaN counts as larger than all numbers for ArgMax, and as smaller for ArgMin, as in compiled
    programs.
    """
    x, axis = operation.input(0), operation.attribute("axis", 0)
    find = np.argmax if operation.kind == "ArgMax" else np.argmin
    keep = bool(operation.attribute("keepdims", 1))
    if not operation.attribute("select_last_index", 0):
        return np.asarray(find(x, axis, keepdims=keep), np.int64)
    found = find(np.flip(x, axis), axis, keepdims=keep)
    return np.asarray(x.shape[axis] - 1 - found, np.int64)


def _unique(operation: Operation) -> Sequence[Numbers]:
    axis = operation.attribute("axis")
    values, first, inverse, counts = np.unique(
        operation.input(0), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first))
    if not operation.attribute("sorted", 1):
        order = np.argsort(first, kind="stable")
    place = np.argsort(order)[inverse.reshape(-1)]
    results = [np.take(values, order, axis or 0), first[order], place, counts[order]]
    return [results[0], *(r.astype(np.int64) for r in results[1:])][: operation.num_results]


EVALUATORS: dict[str, Evaluator] = {
    "ArgMax": single(_extreme),
    "ArgMin": single(_extreme),
    "Compress": single(_compress),
    "Gather": single(_gather),
    "GatherElements": single(_gather_elements),
    "GatherND": single(_gather_nd),
    "NonZero": single(_non_zero),
    "OneHot": single(_one_hot),
    "Scatter": single(_scatter_elements),
    "ScatterElements": single(_scatter_elements),
    "ScatterND": single(_scatter_nd),
    "TopK": _top_k,
    "Unique": _unique,
}
"""Evaluators of the operators that index, sort and search, by operator name."""
