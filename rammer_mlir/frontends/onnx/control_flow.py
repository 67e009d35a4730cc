"""Removes control flow: unrolls short loops, and computes both branches of cheap Ifs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.hosting.operators import is_host_operator
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_copier import NodeCopier
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import (
    ONNX_DOMAINS,
    Array,
    ShapeTable,
    dtype_of,
    static_shape,
)
from rammer_mlir.frontends.onnx.traversal import subgraphs
from rammer_mlir.frontends.onnx.trip_counts import condition_of, count_steps, largest_count
from rammer_mlir.frontends.onnx.well_formed import naming

_MOST_STEPS, _MOST_UNROLLED = 64, 4096
"""Most iterations, and most nodes of all iterations together, of a loop that is unrolled.

A longer loop's body is compiled once and repeated, so compile time does not grow with the number of
iterations.
"""

_COSTLY = frozenset(
    (
        "Attention", "Conv", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM",
        "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN",
    )
)  # fmt: skip
"""Costly operators: a conditional that has any of them executes only the taken branch."""


def has_control_flow(model: Model) -> bool:
    """Return whether a model's graph has a node that is a loop or a conditional."""
    return any(_is_control_flow(node) for node in model.graph.node)


def expand_control_flow(model: Model) -> bool:
    """Expand short loops and cheap conditionals in place; return whether a node was expanded.

    The model's shapes must be inferred, and its constants folded. The host executes the loops and
    conditionals that are not expanded.
    """
    table = ShapeTable(model.graph)
    values = model.small_constants()
    nodes: list[onnx.NodeProto] = []
    is_changed = False
    for node in model.graph.node:
        expansion = _Expansion(node, model, table, values) if _is_control_flow(node) else None
        if expansion is None or not _IS_WORTH_IT[node.op_type](expansion):
            nodes.append(node)
            continue
        is_changed = True
        nodes.extend(_expanded(expansion))
    if is_changed:
        model.set_nodes(nodes)
    return is_changed


def _expanded(expansion: _Expansion) -> list[onnx.NodeProto]:
    with naming(expansion.node):
        _EXPANSIONS[expansion.node.op_type](expansion)
    return expansion.write.nodes


def _is_control_flow(node: onnx.NodeProto) -> bool:
    return node.domain in ONNX_DOMAINS and node.op_type in _EXPANSIONS


class _Expansion:
    """Emits the nodes that replace an If, Loop or Scan node; ``write`` collects these nodes."""

    def __init__(
        self,
        node: onnx.NodeProto,
        model: Model,
        table: ShapeTable,
        values: Mapping[str, Array],
    ) -> None:
        self.node = node
        self.table = table
        self.values = values
        self.attributes: dict[str, Any] = {
            a.name: helper.get_attribute_value(a) for a in node.attribute
        }
        self.write = NodeWriter(model, node.name)
        self._constants: dict[int, dict[str, str]] = {}

    def copy(self, body: onnx.GraphProto, arguments: Sequence[str], tag: str) -> list[str]:
        """Emit copies of a subgraph's nodes; return the names of the subgraph's results.

        ``arguments`` are the names of the values that replace the subgraph's inputs; ``tag`` is a
        part of all new names.
        """
        # Keyed by subgraph: two branches may use the same name for different values.
        if id(body) not in self._constants:
            self._constants[id(body)] = {
                tensor.name: self.write.constant(numpy_helper.to_array(tensor))
                for tensor in body.initializer
            }
        names = dict(self._constants[id(body)])
        names.update(zip((value.name for value in body.input), arguments, strict=True))
        copier = NodeCopier(f"{self.node.name}/{tag}/", {})
        self.write.nodes.extend(copier.nodes(body.node, names))
        return [names.get(value.name, value.name) for value in body.output]

    def finish(self, states: Sequence[str], scanned: Sequence[str]) -> None:
        """Emit an Identity node for each result of the replaced loop, with the result's name.

        ``states`` are the names of the final values of the loop's states. ``scanned`` are the names
        of the stacks, which have a slice for each iteration.
        """
        for result, name in zip(self.node.output, [*states, *scanned], strict=False):
            if result:
                self.write.named("Identity", [name], [result])

    def stack(self, values: Sequence[str], axis: int, result: int) -> str:
        """Emit the concatenation of ``values`` along a new dimension ``axis``; return its name.

        ``values`` has, for each iteration, the name of one result of the loop's body. ``result`` is
        the index of this stack among the loop's results. Without iterations, the stack is an empty
        constant, of the type and shape of the loop's result.
        """
        if not values:
            kind = dtype_of(self.table.elem_type(self.node.output[result]))
            return self.write.constant(np.zeros(self._shape_of_none(result, axis), kind))
        axes = self.write.integers(axis)
        return self.write.node(
            "Concat", [self.write.node("Unsqueeze", [value, axes]) for value in values], axis=axis
        )

    def _shape_of_none(self, result: int, axis: int) -> list[int]:
        """Return the shape of the stack that a loop without iterations returns.

        The stack's shape is the shape of a slice with a dimension of size 0 inserted at ``axis``.
        ``result`` is the index of the stack among the loop's results.
        """
        name = self.node.output[result]
        body: onnx.GraphProto = self.attributes["body"]
        element = static_shape(body.output[result + (self.node.op_type == "Loop")])
        if self.table.find_shape(name) is not None or element is None:
            return self.table.shape(name)
        return [*element[:axis], 0, *element[axis:]]


def is_unrolled(body: onnx.GraphProto, steps: int, values: Mapping[str, Array]) -> bool:
    """Return whether a loop of ``steps`` iterations is short and small enough to be unrolled.

    ``values`` has constants by name, among them the trip counts of loops nested in ``body``.
    """
    size = _unrolled_size(body, values)
    return steps <= _MOST_STEPS and steps * (size + 1) <= _MOST_UNROLLED


def _unrolled_size(body: onnx.GraphProto, values: Mapping[str, Array]) -> int:
    """Return a subgraph's number of nodes after unrolling nested loops of known trip count.

    ``values`` has constants by name, among them the trip counts of nested loops.
    """
    known = {**values, **{t.name: numpy_helper.to_array(t) for t in body.initializer}}
    total = 0
    for node in body.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            known[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        steps = known.get(node.input[0]) if node.op_type == "Loop" and node.input else None
        # A nested loop of unknown trip count is not unrolled, so it counts once.
        times = 1 if steps is None or steps.size != 1 else max(1, int(steps.item()))
        total += 1 + times * sum(_unrolled_size(inner, known) for inner in subgraphs(node))
    return total


def _is_cheap_choice(expansion: _Expansion) -> bool:
    """Return whether both branches of an If are cheap to compute, with results of equal shapes.

    Such an If is expanded: both branches are computed.
    """
    branches = [expansion.attributes[f"{kind}_branch"] for kind in ("then", "else")]
    nodes = [node for branch in branches for node in branch.node]
    if any(node.op_type in _COSTLY or is_host_operator(node) for node in nodes):
        return False
    for yes, no in zip(*(branch.output for branch in branches), strict=True):
        shape = static_shape(yes)
        is_tensor = all(value.type.HasField("tensor_type") for value in (yes, no))
        if not is_tensor or shape is None or shape != static_shape(no):
            return False
    return True


def _expand_if(expansion: _Expansion) -> None:
    """Emit the nodes of both branches, and a Where for each result, which selects a branch's value.

    Both branches can be computed, because they have no side effects.
    """
    write = expansion.write
    (name,) = expansion.node.input
    branches = [
        expansion.copy(expansion.attributes[f"{kind}_branch"], [], kind)
        for kind in ("then", "else")
    ]
    # Where needs a scalar condition, but If also accepts a tensor of one element.
    condition = write.node("Reshape", [name, write.integers()])
    for result, yes, no in zip(expansion.node.output, *branches, strict=True):
        if result:
            write.named("Where", [condition, yes, no], [result])


def _is_short_loop(expansion: _Expansion) -> bool:
    body: onnx.GraphProto = expansion.attributes["body"]
    steps = _trip_count(expansion, body)
    return steps is not None and is_unrolled(body, steps, expansion.values)


def _expand_loop(expansion: _Expansion) -> None:
    body: onnx.GraphProto = expansion.attributes["body"]
    steps = _trip_count(expansion, body)
    assert steps is not None, "other loops are the host's"
    states = list(expansion.node.input[2:])
    scanned: list[list[str]] = [[] for _ in body.output[1 + len(states) :]]
    condition = expansion.write.constant(np.array(True))
    for step in range(steps):
        number = expansion.write.constant(np.array(step))
        results = expansion.copy(body, [number, condition, *states], f"step{step}")[1:]
        states = results[: len(states)]
        for values, value in zip(scanned, results[len(states) :], strict=True):
            values.append(value)
    stacks = [
        expansion.stack(values, 0, len(states) + number) for number, values in enumerate(scanned)
    ]
    expansion.finish(states, stacks)


def _trip_count(expansion: _Expansion, body: onnx.GraphProto) -> int | None:
    """Return the trip count of a loop with the body ``body``; None if the count depends on data."""
    most, condition = ([*expansion.node.input, "", ""])[:2]
    limit = largest_count(expansion.node, expansion.values)
    start = expansion.values.get(condition) if condition else np.array(True)
    if start is None or (most and limit is None):
        return None
    if not start.any():
        return 0
    goes_on = always_continues(body, expansion.values)
    if goes_on is None:
        # One iteration beyond the unrolling limit is enough to decide against unrolling.
        return count_steps(expansion.node, body, expansion.values, _MOST_STEPS + 1)
    if goes_on and limit is None:
        return None
    # Without a limit, a constant false condition still ends the loop after the first iteration.
    steps = 1 if limit is None else limit
    return steps if goes_on else min(1, steps)


def always_continues(body: onnx.GraphProto, values: Mapping[str, Array]) -> bool | None:
    """Return the constant condition that a loop's body returns; None if it depends on data.

    If the condition is true, only the trip count ends the loop. If it is false, the loop ends after
    its first iteration. ``values`` has the constants outside of the body, by name.
    """
    name = condition_of(body)
    if name == body.input[1].name:
        return True
    producers = {name: node for node in body.node for name in node.output}
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
    if name in producers and producers[name].op_type == "Constant":
        known[name] = numpy_helper.to_array(producers[name].attribute[0].t)
    value = known.get(name, values.get(name))
    return None if value is None else bool(value.any())


def _is_short_scan(expansion: _Expansion) -> bool:
    attributes = expansion.attributes
    number = attributes["num_scan_inputs"]
    axis = attributes.get("scan_input_axes", [0])[0]
    # Only the first source is needed: all sources of a Scan have the same length.
    shape = expansion.table.find_shape(expansion.node.input[-number])
    return shape is not None and is_unrolled(attributes["body"], shape[axis], expansion.values)


def _expand_scan(expansion: _Expansion) -> None:
    attributes, node = expansion.attributes, expansion.node
    body: onnx.GraphProto = attributes["body"]
    inputs = list(node.input)
    count = attributes["num_scan_inputs"]
    states, sources = inputs[:-count], inputs[-count:]
    axes = attributes.get("scan_input_axes", [0] * count)
    backward = attributes.get("scan_input_directions", [0] * count)
    steps = expansion.table.shape(sources[0])[axes[0]]
    outputs = len(body.output) - len(states)
    scanned: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(steps):
        elements = [
            # ``step`` counts iterations; a reversed source is read from its end.
            expansion.write.element(source, steps - 1 - step if reverse else step, axis)
            for source, axis, reverse in zip(sources, axes, backward, strict=True)
        ]
        results = expansion.copy(body, [*states, *elements], f"step{step}")
        states = results[: len(states)]
        for values, value in zip(scanned, results[len(states) :], strict=True):
            values.append(value)
    reversed_outputs = attributes.get("scan_output_directions", [0] * outputs)
    output_axes = attributes.get("scan_output_axes", [0] * outputs)
    stacks = [
        expansion.stack(values[::-1] if reverse else values, axis, len(states) + number)
        for number, (values, reverse, axis) in enumerate(
            zip(scanned, reversed_outputs, output_axes, strict=True)
        )
    ]
    expansion.finish(states, stacks)


_EXPANSIONS: dict[str, Callable[[_Expansion], None]] = {
    "If": _expand_if,
    "Loop": _expand_loop,
    "Scan": _expand_scan,
}

_IS_WORTH_IT: dict[str, Callable[[_Expansion], bool]] = {
    "If": _is_cheap_choice,
    "Loop": _is_short_loop,
    "Scan": _is_short_scan,
}
"""By operator: the predicate for nodes to expand; the host executes all other nodes."""
