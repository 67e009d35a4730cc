"""Defines ``Node``, the argument of builders: an ONNX node, its operands, and their static facts.

Static facts are shapes, element types and constant values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rammer_mlir.bindings import ir
from rammer_mlir.errors import UnsupportedError
from rammer_mlir.frontends.onnx.builders.values import (
    Tensor,
    constant,
)
from rammer_mlir.frontends.onnx.tensors import Array
from rammer_mlir.passes.ir.scalar import DType


@dataclass(frozen=True)
class TensorFact:
    """Shape and element type of an operand or result, and its value if constant."""

    shape: tuple[int, ...]
    dtype: DType
    value: Array | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Node:
    """An ONNX node as the argument of its builder.

    Attributes:
        name: name of the node.
        op_type: the node's operator, of the standard domain.
        opset: version of the model's ONNX operator set.
        attributes: values by attribute name; strings are ``str``.
        inputs: facts of the node's inputs; None for omitted inputs.
        outputs: facts of the node's results; None for unused results.
        operands: during building, the IR values of inputs that are not constant, by input index.
    """

    name: str
    op_type: str
    opset: int
    attributes: dict[str, Any]  # types follow the operator's schema
    inputs: list[TensorFact | None]
    outputs: list[TensorFact | None]
    operands: dict[int, ir.Value] = field(default_factory=dict[int, ir.Value])

    def has(self, number: int) -> bool:
        """Return whether the node has the optional input with index ``number``."""
        return number < len(self.inputs) and self.inputs[number] is not None

    def fact(self, number: int) -> TensorFact:
        """Return the facts of the input with index ``number``.

        Raises:
            UnsupportedError: if the node omits this input.
        """
        fact = self.inputs[number] if number < len(self.inputs) else None
        if fact is None:
            raise self.unsupported(f"input {number} is missing")
        return fact

    def out(self, number: int = 0) -> TensorFact:
        """Return the facts of the result with index ``number``; the graph must use this result."""
        fact = self.outputs[number]
        assert fact is not None
        return fact

    def uses(self, number: int) -> bool:
        """Return whether the graph uses the node's result with index ``number``.

        The result is False if the node does not have this result.
        """
        return number < len(self.outputs) and self.outputs[number] is not None

    def attribute(self, name: str, default: object = None) -> Any:
        """Return the value of attribute ``name``; ``default`` if the node omits it.

        The value has the type that ONNX's schema of the operator gives the attribute.
        """
        return self.attributes.get(name, default)

    def axis(self, name: str, default: int, rank: int) -> int:
        """Return the value of attribute ``name`` as a dimension index from 0 to ``rank - 1``.

        A negative value of the attribute counts from the last dimension. An omitted attribute has
        the value ``default``.
        """
        return int(self.attributes.get(name, default)) % max(rank, 1)

    def constant(self, number: int) -> Array | None:
        """Return the constant value of the input with index ``number``.

        Return None if this input is omitted, or its value is not constant.
        """
        fact = self.inputs[number] if number < len(self.inputs) else None
        return None if fact is None else fact.value

    def integers(self, number: int, attribute: str | None = None) -> list[int] | None:
        """Return integers that the node has as an attribute or, in other opsets, as an input.

        Args:
            number: index of the input, which is used if the node does not have the attribute.
            attribute: name of the attribute; None if only the input is possible.

        Returns:
            The integers; None if the node omits both.

        Raises:
            UnsupportedError: if the node omits the attribute and the input is not constant.
        """
        if attribute is not None and attribute in self.attributes:
            return list(self.attributes[attribute])
        if not self.has(number):
            return None
        value = self.constant(number)
        if value is None:
            raise self.unsupported(f"input {number} must be constant")
        return [int(x) for x in value.reshape(-1)]

    def tensor(self, number: int) -> Tensor:
        """Return the input with index ``number`` as a tensor.

        A constant input is emitted as a constant operation.
        """
        fact = self.fact(number)
        if fact.value is not None:
            return constant(fact.value)
        return Tensor(self.operands[number], fact.dtype)

    def tensors(self) -> Sequence[Tensor]:
        """Return all inputs as tensors; constant inputs are emitted as constant operations."""
        return [self.tensor(number) for number in range(len(self.inputs))]

    def unsupported(self, reason: str) -> UnsupportedError:
        """Return an error that names the node; ``reason`` tells why it cannot be compiled."""
        return UnsupportedError(f"'{self.name}' ({self.op_type}): {reason}")


Builder = Callable[[Node], Tensor | Sequence[Tensor | None]]
"""A function that emits a node's operations and returns its results; None for unused results."""
