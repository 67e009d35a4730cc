"""Defines ``NodeWriter``, which emits ONNX nodes and initializers with new names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.tensors import Array


class NodeWriter:
    """Emits the nodes that replace a node; all new names begin with the replaced node's name."""

    def __init__(self, model: Model, prefix: str) -> None:
        """Create a writer without nodes; names of new nodes and values begin with ``prefix``.

        New constants are added to ``model``; new nodes are collected in the attribute ``nodes``.
        """
        self.model = model
        self._prefix = prefix
        self._count = 0
        self.nodes: list[onnx.NodeProto] = []

    def fresh(self) -> str:
        """Return a new name that begins with the prefix."""
        self._count += 1
        return f"{self._prefix}/{self._count}"

    def constant(self, value: Array) -> str:
        """Add an initializer with ``value`` to the model and return the initializer's name."""
        name = self.fresh()
        self.model.add_constant(name, np.ascontiguousarray(value).reshape(value.shape))
        return name

    def integers(self, *values: int) -> str:
        """Add an initializer, the int64 vector ``values``, to the model and return its name."""
        return self.constant(np.array(values, dtype=np.int64))

    def node(self, operator: str, inputs: Sequence[str], **attributes: object) -> str:
        """Add a node of ``operator`` with a single result and return the result's name."""
        return self.node_with_results(operator, inputs, 1, **attributes)[0]

    def node_with_results(
        self, operator: str, inputs: Sequence[str], count: int, **attributes: object
    ) -> list[str]:
        """Add a node of ``operator`` with ``count`` results and return their names."""
        results = [self.fresh() for _ in range(count)]
        self.named(operator, inputs, results, **attributes)
        return results

    def named(
        self, operator: str, inputs: Sequence[str], results: Sequence[str], **attributes: object
    ) -> None:
        """Add a node of ``operator`` whose results are named ``results``.

        Attributes with the value None are omitted.
        """
        name = f"{self._prefix}/{operator}_{len(self.nodes)}"
        node = helper.make_node(operator, inputs, results, name=name)
        node.attribute.extend(
            helper.make_attribute(key, value)
            for key, value in sorted(attributes.items())
            if value is not None
        )
        self.nodes.append(node)

    def part(self, value: str, start: int, end: int, axis: int = 0) -> str:
        """Add a Slice of ``value`` along dimension ``axis``; return the result's name.

        The result has the indices from ``start`` up to, but without, ``end``.
        """
        bounds = [self.integers(start), self.integers(end), self.integers(axis)]
        return self.node("Slice", [value, *bounds])

    def element(self, value: str, index: int, axis: int = 0) -> str:
        """Add nodes that take the slice of ``value`` at ``index`` along ``axis``.

        Returns the name of the slice, which lacks this axis.
        """
        return self.node("Squeeze", [self.part(value, index, index + 1, axis), self.integers(axis)])
