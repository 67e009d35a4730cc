"""Translates an error of ONNX's shape inference to a one-line message that names the node."""

from __future__ import annotations

import re

import onnx

from rammer_mlir.frontends.onnx.node_rules import first_problem
from rammer_mlir.frontends.onnx.tensors import label, small_constants, type_text, value_infos

INFERENCE_FAULTS = (
    onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError, OverflowError,
    IndexError,
)  # fmt: skip
"""Exceptions of ONNX's shape inference, including those for invalid numbers."""

_NODE = re.compile(r"\(op_type:(?P<op>[^,)]*)(?:, node name: (?P<name>.*?))?\): (?P<text>[^\n]*)")
_KIND = re.compile(r"\[\w+Error\]\s*")


def inference_error(model: onnx.ModelProto, message: str) -> str:
    """Return an error message for the first node at which shape inference fails.

    The message contains the problem that the checks of ``node_rules`` find. If they find none, it
    contains the reason in ``message``, and the names and types of the node's inputs.

    Args:
        model: the model for which shape inference fails.
        message: the error message of ONNX's shape inference.
    """
    found = _NODE.search(message)
    # For a node in a subgraph, the enclosing node is listed first.
    while found is not None and (inner := _NODE.search(found["text"])):
        found = inner
    if found is None:
        return f"the model's shapes contradict each other: {_plain(message)}"
    node = _find(model.graph, found["op"], found["name"] or "")
    if node is None:
        return f"'{found['name']}' ({found['op']}) is not valid: {_plain(found['text'])}"
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except INFERENCE_FAULTS:  # some faults raise in non-strict mode too
        inferred = model.graph
    # Our rules state expected and found values; inference often does not.
    problem = first_problem(inferred, small_constants(inferred))
    if problem is not None:
        return problem
    operands = _operands(inferred, node)
    return f"{label(node)} is not valid: {_plain(found['text'])}; its inputs are {operands}"


def _plain(message: str) -> str:
    lines = _KIND.sub("", message).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else "no reason given"


def _find(graph: onnx.GraphProto, operator: str, name: str) -> onnx.NodeProto | None:
    return next((n for n in graph.node if (n.op_type, n.name) == (operator, name)), None)


def _operands(inferred: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """Return the names, types and shapes of a node's inputs of known type, as text for a message.

    If no input has a known type, the text is ``of unknown types``.
    """
    types = {name: value.type.tensor_type for name, value in value_infos(inferred).items()}
    for tensor in inferred.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(
            tensor.data_type, list(tensor.dims)
        ).tensor_type
    given = [f"'{name}' {type_text(types[name])}" for name in node.input if name in types]
    return ", ".join(given) or "of unknown types"
