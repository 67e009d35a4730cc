"""Graphs of operators as JSON: what engines run that know operators, and no code.

Operators, their attributes and the order of their inputs are ONNX's, of one version of its default
domain. All tensors are f32 and of static shape, unless an operator says else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT, VERSION = "rammer-graph", 1

OPSET = 20
"""The version of ONNX's operators."""

Value = int | float | str | Sequence[int] | Sequence[float]
"""An attribute's value."""


@dataclass(frozen=True)
class GraphTensor:
    """A tensor that the graph reads or computes: its name, and its static shape."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class GraphConstant:
    """Numbers that belong to the graph, not to the model's weights; integers are i64."""

    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...] | tuple[int, ...]

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers, as shapes and axes are."""
        return all(isinstance(value, int) for value in self.values)


@dataclass(frozen=True)
class GraphNode:
    """An operator: its name, the names of its inputs (empty if left out) and of its results."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True)
class Graph:
    """A graph of operators.

    Attributes:
        name: in messages.
        inputs: in the order of the buffers that an engine gets; weights are among them.
        outputs: in the order of the buffers behind those.
        constants: small numbers.
        nodes: in an order in which they can run.
    """

    name: str
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    constants: tuple[GraphConstant, ...]
    nodes: tuple[GraphNode, ...]

    def to_json(self) -> bytes:
        """Return the graph as JSON."""
        head = {"format": FORMAT, "version": VERSION, "opset": OPSET}
        return json.dumps(head | asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Graph:
        """Read a graph.

        Raises:
            ValueError: if it is none, or of another version.
        """
        found: Any = json.loads(content)
        head = (found.get("format"), found.get("version"), found.get("opset"))
        if head != (FORMAT, VERSION, OPSET):
            raise ValueError(f"expected a graph {(FORMAT, VERSION, OPSET)}, found {head}")
        return cls(
            found["name"],
            tuple(GraphTensor(t["name"], tuple(t["shape"])) for t in found["inputs"]),
            tuple(GraphTensor(t["name"], tuple(t["shape"])) for t in found["outputs"]),
            tuple(
                GraphConstant(c["name"], tuple(c["shape"]), tuple(c["values"]))
                for c in found["constants"]
            ),
            tuple(
                GraphNode(n["op"], tuple(n["inputs"]), tuple(n["outputs"]), n["attributes"])
                for n in found["nodes"]
            ),
        )
