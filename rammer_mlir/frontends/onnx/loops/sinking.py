"""Moves elementwise nodes that compute the sources of a Scan into the Scan's body.

A source is a tensor of which each iteration of the Scan reads a slice. For example, a source may be
the decay ``exp(delta * A)``, which has many times the bytes of ``delta``. If only the Scan reads
the decay, it is better that each iteration computes its slice of the decay from slices of ``delta``
and ``A``: the slice then stays in the caches.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.loops.bodies import body_of, copied
from rammer_mlir.frontends.onnx.loops.element_rules import Operand, Rule, rule_of
from rammer_mlir.frontends.onnx.loops.scans import set_sources, sources_of
from rammer_mlir.frontends.onnx.model import Model, free_names, set_graph_nodes
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, ShapeTable, dtype_of
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.frontends.onnx.well_formed import naming
from rammer_mlir.programs.host_program import Source

_MOST_DEPTH = 64
"""Largest length of a chain of moved nodes, because expressions are emitted recursively."""


def sink_into_scans(model: Model) -> bool:
    """Move nodes that compute the sources of Scans into the Scans' bodies, in place.

    A source is a tensor of which each iteration reads a slice. A node is moved if only the Scan
    uses its result, and if an iteration reads fewer bytes after the move. The model's shapes must
    be inferred. Nodes that become unused stay in the graph.

    Returns:
        Whether a node was moved.
    """
    graph = _Graph(model)
    nodes: list[onnx.NodeProto] = []
    is_changed = False
    for number, node in enumerate(graph.nodes):
        new = None
        if node.op_type == "Scan" and node.domain in ONNX_DOMAINS:
            with naming(node):
                new = _Sinking(graph, number, NodeWriter(model, f"{node.name}/sunk")).run()
            is_changed = is_changed or new is not None
        nodes.extend([node] if new is None else new)
    if not is_changed:
        return False
    model.set_nodes(nodes)
    return True


class _Graph:
    """A graph's nodes, with the producers and the readers of its values."""

    def __init__(self, model: Model) -> None:
        self.nodes = list(model.graph.node)
        self._table = ShapeTable(model.graph)
        self.producers = {
            name: number for number, node in enumerate(self.nodes) for name in node.output if name
        }
        self._readers: defaultdict[str, set[int]] = defaultdict(set)
        for number, node in enumerate(self.nodes):
            for name in (*node.input, *_captured(node)):
                self._readers[name].add(number)
        for value in model.graph.output:
            # -1 stands for the graph's outputs, which no Scan reads.
            self._readers[value.name].add(-1)

    def shape(self, name: str) -> Sequence[int] | None:
        """Return the static shape of value ``name``; None if unknown."""
        return self._table.find_shape(name)

    def elem_type(self, name: str) -> int:
        """Return the ONNX element type of value ``name``; 0 if unknown."""
        return self._table.elem_type(name)

    def normalized(self, source: Source) -> Source | None:
        """Return ``source``, a tensor that a Scan slices along an axis, with a nonnegative axis.

        Return None if the tensor has strings, or if its type or shape is unknown.
        """
        shape, kind = self.shape(source.value), self.elem_type(source.value)
        if shape is None or kind in (0, onnx.TensorProto.STRING):
            return None
        return replace(source, axis=source.axis % len(shape))

    def element_bytes(self, source: Source) -> int:
        """Return the size in bytes of the slice of ``source`` that an iteration of a Scan reads."""
        shape = self._table.shape(source.value)
        element = prod(shape[: source.axis]) * prod(shape[source.axis + 1 :])
        return element * dtype_of(self._table.elem_type(source.value)).itemsize

    def exclusive_producers(self, reader: int) -> set[int]:
        """Return the indices of the nodes that serve only to compute the sources of a Scan.

        A source is a tensor of which each iteration reads a slice. Every use of a returned node's
        results is as a source of the Scan, or as an operand of another returned node. The results
        are not outputs of the graph, not initial states of the Scan, and not captured by its body.
        The nodes may therefore be moved into the body. ``reader`` is the index of the Scan node.
        """
        found = {reader}
        others = {*_captured(self.nodes[reader]), *_states(self.nodes[reader])}
        given = self.nodes[reader].input
        # heapq is a min-heap, so numbers are negated.
        pending = [-self.producers[name] for name in given if name in self.producers]
        heapq.heapify(pending)
        while pending:  # in reverse order, so that consumers come first
            number = -heapq.heappop(pending)
            results = [name for name in self.nodes[number].output if name]
            if number in found or not others.isdisjoint(results):
                continue
            if all(self._readers[name] <= found for name in results):
                found.add(number)
                for name in self.nodes[number].input:
                    if name in self.producers:
                        heapq.heappush(pending, -self.producers[name])
        return found - {reader}


def _captured(node: onnx.NodeProto) -> set[str]:
    return {name for graph in subgraphs(node) for name in free_names(graph)}


def _states(node: onnx.NodeProto) -> Sequence[str]:
    return node.input[: -len(sources_of(node))]


@dataclass(frozen=True)
class _Plan:
    """The cheapest method by which an iteration of a Scan gets its slice of a tensor.

    The iteration either reads the slice, or computes the slice from slices of other tensors.

    Attributes:
        cost: number of bytes that an iteration reads.
        rule: how an iteration computes the slice; None to read the slice.
    """

    cost: int
    rule: Rule | None


class _Planner:
    """Decides which nodes that compute the sources of a Scan move into the Scan's body.

    A source is a tensor of which each iteration reads a slice. The purpose is to reduce the bytes
    that an iteration reads.
    """

    def __init__(self, graph: _Graph, movable: set[int]) -> None:
        self._graph, self._movable = graph, movable
        self._plans: dict[Source, _Plan] = {}

    def plan(self, source: Source, depth: int = 0) -> _Plan:
        """Return the plan by which an iteration of the Scan gets its slice of ``source``.

        ``depth`` is the number of nodes on the path from ``source`` to the Scan that are moved
        already.
        """
        if source not in self._plans:
            self._plans[source] = self._new(source, depth)
        return self._plans[source]

    def _new(self, source: Source, depth: int) -> _Plan:
        own = _Plan(self._graph.element_bytes(source), None)
        number = self._graph.producers.get(source.value)
        if number not in self._movable or depth == _MOST_DEPTH:
            return own
        rule = rule_of(self._graph.nodes[number], source.axis, self._graph.shape)
        if rule is None:
            return own
        read = {source_of(operand, source) for operand in rule.operands if not operand.is_invariant}
        cost = sum(self.plan(each, depth + 1).cost for each in read)
        # Moving a view of equal cost may enable moving its producer.
        is_better = cost < own.cost or (rule.is_view and cost == own.cost)
        return _Plan(cost, rule) if is_better else own


def source_of(operand: Operand, parent: Source) -> Source:
    """Return ``operand`` as a new source of a Scan, in place of the source ``parent``.

    A source is a tensor of which each iteration reads a slice. A node that moves into the Scan's
    body computes ``parent`` from ``operand``. Each iteration then reads a slice of ``operand``
    instead of ``parent``, in the same direction.
    """
    assert operand.axis is not None, "what has elements has an axis of them"
    return Source(operand.value, operand.axis, parent.is_reversed)


class _Sinking:
    """Rewrites a Scan: moves the nodes that compute its sources into its body.

    A source is a tensor of which each iteration reads a slice, called an element. When the node
    that computes a source moves, the node's inputs become sources in its place.

    Attributes:
        nodes: new nodes at the beginning of the body. They compute the elements of the old sources
            from the elements of the new sources.
        outside: emits nodes before the Scan.
        sources: the new sources, each with the declaration of its element in the body.
        constants: new initializers of the body.
    """

    def __init__(self, graph: _Graph, number: int, outside: NodeWriter) -> None:
        self._graph, self._node, self.outside = graph, graph.nodes[number], outside
        self._planner = _Planner(graph, graph.exclusive_producers(number))
        self._elements: dict[Source, str] = {}
        self._invariants: dict[Operand, str] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.sources: dict[Source, onnx.ValueInfoProto] = {}
        self.constants: list[onnx.TensorProto] = []

    def run(self) -> list[onnx.NodeProto] | None:
        """Return the nodes that replace the Scan; None to keep it."""
        given = [(self._graph.normalized(s), name) for s, name in sources_of(self._node)]
        known = [source for source, _ in given if source is not None]
        if len(known) < len(given) or not any(self._planner.plan(s).rule for s in known):
            return None
        for source, (_, name) in zip(known, given, strict=True):
            node = helper.make_node("Identity", [self.element(source)], [name], name)
            self.nodes.append(node)
        scan = copied(self._node)
        graph = body_of(scan)
        set_graph_nodes(graph, [*self.nodes, *graph.node])
        graph.initializer.extend(self.constants)
        set_sources(scan, len(scan.input) - len(given), self.sources)
        return [*self.outside.nodes, scan]

    def element(self, source: Source) -> str:
        """Return the name, in the Scan's body, of the current iteration's slice of ``source``.

        The first call for a source either adds the source to the tensors that the new Scan reads,
        or emits the nodes that compute the slice; the ``_Planner`` decides.
        """
        if source not in self._elements:
            rule = self._planner.plan(source).rule
            found = self._read(source) if rule is None else rule.write(_StepWriter(self, source))
            self._elements[source] = found
        return self._elements[source]

    def invariant(self, operand: Operand) -> str:
        """Return the name of an operand that is the same in all iterations of the Scan.

        If the operand has the axis along which iterations take slices, this axis has size 1, and a
        Squeeze before the Scan removes it.
        """
        if operand.axis is None:
            return operand.value
        if operand not in self._invariants:
            axes = self.outside.integers(operand.axis)
            squeezed = self.outside.node("Squeeze", [operand.value, axes])
            self._invariants[operand] = squeezed
        return self._invariants[operand]

    def fresh(self) -> str:
        """Return a name for a new value or node, which no other value or node has."""
        return self.outside.fresh()

    def _read(self, source: Source) -> str:
        """Add ``source`` to the tensors that the Scan reads; return the name of its slice.

        A tensor that a node computes is transposed before the Scan if that makes each slice
        contiguous.
        """
        name = self.fresh()
        shape = list(self._graph.shape(source.value) or ())
        element = [*shape[: source.axis], *shape[source.axis + 1 :]]
        kind = self._graph.elem_type(source.value)
        front = next((n for n, size in enumerate(shape) if size != 1), 0)
        # Transpose once before the Scan, so that each step reads contiguous memory.
        if source.axis > front and source.value in self._graph.producers:
            rest = [n for n in range(len(shape)) if n != source.axis]
            order = [*rest[:front], source.axis, *rest[front:]]
            turned = self.outside.node("Transpose", [source.value], perm=order)
            source = Source(turned, front, source.is_reversed)
        self.sources[source] = helper.make_tensor_value_info(name, kind, element)
        return name


class _StepWriter:
    """Emits, into a Scan's body, the nodes that compute an iteration's slice of a tensor.

    It implements ``ElementWriter`` for the rules that ``_Sinking`` applies.
    """

    def __init__(self, sinking: _Sinking, source: Source) -> None:
        self._sinking, self._source = sinking, source

    def operand(self, operand: Operand) -> str:
        """Return the name, in the Scan's body, of the current iteration's slice of an operand."""
        if operand.is_invariant:
            return self._sinking.invariant(operand)
        return self._sinking.element(source_of(operand, self._source))

    def node(self, operator: str, inputs: Sequence[str], **attributes: object) -> str:
        """Emit a node of ``operator``, and return the name of its result."""
        name = self._sinking.fresh()
        self._sinking.nodes.append(
            helper.make_node(operator, inputs, [name], name, **attributes)  # type: ignore[arg-type]
        )
        return name

    def copy(self, node: onnx.NodeProto, inputs: Sequence[str]) -> str:
        """Emit a copy of ``node`` with operands ``inputs``; return the name of its result."""
        name = self._sinking.fresh()
        new = copied(node)
        del new.input[:], new.output[:]
        new.input.extend(inputs)
        new.output.append(name)
        self._sinking.nodes.append(new)
        return name

    def transpose(self, value: str, perm: Sequence[int], *, is_invariant: bool = False) -> str:
        """Emit a transposition of ``value``; return the name of its result.

        If ``is_invariant``, ``value`` is the same in all iterations, and the transposition is
        emitted before the Scan instead of in its body.
        """
        write = self._sinking.outside.node if is_invariant else self.node
        return write("Transpose", [value], perm=perm)

    def reshape(self, value: str, shape: Sequence[int], *, is_invariant: bool = False) -> str:
        """Emit a reshape of ``value`` to ``shape``; return the name of its result.

        If ``is_invariant``, ``value`` is the same in all iterations, and the reshape is emitted
        before the Scan instead of in its body.
        """
        if is_invariant:
            outside = self._sinking.outside
            return outside.node("Reshape", [value, outside.integers(*shape)])
        sizes = numpy_helper.from_array(np.array(shape, np.int64), self._sinking.fresh())
        self._sinking.constants.append(sizes)
        return self.node("Reshape", [value, sizes.name])
