"""Places each node of a model on the host or in a compiled part.

Host steps and parts alternate: the host steps of slot 0, part 0, the host steps of slot 1, part 1,
and so on. A node is placed at the earliest slot in which its operands are available. The inputs of
a part are values of the host. The part's shape values are those inputs that must be constants in a
program of static shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import onnx

from rammer_mlir.frontends.onnx.hosting.operators import (
    decisions,
    fixed_operands,
    is_host_operator,
    is_light,
    is_long_sort,
)
from rammer_mlir.frontends.onnx.model import Model, names_used_by
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, static_shape, value_infos

_SMALL = 4096
"""Largest number of elements of a node's operands and results for evaluation on the host."""

_INTEGERS = frozenset(
    (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.UINT8)
)

_SHAPES = ("Shape", "Size")


@dataclass(frozen=True)
class Place:
    """The place of a node.

    Attributes:
        slot: if ``on_host``, the index of the slot of host steps with the node; else the index of
            the part with the node. The host runs the steps of slot n before part n.
        on_host: whether the host executes the node.
    """

    slot: int
    on_host: bool


@dataclass(frozen=True)
class Placement:
    """The places of all nodes of a graph.

    Attributes:
        places: place of each node, in order.
        is_trivial: for each node, whether the host evaluates it in less time than the call of a
            part takes.
        shape_values: for each part, the names of its inputs that must be constants.
    """

    places: tuple[Place, ...]
    is_trivial: tuple[bool, ...]
    shape_values: tuple[tuple[str, ...], ...]


def place_nodes(model: Model, *, is_repeated: bool) -> Placement:
    """Return the places of a model's nodes: on the host or in a part.

    The model's shapes must be inferred, and its constants folded.

    Args:
        model: not modified.
        is_repeated: whether the model runs in a loop, so that its inputs differ between runs.
    """
    placer = _Placer(model, is_repeated=is_repeated)
    places = tuple(map(placer.place, model.graph.node))
    parts = 1 + max((place.slot for place in places), default=0)
    values = tuple(tuple(placer.shape_values.get(number, ())) for number in range(parts))
    is_trivial = tuple(map(placer.is_trivial, model.graph.node))
    return Placement(places, is_trivial, values)


class _Placer:
    def __init__(self, model: Model, *, is_repeated: bool) -> None:
        graph = model.graph
        self._types = value_infos(graph)
        self._constants = {tensor.name for tensor in graph.initializer} | model.weights.keys()
        self._decided = self._shape_decided(graph.node)
        self._deciding = self._small_deciders(graph.node)
        inputs = {value.name for value in model.inputs}
        self._host = dict.fromkeys(inputs | self._constants, 0)
        self._host_results: set[str] = set()
        self._part: dict[str, int] = {}
        self._given = self._constants | (set() if is_repeated else inputs)
        self._of_open_size = {name for name in inputs if not self._is_static(name)}
        self.shape_values: dict[int, dict[str, None]] = {}

    def place(self, node: onnx.NodeProto) -> Place:
        used = names_used_by([node])
        operands = [name for name in used if name in self._host or name in self._part]
        on_host = self._is_on_host(node, operands)
        if on_host:
            slot = max((self._host_slot(name) for name in operands), default=0)
        else:
            slot = self._part_slot(node, operands)
        names = [name for name in node.output if name]
        if on_host:
            self._host.update(dict.fromkeys(names, slot))
            self._host_results.update(names)
            if all(name in self._given for name in operands):
                # Values of inputs are known before the first part, except in a repeated model.
                self._given.update(names)
        else:
            self._part.update(dict.fromkeys(names, slot))
        if self._has_open_size(node, operands, on_host=on_host):
            self._of_open_size.update(n for n in names if not self._is_static(n))
        return Place(slot, on_host)

    def is_trivial(self, node: onnx.NodeProto) -> bool:
        """Whether the host evaluates a node in less time than a call of a compiled part takes.

        This is assumed if the node's evaluator is cheap (``is_light``), and the node's operands and
        results are small.
        """
        return is_light(node) and self._is_small(node)

    def _host_slot(self, name: str) -> int:
        """Return the first slot in which the host can read the value ``name``.

        The host's steps of slot n run before part n, so the results of part n are available to the
        host from slot n + 1 on.
        """
        return self._part[name] + 1 if name in self._part else self._host[name]

    def _part_slot(self, node: onnx.NodeProto, operands: Iterable[str]) -> int:
        """Return the index of the first part that can compute a node.

        ``operands`` are names of values that the node reads and that earlier nodes compute.
        Operands that must be constants in the part are recorded as its shape values, unless the
        part itself computes them.
        """
        # A part reads values of the host of its own slot, because host steps precede the part.
        slot = max((self._part.get(name, self._host.get(name, 0)) for name in operands), default=0)
        fixed = [name for name in fixed_operands(node) if name not in self._constants]
        for name in fixed:
            # A shape-determined value of the same part is constant in each specialization.
            if name not in self._decided or self._part.get(name) != slot:
                slot = max(slot, self._host_slot(name))
        for name in fixed:
            if self._part.get(name) != slot:
                self.shape_values.setdefault(slot, {})[name] = None
        return slot

    def _is_on_host(self, node: onnx.NodeProto, operands: list[str]) -> bool:
        if is_host_operator(node) or not all(map(self._is_number, [*operands, *node.output])):
            return True
        if is_long_sort(node, self._types):
            return True
        if not is_light(node):
            return False
        if any(name in self._deciding for name in node.output):
            return True
        varying = [name for name in operands if name not in self._constants]
        open_sized = [name for name in varying if name in self._of_open_size]
        if open_sized:
            # Otherwise it would wait for a part that already takes such values as inputs.
            slot = max(self._host.get(name, -1) for name in open_sized)
            return slot >= max(map(self._host_slot, operands))
        if varying and self._host_results.issuperset(varying) and self._is_small(node):
            return True
        fixed = [n for n in fixed_operands(node) if n not in self._decided]
        return any(name not in self._given for name in fixed)

    def _has_open_size(
        self, node: onnx.NodeProto, operands: Iterable[str], *, on_host: bool
    ) -> bool:
        if node.op_type in _SHAPES and node.domain in ONNX_DOMAINS:
            return False
        return on_host or any(name in self._of_open_size for name in operands)

    def _is_static(self, name: str) -> bool:
        return name in self._types and static_shape(self._types[name]) is not None

    def _is_number(self, name: str) -> bool:
        if name not in self._types:
            return True
        kind = self._types[name].type
        if kind.HasField("sequence_type") or kind.HasField("optional_type"):
            return False
        return kind.tensor_type.elem_type != onnx.TensorProto.STRING

    def _shape_decided(self, nodes: Iterable[onnx.NodeProto]) -> set[str]:
        """Return the names of the values that are computed from shapes and constants only."""
        decided = set(self._constants)
        for node in nodes:
            is_shape = node.op_type in _SHAPES and node.domain in ONNX_DOMAINS
            if is_shape or (is_light(node) and decided.issuperset(filter(None, node.input))):
                decided.update(filter(None, node.output))
        return decided

    def _small_deciders(self, nodes: Iterable[onnx.NodeProto]) -> set[str]:
        """Return the names of small data-dependent values that determine shapes or control flow.

        Such a value is computed by a node that the host evaluates in less time than the call of a
        part (``is_trivial``). Another node reads the value as a condition, a trip count, or an
        operand that must be a constant in its part; or the value is an operand of a trivial
        node that computes a small deciding value.
        """
        wanted: set[str] = set()
        found: set[str] = set()
        for node in reversed(list(nodes)):
            if not wanted.isdisjoint(node.output) and self.is_trivial(node):
                found.update(node.output)
                wanted.update(node.input)
            wanted.update(n for n in (*fixed_operands(node), *decisions(node)))
            wanted -= self._decided
        return found - {""}

    def _is_small(self, node: onnx.NodeProto) -> bool:
        names = [name for name in (*node.input, *node.output) if name]
        sizes = [self._size(name) for name in names if name not in self._constants]
        return None not in sizes and sum(size or 0 for size in sizes) <= _SMALL

    def _size(self, name: str) -> int | None:
        """Return the number of elements of value ``name``; None if unknown.

        A scalar or vector of integers of unknown shape counts as 0 elements: it is taken for a list
        of sizes or axes, which is short.
        """
        if name not in self._types:
            return None
        shape, tensor = static_shape(self._types[name]), self._types[name].type.tensor_type
        if shape is not None:
            return prod(shape)
        # Lists of integers are shapes or axes, which are short.
        is_list = tensor.HasField("shape") and len(tensor.shape.dim) <= 1
        return 0 if is_list and tensor.elem_type in _INTEGERS else None
