"""Simplifies Loops: removes invariant states and counters, and finds trip counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rammer_mlir.frontends.onnx.control_flow import always_continues
from rammer_mlir.frontends.onnx.loops.bodies import Body, Surroundings, body_of, copied
from rammer_mlir.frontends.onnx.model import Model, set_graph_nodes
from rammer_mlir.frontends.onnx.node_names import Prefixes
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.frontends.onnx.trip_counts import begins, count_steps, largest_count

_MOST_STEPS = 1 << 14
"""Number of iterations at which counting ends; each takes some tens of microseconds to count."""

_COUNTERS = (np.dtype(np.int32), np.dtype(np.int64))
"""Element types of states that count iterations."""


def normal_form(
    node: onnx.NodeProto, around: Surroundings, model: Model
) -> list[onnx.NodeProto] | None:
    """Return nodes that replace a Loop by a simpler one; None if no simplification applies.

    A call applies the first of these simplifications that is possible:

    - A loop-carried state that each iteration returns unchanged becomes a captured value.
      In TensorFlow's loops, weights are such states.
    - A condition that counts to a known number becomes a trip count.
    - A counter is computed from the iteration number, if the trip count is known.

    Args:
        node: the Loop; not modified.
        around: constants and types of the values outside of the Loop.
        model: the model, to which new constants are added.
    """
    for rule in (_without_invariants, _with_trip_count, _without_counters):
        write = NodeWriter(model, f"{node.name}/{rule.__name__.lstrip('_')}")
        loop = rule(node, around, write)
        if loop is not None:
            return [loop, *write.nodes]
    return None


def _with_trip_count(
    node: onnx.NodeProto, around: Surroundings, write: NodeWriter
) -> onnx.NodeProto | None:
    """Return a Loop with a constant trip count in place of its condition.

    The condition must compare a count of the iterations with a number that is known at compile
    time. Return None for any other condition, such as one that is always true.
    """
    steps = _counted_steps(node, around)
    if steps is None:
        return None
    counted = copied(node)
    counted.input[0] = write.constant(np.array(steps, np.int64))
    body = body_of(counted)
    condition = f"{Prefixes(body).unused(body.output[0].name)}/always"
    body.output[0].name = condition
    body.node.append(helper.make_node("Identity", [body.input[1].name], [condition]))
    return counted


def _invariant_states(node: onnx.NodeProto) -> list[int]:
    """Return the indices of the loop-carried states that the body returns unchanged."""
    body = body_of(node)
    sources = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity"}
    found: list[int] = []
    for number, value in enumerate(body.input[2:]):
        name = body.output[1 + number].name
        while name in sources:
            name = sources[name]
        if name == value.name and node.input[2 + number]:
            found.append(number)
    return found


def _without_invariants(
    node: onnx.NodeProto, around: Surroundings, write: NodeWriter
) -> onnx.NodeProto | None:
    """Return a Loop without the loop-carried states that its body returns unchanged.

    The body captures the initial values of these states instead. Return None if the Loop has no
    such state.
    """
    del around
    states = _invariant_states(node)
    if not states:
        return None
    loop = copied(node)
    body = body_of(loop)
    captured = [
        helper.make_node("Identity", [node.input[2 + number]], [body.input[2 + number].name])
        for number in states
    ]
    for number in states:
        if number < len(node.output) and node.output[number]:
            write.named("Identity", [node.input[2 + number]], [node.output[number]])
    for number in reversed(states):
        _drop_state(loop, number)
    set_graph_nodes(body, [*captured, *body.node])
    return loop


def _drop_state(loop: onnx.NodeProto, number: int) -> None:
    body = body_of(loop)
    del loop.input[2 + number], body.input[2 + number], body.output[1 + number]
    if number < len(loop.output):
        del loop.output[number]


def _without_counters(
    node: onnx.NodeProto, around: Surroundings, write: NodeWriter
) -> onnx.NodeProto | None:
    """Return a Loop of known trip count without counters.

    A counter is a loop-carried integer of one element, with a constant initial value, to which each
    iteration adds a constant. ``write`` emits each counter's value after the loop. Return None if
    the Loop has no counter, or its trip count is unknown.
    """
    steps = known_steps(node, around.values)
    body = Body(body_of(node), around)
    if steps is None:
        return None
    found = {
        number: counter
        for number in range(len(node.input) - 2)
        if (counter := _read_counter(body, node, number, around)) is not None
    }
    if not found:
        return None
    loop = copied(node)
    graph = body_of(loop)
    nodes: list[onnx.NodeProto] = []
    for number, (start, step) in found.items():
        nodes += _counter_nodes(graph, number, start, step)
        if number < len(node.output) and node.output[number]:
            number_after = int(start.item()) + steps * int(step.item())
            last = np.full(start.shape, number_after, np.int64).astype(start.dtype)
            write.named("Identity", [write.constant(last)], [node.output[number]])
    for number in reversed(found):
        _drop_state(loop, number)
    set_graph_nodes(graph, [*nodes, *graph.node])
    return loop


def _read_counter(
    body: Body, node: onnx.NodeProto, number: int, around: Surroundings
) -> tuple[Array, Array] | None:
    """Return the initial value and the increment of a loop-carried state that is a counter.

    Return None if the state is not a counter. ``number`` is the index of the state.
    """
    start = around.values.get(node.input[2 + number])
    value = body.graph.input[2 + number]
    made = body.producers.get(body.behind(body.graph.output[1 + number].name))
    if start is None or start.size != 1 or start.dtype not in _COUNTERS:
        return None
    if made is None or made.op_type != "Add":
        return None
    terms = [body.behind(term) for term in made.input]
    others = [term for term in terms if term != value.name]
    step = body.constant(others[0]) if len(others) == 1 else None
    return None if step is None or step.shape != start.shape else (start, step)


def _counter_nodes(
    graph: onnx.GraphProto, number: int, start: Array, step: Array
) -> list[onnx.NodeProto]:
    """Return nodes for a Loop's body that compute ``start + step * iteration number``.

    The result gets the name of the body's input for the state at index ``number``, so that the
    state can be removed. Constants are added to ``graph``, the body.
    """
    value = graph.input[2 + number].name
    prefix = Prefixes(graph).unused(value)
    kind = helper.np_dtype_to_tensor_dtype(start.dtype)
    operands: list[tuple[str, str, Array]] = []
    if start.shape:
        operands.append(("Reshape", "shape", np.array(start.shape, np.int64)))
    if step.item() != 1:
        operands.append(("Mul", "step", step))
    if start.item() != 0:
        operands.append(("Add", "start", start))
    results = [*(f"{prefix}/counter{place}" for place in range(len(operands))), value]
    nodes = [helper.make_node("Cast", [graph.input[0].name], results[:1], to=kind)]
    for place, (operator, role, array) in enumerate(operands):
        name = f"{prefix}/{role}"
        graph.initializer.append(numpy_helper.from_array(array, name))
        nodes.append(helper.make_node(operator, [results[place], name], [results[place + 1]]))
    return nodes


def known_steps(node: onnx.NodeProto, values: Mapping[str, Array]) -> int | None:
    """Return a loop's constant trip count; None if it is not known at compile time.

    The result is also None if the loop's condition is not known to be always true. ``values`` has
    the constants outside of the loop, by name.
    """
    if not begins(node, values) or always_continues(body_of(node), values) is not True:
        return None
    return largest_count(node, values)


def _counted_steps(node: onnx.NodeProto, around: Surroundings) -> int | None:
    """Return the trip count of a loop whose condition counts iterations.

    Return None in these cases:

    - The condition is always true, is not known to be true at the beginning, or depends on more
      than a count of iterations.
    - The trip count depends on data.
    - The trip count is ``_MOST_STEPS`` or more.
    """
    if not begins(node, around.values) or always_continues(body_of(node), around.values):
        return None
    steps = count_steps(node, body_of(node), around.values, _MOST_STEPS)
    return None if steps is None or steps >= _MOST_STEPS else steps
