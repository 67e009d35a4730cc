"""Differentiate in reverse mode: apply each node's gradient rule, from the loss backwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rammer_mlir.benchmarks.models.builder import Value
from rammer_mlir.benchmarks.models.gradients.graph import ExtendedGraph
from rammer_mlir.benchmarks.models.gradients.rules import RULES
from rammer_mlir.errors import ModelError


def add_gradients(g: ExtendedGraph, loss: str, by: Sequence[str]) -> dict[str, Value]:
    """Add nodes that differentiate a loss; return its gradient for each value named in ``by``.

    Args:
        g: the graph that has the loss, and to which the nodes are added.
        loss: name of the loss, a value with one element.
        by: names of the values with respect to which the loss is differentiated.

    Returns:
        The gradients, keyed by the names in ``by``.

    Raises:
        ModelError: if the loss has more than one element, does not depend on a value in ``by``, or
            depends on it through an operator without a gradient rule.
    """
    value = g.value(loss)
    if any(size != 1 for size in value.shape):
        raise ModelError(f"loss '{loss}': expected one element, found shape {list(value.shape)}")
    dependent = _dependent(g, by)
    found = {loss: g.constant(np.ones(value.shape, g.dtype(value).name), "one")}
    for node in reversed(g.nodes):
        results = [found.get(output.name) for output in node.outputs]
        if all(result is None for result in results) or node.outputs[0].name not in dependent:
            continue
        if node.op_type not in RULES:
            raise ModelError(
                f"node '{node.name}': expected an operator with a gradient, found "
                f"'{node.op_type}'; use others ({', '.join(RULES)})"
            )
        gradients = RULES[node.op_type](g, node, results)
        # A rule may return fewer gradients than inputs if the last inputs are constants.
        for operand, gradient in zip(node.inputs, gradients, strict=False):
            if operand is None or gradient is None or operand.name not in dependent:
                continue
            before = found.get(operand.name)
            found[operand.name] = gradient if before is None else g.op("Add", before, gradient)
    for name in by:
        if name not in found:
            raise ModelError(f"'{name}': expected a value that the loss '{loss}' depends on")
    return {name: found[name] for name in by}


def _dependent(g: ExtendedGraph, by: Collection[str]) -> set[str]:
    found = set(by)
    for node in g.nodes:
        if any(operand is not None and operand.name in found for operand in node.inputs):
            found.update(output.name for output in node.outputs)
    return found
