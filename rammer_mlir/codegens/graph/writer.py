"""Builds a JSON graph by appending operators and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rammer_mlir.programs.json_graph import Graph, GraphConstant, GraphNode, GraphTensor, Value


class GraphWriter:
    """A JSON graph under construction; operators refer to tensors by their names."""

    def __init__(self) -> None:
        """Begin with an empty graph."""
        self._nodes: list[GraphNode] = []
        self._constants: dict[tuple[object, ...], GraphConstant] = {}

    def node(self, op: str, inputs: Sequence[str], out: str = "", **attributes: Value) -> str:
        """Append operator ``op``; return its result's name, ``out`` or a generated name."""
        name = out or f"t{len(self._nodes)}"
        self._nodes.append(GraphNode(op, tuple(inputs), (name,), attributes))
        return name

    def rename(self, name: str, out: str) -> None:
        """Rename the result of the last operator from ``name`` to ``out``."""
        last = self._nodes[-1]
        assert last.outputs == (name,), "only what nobody reads yet"
        self._nodes[-1] = replace(last, outputs=(out,))

    def integers(self, *values: int) -> str:
        """Return the name of the constant i64 vector ``values``; add it if the graph lacks it."""
        found = self._constants.setdefault(
            ("integers", *values), GraphConstant(f"c{len(self._constants)}", (len(values),), values)
        )
        return found.name

    def number(self, value: float, element_type: str = "f32") -> str:
        """Return the name of the scalar constant ``value``; add it if the graph lacks it."""
        name = f"c{len(self._constants)}"
        values = (float(value),) if element_type[0] == "f" else (int(value),)
        return self._constants.setdefault(
            ("number", repr(value), element_type), GraphConstant(name, (), values, element_type)
        ).name

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Append a reshape of ``value`` to ``shape``; return the name of its result."""
        return self.node("Reshape", [value, self.integers(*shape)])

    def graph(
        self, name: str, inputs: Sequence[GraphTensor], outputs: Sequence[GraphTensor]
    ) -> Graph:
        """Return the graph ``name`` of all appended operators, with these inputs and outputs."""
        constants = tuple(self._constants.values())
        return Graph(name, tuple(inputs), tuple(outputs), constants, tuple(self._nodes))
