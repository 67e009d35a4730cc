"""Replaces sequences to which loops only append by tensors that stack the sequences' elements.

PyTorch's exporter expresses ``ys.append(y)`` and ``torch.stack(ys)`` by such sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.folding.types import TensorKind
from rammer_mlir.frontends.onnx.loops.bodies import Body, Surroundings, body_of, copied, step_types
from rammer_mlir.frontends.onnx.model import set_graph_nodes
from rammer_mlir.frontends.onnx.node_writer import NodeWriter


@dataclass(frozen=True)
class Stacked:
    """A tensor that stacks a sequence's elements along dimension 0, and replaces the sequence.

    Attributes:
        name: name of the tensor, a result of the loop.
        element: shape of an element.
    """

    name: str
    element: tuple[int, ...]


def stack_appended(
    node: onnx.NodeProto, around: Surroundings, empty: Iterable[str]
) -> tuple[onnx.NodeProto, dict[str, Stacked]] | None:
    """Return a copy of a Loop that returns stacked tensors in place of sequences.

    Also return each stacked tensor by the name of the sequence that it replaces. A tensor replaces
    a sequence that is empty before the loop, to which each iteration appends a tensor of the same
    static shape, and that no iteration reads. Return None if the Loop has no such sequence, if an
    appended tensor has no elements, or if the type of a state or appended tensor is unknown.

    Args:
        node: the Loop, not modified.
        around: constants and types of the values outside of the loop.
        empty: names of the empty sequences outside of the loop.
    """
    body = Body(body_of(node), around)
    appended = _appended(body, node.input[2:], set(empty))
    types = step_types(body, node.input[2:], around) if appended else None
    if types is None:
        return None
    shapes = [types[name].shape if name in types else None for name in appended.values()]
    elements = [shape for shape in shapes if shape is not None and prod(shape)]
    if len(elements) < len(appended):
        return None
    names = [f"{node.name}/stack{number}" for number in appended]
    replaced = [node.output[number] for number in appended if number < len(node.output)]
    stacks = map(Stacked, names, elements)
    return _with_stacks(node, body, appended, names), dict(zip(replaced, stacks, strict=False))


def split(stack: Stacked, sequence: str) -> onnx.NodeProto:
    """Return the node that splits a stacked tensor into the sequence named ``sequence``."""
    name = f"{sequence}/split"
    return helper.make_node("SplitToSequence", [stack.name], [sequence], name, axis=0, keepdims=0)


def join(
    node: onnx.NodeProto, stack: Stacked, kind: TensorKind, write: NodeWriter
) -> dict[str, TensorKind]:
    """Emit nodes that replace a ConcatFromSequence whose sequence was replaced by a stacked tensor.

    The sequence must have at least one element.

    Args:
        node: the ConcatFromSequence, not modified.
        stack: the stacked tensor.
        kind: type of the stacked tensor.
        write: receives the new nodes.

    Returns:
        The type of the node's result, by the result's name.
    """
    assert kind.shape is not None
    given = {attribute.name: attribute.i for attribute in node.attribute}
    rank = len(stack.element)
    is_new = bool(given.get("new_axis", 0))
    axis = given["axis"] % (rank + is_new)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
    if is_new:
        write.named("Transpose", [stack.name], list(node.output), perm=order)
        sizes = [kind.shape[number] for number in order]
    else:
        sizes = list(stack.element)
        sizes[axis] *= kind.shape[0]
        turned = write.node("Transpose", [stack.name], perm=order)
        write.named("Reshape", [turned, write.integers(*sizes)], list(node.output))
    return {node.output[0]: TensorKind(kind.elem_type, tuple(sizes))}


def _appended(body: Body, states: Sequence[str], empty: set[str]) -> dict[int, str]:
    """Return the appended tensor of each sequence to which a loop only appends.

    Args:
        body: the body of the loop.
        states: names of the initial values of the loop-carried states, in order.
        empty: names of empty sequences outside of the loop.

    Returns:
        Names of the tensors that each iteration appends, by the index of the sequence among the
        states.
    """
    found: dict[int, str] = {}
    for number, state in enumerate(states):
        given, result = body.graph.input[2 + number].name, body.graph.output[1 + number].name
        insert = body.producers.get(body.behind(result))
        if state not in empty or insert is None or insert.op_type != "SequenceInsert":
            continue
        is_at_end = not any(insert.input[2:])
        once = all(body.uses[name] == 1 for name in (given, result, insert.output[0]))
        if is_at_end and once and insert.input[0] == given:
            found[number] = insert.input[1]
    return found


def _with_stacks(
    node: onnx.NodeProto, body: Body, appended: dict[int, str], names: Sequence[str]
) -> onnx.NodeProto:
    """Return a copy of a Loop that returns stacked tensors instead of carrying sequences.

    Args:
        node: the Loop.
        body: the Loop's body.
        appended: names of the tensors that an iteration appends, by the index of the sequence among
            the loop-carried states.
        names: names of the stacked tensors, in the order of ``appended``.
    """
    results = [f"{node.name}/result{number}" for number in range(len(body.graph.output) - 1)]
    results[: len(node.output)] = [name or results[n] for n, name in enumerate(node.output)]
    new = copied(node)
    del new.input[:], new.output[:]
    kept = [number for number in range(len(node.input) - 2) if number not in appended]
    new.input.extend([*node.input[:2], *(node.input[2 + number] for number in kept)])
    kept_results = [name for number, name in enumerate(results) if number not in appended]
    new.output.extend([*kept_results, *names])
    graph = body_of(new)
    dead = {output.name for n, output in enumerate(body.graph.output[1:]) if n in appended}
    dead |= {body.behind(name) for name in dead}
    set_graph_nodes(graph, [n for n in body.graph.node if dead.isdisjoint(n.output)])
    for number in sorted(appended, reverse=True):
        del graph.input[2 + number], graph.output[1 + number]
    for name, value in zip(names, appended.values(), strict=True):
        element = f"{name}/element"
        graph.node.append(helper.make_node("Identity", [value], [element], element))
        graph.output.append(onnx.ValueInfoProto(name=element))
    return new
