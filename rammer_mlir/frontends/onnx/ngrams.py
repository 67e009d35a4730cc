"""Expands TfIdfVectorizer on integers to ONNX operators that compare and count n-grams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import Array


def counts_integers(node: onnx.NodeProto) -> bool:
    """Return whether a TfIdfVectorizer node counts n-grams of integers, not of strings."""
    return any(a.name == "pool_int64s" and a.ints for a in node.attribute)


def write_counts(
    node: onnx.NodeProto, shape: Sequence[int], dtype: np.dtype[np.generic], write: NodeWriter
) -> str:
    """Emit the weighted counts of all n-grams in each row of the input; return their name.

    Args:
        node: a TfIdfVectorizer on integers.
        shape: shape of the node's input: ``[items]`` for a single row, or ``[rows, items]``.
        dtype: dtype of the node's input.
        write: collects the new nodes.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    columns: list[str] = []
    places: list[NDArray[np.int64]] = []
    for grams, numbers in _pools(given):
        columns.append(_counted(given, node.input[0], shape, grams.astype(dtype), write))
        places.append(numbers)
    size = max(given["ngram_indexes"]) + 1
    if not columns:
        return write.constant(np.zeros((*shape[:-1], size), np.float32))
    counts = columns[0] if len(columns) == 1 else write.node("Concat", columns, axis=-1)
    # An output may count several n-grams, or none.
    owner = np.zeros((sum(map(len, places)), size), np.float32)
    owner[np.arange(len(owner)), np.concatenate(places)] = 1
    return _weighted(given, write.node("MatMul", [counts, write.constant(owner)]), write)


def _pools(given: Mapping[str, Any]) -> Iterator[tuple[Array, NDArray[np.int64]]]:
    """Yield the n-grams to count, grouped by length.

    ``given`` has the node's attributes by name. A group is a pair: a matrix with an n-gram in each
    row, and, for each n-gram, the column of the node's result that has its count.
    """
    pool, starts = np.array(given["pool_int64s"], np.int64), list(given["ngram_counts"])
    first, outputs = 0, np.array(given["ngram_indexes"], np.int64)
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        grams = pool[start:end].reshape(-1, length)
        if len(grams) and given["min_gram_length"] <= length <= given["max_gram_length"]:
            yield grams, outputs[first : first + len(grams)]
        first += len(grams)


def _counted(
    given: Mapping[str, Any], x: str, shape: Sequence[int], grams: Array, write: NodeWriter
) -> str:
    """Emit the number of occurrences of each n-gram in each row of ``x``; return the result's name.

    An occurrence may skip items of ``x``: the distance in ``x`` between consecutive items of the
    n-gram is the same for all of them, and is at most ``max_skip_count`` + 1.

    Args:
        given: the node's attributes, by name.
        x: name of the input.
        shape: shape of ``x``.
        grams: n-grams of the same length, an n-gram in each row.
        write: collects the new nodes.
    """
    length = grams.shape[1]
    found = write.constant(np.zeros((*shape[:-1], len(grams)), np.float32))
    for step in range(1, given["max_skip_count"] + 2 if length > 1 else 2):
        starts = shape[-1] - (length - 1) * step
        if starts <= 0:
            break
        equal = _matches(x, grams, step, starts, write)
        ones = write.node("Cast", [equal], to=TensorProto.FLOAT)
        total = write.node("ReduceSum", [ones, write.integers(-2)], keepdims=0)
        found = write.node("Add", [found, total])
    return found


def _matches(x: str, grams: Array, step: int, starts: int, write: NodeWriter) -> str:
    """Emit nodes that compute where n-grams occur in ``x``; return the result's name.

    The result is a boolean [..., starts, n-grams]: whether an occurrence of the n-gram starts at
    the position.

    Args:
        x: name of the input.
        grams: n-grams of the same length, an n-gram in each row.
        step: distance in ``x`` between consecutive items of an n-gram.
        starts: count of the positions where an n-gram may start.
        write: collects the new nodes.
    """
    found = ""
    for number, items in enumerate(grams.T):
        part = write.part(x, number * step, number * step + starts, axis=-1)
        wide = write.node("Unsqueeze", [part, write.integers(-1)])
        equal = write.node("Equal", [wide, write.constant(items)])
        found = write.node("And", [found, equal]) if found else equal
    return found


def _weighted(given: Mapping[str, Any], counts: str, write: NodeWriter) -> str:
    mode = given["mode"].decode(errors="replace")
    if mode == "IDF":
        zero = write.constant(np.array(0, np.float32))
        present = write.node("Greater", [counts, zero])
        counts = write.node("Cast", [present], to=TensorProto.FLOAT)
    if mode == "TF" or not given.get("weights"):
        return counts
    weights = np.zeros(max(given["ngram_indexes"]) + 1, np.float32)
    weights[given["ngram_indexes"]] = given["weights"]
    return write.node("Mul", [counts, write.constant(weights)])
