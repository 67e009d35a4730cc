"""Recomputes values that depend only on shapes, inside each part that reads the values.

If the host computed such values and passed them to a part, the part would need a specialization
for each combination of their elements. With recomputation, the sizes of the part's inputs alone
distinguish specializations, and the values are constants in each specialization.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from rammer_mlir.frontends.onnx.hosting.operators import is_light
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import ONNX_DOMAINS, value_infos

SHAPE_OPERATORS = ("Shape", "Size")


class ShapeChains:
    """Finds, among the nodes that the host evaluates, those that compute a value from shapes.

    Such nodes form a chain, which begins with Shape or Size. Every later node reads only results of
    the chain, or constants.
    """

    def __init__(self, model: Model, host_nodes: Sequence[onnx.NodeProto]) -> None:
        """Store ``host_nodes``, the nodes of ``model`` that the host evaluates, in order."""
        self._nodes = host_nodes
        self._producers = {
            name: number
            for number, node in enumerate(host_nodes)
            for name in filter(None, node.output)
        }
        self._constants = {t.name for t in model.graph.initializer} | model.weights.keys()
        self._types = value_infos(model.graph)

    def nodes_for(self, names: Iterable[str], given: set[str]) -> list[onnx.NodeProto]:
        """Return the nodes that compute the values ``names`` from shapes alone, in execution order.

        A value that also depends on the elements of tensors contributes no nodes.

        Args:
            names: names of the values that a part shall recompute.
            given: names of the part's inputs before recomputation. A specialization of the part
                fixes the sizes of these inputs in any case.
        """
        found: set[int] = set()
        for name in names:
            found |= self._chain(name, given) or set()
        return [self._nodes[number] for number in sorted(found)]

    def _chain(self, name: str, given: set[str]) -> set[int] | None:
        """Return the indices of the host's nodes that compute the value ``name`` from shapes alone.

        Return None if the value also depends on the elements of tensors. ``given`` has the names of
        the part's inputs before recomputation.
        """
        if name in self._constants:
            return set()
        number = self._producers.get(name)
        if number is None:
            return None
        node = self._nodes[number]
        if node.op_type in SHAPE_OPERATORS and node.domain in ONNX_DOMAINS:
            return {number} if self._is_shaped(node.input[0], given) else None
        if not is_light(node):
            return None
        chains = [self._chain(operand, given) for operand in node.input if operand]
        behind = [chain for chain in chains if chain is not None]
        return None if len(behind) < len(chains) else {number}.union(*behind)

    def _is_shaped(self, name: str, given: set[str]) -> bool:
        """Return whether a part may get the tensor ``name`` as an input, to read its sizes.

        The tensor's rank must be known. In addition, the tensor must be an input of the part before
        recomputation (``given``), or have at most one open size, because the part needs a
        specialization for each combination of open sizes.
        """
        if name not in self._types or not self._types[name].type.HasField("tensor_type"):
            return False
        tensor = self._types[name].type.tensor_type
        if not tensor.HasField("shape"):
            return False
        opened = [dim for dim in tensor.shape.dim if not dim.HasField("dim_value")]
        return name in given or len(opened) <= 1
