"""Counts the iterations of loops written as ``while`` loops, such as TensorFlow's recurrent layers.

The body of such a loop increments a counter, and the condition compares the counter with a length.
If the length depends only on shapes, the trip count is known at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from rammer_mlir.errors import ModelError
from rammer_mlir.evaluators.operation import NotFoldableError, Operation
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.frontends.onnx.folding.attributes import attributes_of
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, Array, label


def largest_count(loop: onnx.NodeProto, values: Mapping[str, Array]) -> int | None:
    """Return the constant value of a Loop node's trip count operand; None if not constant.

    The trip count is an upper limit of the loop's iterations. A negative value is returned as 0,
    and an omitted operand as None. ``values`` are the constants of the enclosing graph, by name.

    Raises:
        ModelError: if the operand does not have exactly one element.
    """
    limit = values.get(loop.input[0]) if loop.input and loop.input[0] else None
    if limit is None:
        return None
    if limit.size != 1:
        raise ModelError(
            f"{label(loop)}: expected one number as trip count, found an array of shape "
            f"{list(limit.shape)}; give it one element"
        )
    return max(0, int(limit.item()))


def begins(node: onnx.NodeProto, values: Mapping[str, Array]) -> bool:
    """Whether a loop's initial condition is true: the operand is omitted, or constant and true.

    ``values`` has the constants by name.
    """
    condition = node.input[1] if len(node.input) > 1 else ""
    return not condition or (condition in values and bool(values[condition].any()))


def condition_of(body: onnx.GraphProto) -> str:
    """Return the name of the value that a loop's body returns as its condition.

    If Identity nodes copy this value to the body's output, returns the name of the original value.
    """
    producers = {name: node for node in body.node for name in node.output}
    name = body.output[0].name
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].input[0]
    return name


def count_steps(
    loop: onnx.NodeProto, body: onnx.GraphProto, values: Mapping[str, Array], enough: int
) -> int | None:
    """Return a loop's trip count, at most ``enough``; None if the trip count depends on data.

    The loop's condition is evaluated for iteration after iteration, until the condition is false,
    the loop's maximum trip count is reached, or ``enough`` iterations are counted. ``values`` are
    the constants of the enclosing graph, by name.
    """
    states = dict(zip([value.name for value in body.input[2:]], loop.input[2:], strict=True))
    nodes, leaves = _slice(body, set(states))
    inner = {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
    known: dict[str, Array] = {**values, **inner}
    known[body.input[1].name] = np.array(True)
    for name in leaves & set(states):
        if states[name] not in values:
            return None
        known[name] = values[states[name]]
    if not leaves <= {*known, body.input[0].name}:
        return None
    most = _most_steps(loop, values, enough)
    return None if most is None else _run(body, nodes, known, leaves & set(states), most)


def _most_steps(loop: onnx.NodeProto, values: Mapping[str, Array], enough: int) -> int | None:
    if not loop.input[0]:
        return enough
    limit = largest_count(loop, values)
    return None if limit is None else min(limit, enough)


def _slice(body: onnx.GraphProto, states: set[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """Return the nodes of a body on which the loop's condition depends in any iteration.

    Also returns the names of the values that these nodes read but do not compute. ``states`` are
    the names of the loop's states in the body.
    """
    producers = {name: node for node in body.node for name in node.output}
    updates = {value.name: body.output[1 + i].name for i, value in enumerate(body.input[2:])}
    found: set[int] = set()
    leaves: set[str] = set()
    pending = [body.output[0].name]
    while pending:
        name = pending.pop()
        if name in producers and id(producers[name]) not in found:
            found.add(id(producers[name]))
            pending.extend(filter(None, producers[name].input))
        elif name not in producers and name not in leaves:
            leaves.add(name)
            pending.extend([updates[name]] if name in states else [])
    return [node for node in body.node if id(node) in found], leaves


def _run(
    body: onnx.GraphProto,
    nodes: Sequence[onnx.NodeProto],
    known: dict[str, Array],
    counters: set[str],
    most: int,
) -> int | None:
    updates = {
        value.name: body.output[1 + index].name
        for index, value in enumerate(body.input[2:])
        if value.name in counters
    }
    for step in range(most):
        known[body.input[0].name] = np.array(step)
        if not all(_evaluate(node, known) for node in nodes):
            return None
        if not known[body.output[0].name].any():
            return step + 1
        known.update({name: known[update] for name, update in updates.items()})
    return most


def _evaluate(node: onnx.NodeProto, known: dict[str, Array]) -> bool:
    """Evaluate a node on its operands in ``known``, and add the results to ``known``.

    ``known`` has arrays by value name. Returns False, and adds nothing, if the node cannot be
    evaluated.
    """
    if node.domain not in ONNX_DOMAINS or node.op_type not in EVALUATORS:
        return False
    given = [known[name] if name else None for name in node.input]
    try:
        with np.errstate(all="ignore"):
            operation = Operation(node.op_type, attributes_of(node), given, len(node.output))
            found = EVALUATORS[node.op_type](operation)
    except (NotFoldableError, ArithmeticError, LookupError, TypeError, ValueError):
        return False
    known.update(zip(node.output, found, strict=False))
    return True
