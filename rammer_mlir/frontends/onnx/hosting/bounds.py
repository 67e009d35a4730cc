"""Computes upper bounds of data-dependent sizes, by a rule for each operator."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import onnx

from rammer_mlir.evaluators import elementwise
from rammer_mlir.frontends.onnx.folding.attributes import attributes_of
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, small_constants, value_infos
from rammer_mlir.frontends.onnx.traversal import subgraphs

Bounds = tuple[int | None, ...]
"""Upper bound of the size of each dimension; None if unknown."""


class SizeBounds:
    """Upper bounds of the sizes of the values of a model's graph."""

    def __init__(self, model: Model) -> None:
        """Compute the bounds of all values of a model; its shapes must be inferred."""
        constants = model.constants()
        shapes = {name: value.shape for name, value in constants.items()}
        self._scope = _Scope(ChainMap(constants), ChainMap(shapes)).within(model.graph)

    def of(self, name: str) -> Bounds | None:
        """Return the upper bound of each dimension of the value ``name``.

        A bound is None if it is unknown. None is returned instead of a tuple if the rank is
        unknown.
        """
        return self._scope.bounds.get(name)


@dataclass(frozen=True)
class _Scope:
    """The values that a graph's nodes may read, by name: its own and those of graphs around it.

    Two branches of a conditional may give different values the same name.

    Attributes:
        constants: the values of constants.
        bounds: the upper bounds of sizes.
    """

    constants: ChainMap[str, Array]
    bounds: ChainMap[str, Bounds]

    def within(self, graph: onnx.GraphProto) -> _Scope:
        """Return the scope of ``graph``, which is the model's graph or a subgraph in this scope."""
        own = small_constants(graph)
        bounds: dict[str, Bounds] = {name: value.shape for name, value in own.items()}
        for name, value in value_infos(graph).items():
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and name not in self.bounds and name not in bounds:
                dims = tensor.shape.dim
                sizes = (d.dim_value if d.HasField("dim_value") else None for d in dims)
                bounds[name] = tuple(sizes)
        found = _Scope(self.constants.new_child(own), self.bounds.new_child(bounds))
        for node in graph.node:
            made = found._of_result(node)
            if made is not None and node.output:
                name = node.output[0]
                bounds[name] = _smaller(bounds.get(name), made)
        return found

    def _of_result(self, node: onnx.NodeProto) -> Bounds | None:
        """Return the upper bounds of the sizes of a node's first result; None if they are unknown.

        The bounds are unknown if the operator has no rule, if an operand has no bounds, or if an
        operand that the rule needs is not constant.
        """
        if node.op_type == "If":
            branches = [(self.within(graph), graph) for graph in subgraphs(node)]
            return _larger([scope.bounds.get(graph.output[0].name) for scope, graph in branches])
        rule = _RULES.get(node.op_type)
        if rule is None or node.domain not in ONNX_DOMAINS:
            return None
        operands = [self.bounds.get(name) if name else () for name in node.input]
        known = [bounds for bounds in operands if bounds is not None]
        if len(known) < len(operands):
            return None
        constants = [self.constants.get(name) for name in node.input]
        try:
            return rule(known, constants, attributes_of(node))
        except (IndexError, LookupError, TypeError, ValueError):
            return None  # an operand that the rule needs is not constant


def _smaller(one: Bounds | None, other: Bounds) -> Bounds:
    if one is None or len(one) != len(other):
        return other
    return tuple(_least(a, b) for a, b in zip(one, other, strict=True))


def _larger(branches: Sequence[Bounds | None]) -> Bounds | None:
    known = [bounds for bounds in branches if bounds is not None]
    if len(known) < len(branches) or len({len(bounds) for bounds in known}) != 1:
        return None
    return tuple(_greatest(dims) for dims in zip(*known, strict=True))


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _greatest(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return max(known) if len(known) == len(sizes) else None


def _total(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None


_Constants = Sequence[Array | None]
_Attributes = Mapping[str, Any]  # types follow the operator's schema
_Rule = Callable[[list[Bounds], _Constants, _Attributes], Bounds | None]


def _integers(constants: _Constants, number: int) -> list[int]:
    """Return the elements of constant operand ``number``; raise TypeError if it is not constant."""
    value = constants[number]
    if value is None:
        raise TypeError
    return [int(element) for element in value.reshape(-1)]


def _same(given: list[Bounds], _: _Constants, __: _Attributes) -> Bounds:
    return given[0]


def _broadcast(given: list[Bounds], _: _Constants, __: _Attributes) -> Bounds:
    rank = max(map(len, given))
    padded = [(1,) * (rank - len(bounds)) + bounds for bounds in given]
    return tuple(_greatest(dims) for dims in zip(*padded, strict=True))


def _non_zero(given: list[Bounds], _: _Constants, __: _Attributes) -> Bounds:
    return len(given[0]), _total(given[0])


def _compress(given: list[Bounds], _: _Constants, attributes: _Attributes) -> Bounds:
    return given[0] if "axis" in attributes else (_total(given[0]),)


def _unique(given: list[Bounds], _: _Constants, attributes: _Attributes) -> Bounds:
    return _compress(given, _, attributes)


def _suppressed(given: list[Bounds], constants: _Constants, _: _Attributes) -> Bounds:
    batches, classes, boxes = given[1]
    most = _integers(constants, 2)[0] if len(given) > 2 and given[2] else 0
    return _total((batches, classes, _least(most, boxes))), 3


def _gather(given: list[Bounds], _: _Constants, attributes: _Attributes) -> Bounds:
    axis = attributes.get("axis", 0) % len(given[0])
    return given[0][:axis] + given[1] + given[0][axis + 1 :]


def _transpose(given: list[Bounds], _: _Constants, attributes: _Attributes) -> Bounds:
    order = attributes.get("perm", range(len(given[0]))[::-1])
    return tuple(given[0][place] for place in order)


def _unsqueeze(given: list[Bounds], constants: _Constants, _: _Attributes) -> Bounds:
    axes = _integers(constants, 1)
    rank = len(given[0]) + len(axes)
    places = {axis % rank for axis in axes}
    rest = iter(given[0])
    return tuple(1 if place in places else next(rest) for place in range(rank))


def _squeeze(given: list[Bounds], constants: _Constants, _: _Attributes) -> Bounds:
    places = {axis % len(given[0]) for axis in _integers(constants, 1)}
    return tuple(size for place, size in enumerate(given[0]) if place not in places)


def _reshape(given: list[Bounds], constants: _Constants, attributes: _Attributes) -> Bounds | None:
    target = _integers(constants, 1)
    if 0 in target or attributes.get("allowzero", 0):
        return None
    total, known = _total(given[0]), prod(size for size in target if size != -1)
    rest = None if total is None or not known else total // known
    return tuple(rest if size == -1 else size for size in target)


def _concat(given: list[Bounds], _: _Constants, attributes: _Attributes) -> Bounds:
    axis = attributes["axis"] % len(given[0])
    found: list[int | None] = []
    for place, sizes in enumerate(zip(*given, strict=True)):
        known = [size for size in sizes if size is not None]
        joined = sum(known) if len(known) == len(sizes) else None
        found.append(joined if place == axis else min(known, default=None))
    return tuple(found)


def _first(given: list[Bounds], constants: _Constants, attributes: _Attributes) -> Bounds:
    axis = attributes.get("axis", -1) % len(given[0])
    number = None if constants[1] is None else _integers(constants, 1)[0]
    return (*given[0][:axis], _least(given[0][axis], number), *given[0][axis + 1 :])


def _slice(given: list[Bounds], constants: _Constants, _: _Attributes) -> Bounds:
    starts, ends = _integers(constants, 1), _integers(constants, 2)
    axes = _integers(constants, 3) if len(given) > 3 and constants[3] is not None else None
    steps = _integers(constants, 4) if len(given) > 4 else [1] * len(starts)
    found = list(given[0])
    for start, end, axis, step in zip(starts, ends, axes or range(len(starts)), steps, strict=True):
        if step == 1 and 0 <= start <= end:
            found[axis] = _least(found[axis], end - start)
    return tuple(found)


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(elementwise.EVALUATORS, _broadcast),
    **dict.fromkeys(("Cast", "Identity", "Softmax", "Split"), _same),
    "Compress": _compress,
    "Concat": _concat,
    "Gather": _gather,
    "NonMaxSuppression": _suppressed,
    "NonZero": _non_zero,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "TopK": _first,
    "Transpose": _transpose,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
}
"""Functions that return the bounds of the first result, by operator."""
