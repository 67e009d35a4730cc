"""Defines rules for nodes that compute sizes, such as Shape, Gather and Mul.

The analysis that decides whether a part's inputs may be padded (``padding.py``) calls these rules.
A rule returns the elements of the node's result: each is a known integer, or a multiple of the size
of an open dimension. It raises DependentRowsError for any other result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rammer_mlir.frontends.onnx.hosting.padded_node import PaddedNode
from rammer_mlir.frontends.onnx.hosting.padded_values import (
    DependentRowsError,
    Dim,
    Padded,
    product,
)

Content = tuple[Dim, ...]


def _shape(node: PaddedNode) -> Content:
    start, end = node.attribute("start", 0), node.attribute("end")
    return node.operand(0).shape[start:end]


def _size(node: PaddedNode) -> Content:
    return (product(node.operand(0).shape),)


def _gather(node: PaddedNode) -> Content:
    values = node.operand(0).elements()
    return tuple(values[number] for number in node.operand(1).integers())


def _slice(node: PaddedNode) -> Content:
    (start,), (end,) = node.operand(1).integers(), node.operand(2).integers()
    steps = node.find(4)
    return node.operand(0).elements()[start : end : steps.integers()[0] if steps else 1]


def _concat(node: PaddedNode) -> Content:
    return tuple(dim for value in node.given() for dim in value.elements())


def _same(node: PaddedNode) -> Content:
    return node.operand(0).elements()


def _elementwise(combine: Callable[[Dim, Dim], Dim]) -> Callable[[PaddedNode], Content]:
    def compute(node: PaddedNode) -> Content:
        one, other = node.operand(0).elements(), node.operand(1).elements()
        size = max(len(one), len(other))
        if not {len(one), len(other)} <= {1, size}:
            raise DependentRowsError
        pairs = zip(one * (size // len(one)), other * (size // len(other)), strict=True)
        return tuple(combine(a, b) for a, b in pairs)

    return compute


def _sum(one: Dim, other: Dim) -> Dim:
    if one == 0 or other == 0:
        return one if other == 0 else other
    if isinstance(one, Padded) and isinstance(other, Padded) and one.symbol == other.symbol:
        return Padded(one.symbol, one.factor + other.factor)
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    raise DependentRowsError


def _product(one: Dim, other: Dim) -> Dim:
    if any(isinstance(dim, int) and dim < 0 for dim in (one, other)):
        if isinstance(one, int) and isinstance(other, int):
            return one * other
        raise DependentRowsError
    return product((one, other))


def _quotient(one: Dim, other: Dim) -> Dim:
    if isinstance(other, int) and other > 0:
        if isinstance(one, int) and one >= 0:
            return one // other
        if isinstance(one, Padded) and one.factor % other == 0:
            return Padded(one.symbol, one.factor // other)
    raise DependentRowsError


def _equal(one: Dim, other: Dim) -> Dim:
    """Return 1 if two sizes are equal, else 0.

    The size of an open dimension equals itself, and is unequal to a negative number. Any other
    comparison with this size depends on data.

    Raises:
        DependentRowsError: if the result depends on data.
    """
    for dim, number in ((one, other), (other, one)):
        if isinstance(dim, Padded) and isinstance(number, int) and number >= 0:
            # The open size may or may not equal this number, so the result would depend on data.
            raise DependentRowsError
    if isinstance(one, Padded) and isinstance(other, Padded) and one != other:
        raise DependentRowsError
    return int(one == other)


def _where(node: PaddedNode) -> Content:
    condition = node.operand(0).integers()
    one, other = (node.operand(number).elements() for number in (1, 2))
    size = max(len(condition), len(one), len(other))
    if any(len(each) not in (1, size) for each in (condition, one, other)):
        raise DependentRowsError
    first, second = (each * (size // len(each)) for each in (one, other))
    chosen = condition * (size // len(condition))
    return tuple(a if c else b for c, a, b in zip(chosen, first, second, strict=True))


CONTENT_RULES: Mapping[str, Callable[[PaddedNode], Content]] = {
    "Add": _elementwise(_sum),
    "Cast": _same,
    "Concat": _concat,
    "Div": _elementwise(_quotient),
    "Equal": _elementwise(_equal),
    "Gather": _gather,
    "Identity": _same,
    "Mul": _elementwise(_product),
    "Reshape": _same,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _same,
    "Unsqueeze": _same,
    "Where": _where,
}
"""Functions that return the elements of a node's result, by operator."""
