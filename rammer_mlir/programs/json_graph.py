"""Defines graphs of ONNX operators as JSON, for engines that execute graphs instead of code.

Operators, their attributes and the order of their inputs are those of ONNX's default domain at
opset ``OPSET``. All tensors have static shapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT, VERSION = "rammer-graph", 2

_READABLE = (1, VERSION)
"""Versions that can be read; version 1 has only f32 tensors."""

ELEMENT_TYPES: Mapping[str, str] = {
    "f32": "float32", "f16": "float16", "i8": "int8", "i32": "int32", "i64": "int64"
}  # fmt: skip
"""NumPy's names of the element types of tensors; integers are signed."""

OPSET = 20
"""Version of ONNX's default operator set to which the operators belong."""

Value = int | float | str | Sequence[int] | Sequence[float]
"""The type of an attribute's value."""


@dataclass(frozen=True)
class GraphTensor:
    """An input or output of the graph: its name, its static shape and its MLIR element type."""

    name: str
    shape: tuple[int, ...]
    element_type: str = "f32"


@dataclass(frozen=True)
class GraphConstant:
    """A small constant of the graph, such as a shape or axes, with its values in row-major order.

    Its elements are i64 unless ``element_type`` names another type. Weights are inputs of the graph
    instead.
    """

    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...] | tuple[int, ...]
    element_type: str = "i64"


@dataclass(frozen=True)
class GraphNode:
    """An operator of ONNX and the names of its operands and results.

    Attributes:
        op: the operator's ONNX name.
        inputs: names of the operands; empty for omitted operands.
        outputs: names of the results.
        attributes: values by attribute name.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True)
class Graph:
    """A graph of operators.

    Attributes:
        name: name in messages.
        inputs: inputs, weights included, in the order in which an engine gets their buffers.
        outputs: outputs; an engine gets their buffers after the buffers of the inputs.
        constants: small constants.
        nodes: operators in topological order.
    """

    name: str
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    constants: tuple[GraphConstant, ...]
    nodes: tuple[GraphNode, ...]

    def to_json(self) -> bytes:
        """Return the graph as UTF-8 JSON, with its format, version and opset."""
        head = {"format": FORMAT, "version": VERSION, "opset": OPSET}
        return json.dumps(head | asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Graph:
        """Return the graph that ``content``, UTF-8 JSON from ``to_json``, describes.

        Raises:
            ValueError: if the content is not a graph of a readable version.
        """
        try:
            found: Any = json.loads(content)
        except RecursionError as error:
            raise ValueError("JSON nested too deeply") from error
        if not isinstance(found, dict):
            raise ValueError(f"a JSON {type(found).__name__} instead of an object")
        head = tuple(found.get(key) for key in ("format", "version", "opset"))
        if head not in [(FORMAT, version, OPSET) for version in _READABLE]:
            expected = ", ".join(map(str, (FORMAT, VERSION, OPSET)))
            raise ValueError(
                f"format, version and opset {', '.join(map(str, head))} instead of {expected}"
            )
        try:
            return cls._of(found)
        except KeyError as error:
            raise ValueError(f"no key {error}") from error
        except (TypeError, AttributeError) as error:
            raise ValueError(f"a key of another type ({error})") from error

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Graph:
        return cls(
            found["name"],
            tuple(map(_tensor, found["inputs"])),
            tuple(map(_tensor, found["outputs"])),
            tuple(map(_constant, found["constants"])),
            tuple(
                GraphNode(n["op"], tuple(n["inputs"]), tuple(n["outputs"]), n["attributes"])
                for n in found["nodes"]
            ),
        )


def _tensor(given: Mapping[str, Any]) -> GraphTensor:
    return GraphTensor(given["name"], tuple(given["shape"]), _type(given, "f32"))


def _constant(given: Mapping[str, Any]) -> GraphConstant:
    values = tuple(given["values"])
    # The first version has integers of i64 and f32 alone.
    default = "i64" if all(isinstance(value, int) for value in values) else "f32"
    return GraphConstant(given["name"], tuple(given["shape"]), values, _type(given, default))


def _type(given: Mapping[str, Any], default: str) -> str:
    found = given.get("element_type", default)
    if found not in ELEMENT_TYPES:
        raise ValueError(f"expected elements of {', '.join(ELEMENT_TYPES)}, found {found}")
    return found
