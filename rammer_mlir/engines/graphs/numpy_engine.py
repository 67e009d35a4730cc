"""Implements the engine ``numpy``: a slow reference that evaluates operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rammer_mlir.engines.graphs.entry import array_at, constant_array, opened, read_graph
from rammer_mlir.engines.graphs.numpy_operators import OPERATORS
from rammer_mlir.engines.host import EntryHost, OpenEntry
from rammer_mlir.errors import TargetError
from rammer_mlir.evaluators.operation import Evaluator, Operation
from rammer_mlir.evaluators.table import EVALUATORS
from rammer_mlir.programs.json_graph import Graph, GraphNode

_KNOWN: Mapping[str, Evaluator] = {**EVALUATORS, **OPERATORS}


class NumPyEngine:
    """An engine that evaluates a graph on NumPy arrays, operator by operator.

    The arrays of an operator have the element types of the graph.
    """

    name: ClassVar[str] = "numpy"

    def open(self, host: EntryHost) -> OpenEntry:
        """Check that the engine knows all operators of a module's graph; return the graph's entry.

        Raises:
            TargetError: if the engine does not know an operator; the message names the first such
                operator.
        """
        graph, weights = read_graph(host)
        for node in graph.nodes:
            if node.op not in _KNOWN:
                raise TargetError(
                    f"module '{host.module.name}': expected operators that the engine numpy knows, "
                    f"found '{node.op}'; choose another engine"
                )
        outputs = {tensor.name: tensor for tensor in graph.outputs}
        inputs = [tensor for tensor in graph.inputs if tensor.name not in weights]

        def run(addresses: Mapping[str, int]) -> None:
            given = {t.name: array_at(t, addresses[t.name]) for t in inputs}
            found = evaluate(graph, weights | given)
            for name, tensor in outputs.items():
                array_at(tensor, addresses[name])[...] = found[name]

        return opened(graph, weights, run)


def evaluate(graph: Graph, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of all tensors of a graph, by name, intermediate results included.

    Args:
        graph: graph of known operators.
        values: arrays of all inputs, by name.
    """
    found = dict(values)
    for constant in graph.constants:
        found[constant.name] = constant_array(constant)
    for node in graph.nodes:
        found[node.outputs[0]] = _evaluate(node, found)
    return found


def _evaluate(node: GraphNode, values: Mapping[str, Any]) -> Any:
    inputs = [values[name] if name else None for name in node.inputs]
    with np.errstate(all="ignore"):
        (result,) = _KNOWN[node.op](Operation(node.op, node.attributes, inputs))
    return result
