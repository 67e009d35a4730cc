"""Defines ``Call``: a node of a contrib operator, with a writer for the nodes that replace it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper

from rammer_mlir.errors import ModelError, UnsupportedError
from rammer_mlir.frontends.onnx.folding.types import TensorKind, infer_node
from rammer_mlir.frontends.onnx.model import Model
from rammer_mlir.frontends.onnx.node_writer import NodeWriter
from rammer_mlir.frontends.onnx.tensors import Array, dtype_of, opset

CONTRIB_DOMAIN = "com.microsoft"

AXES_ARE_INPUTS = 18
"""The first opset in which ReduceMean has its axes as an input, not as an attribute."""

_T = TypeVar("_T", int, float, str, list[int], list[float])


class TypedWriter(NodeWriter):
    """A writer of nodes that infers and records the types of their results."""

    def __init__(
        self,
        model: Model,
        prefix: str,
        kinds: dict[str, TensorKind],
        values: MutableMapping[str, Array],
    ) -> None:
        """Create a writer of nodes whose names begin with ``prefix``.

        ``kinds`` has the types of the model's values, and ``values`` the arrays of its constants,
        both by name. The writer adds to ``kinds`` the type of each result and constant that it
        creates, and to ``values`` each constant.
        """
        super().__init__(model, prefix)
        self.opset = opset(model.proto)
        self._kinds = kinds
        self._values = values

    def constant(self, value: Array) -> str:
        """Add an initializer with ``value``, record its type, and return its name."""
        name = super().constant(value)
        self._kinds[name], self._values[name] = TensorKind.of(value), value
        return name

    def named(self, operator: str, inputs: object, results: object, **attributes: object) -> None:
        """Add a node of ``operator`` with the given result names, and record the results' types.

        ``inputs`` and ``results`` are sequences of value names.
        """
        super().named(operator, inputs, results, **attributes)  # pyright: ignore[reportArgumentType]
        self._kinds.update(infer_node(self.nodes[-1], self.opset, self._kinds, self._values))


def contrib_label(node: onnx.NodeProto) -> str:
    """Return name, domain and operator of a node, as text for messages."""
    name = node.name or next(filter(None, node.output), "")
    return f"'{name}' ({node.domain}.{node.op_type})"


@dataclass(frozen=True)
class Call:
    """A node of a contrib operator, and emitters of nodes that replace it.

    Attributes:
        node: the node.
        kinds: known types of the graph's values, by name.
        values: values of constants, by name.
        write: collects the nodes of the replacement.
    """

    node: onnx.NodeProto
    kinds: Mapping[str, TensorKind]
    values: Mapping[str, Array]
    write: TypedWriter

    def find(self, number: int) -> str:
        """Return the name of the value of input ``number``; empty if omitted."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the static shape of the value ``name``.

        Raises:
            ModelError: if the shape is unknown.
        """
        shape = self.kinds[name].shape if name in self.kinds else None
        if shape is None:
            raise ModelError(
                f"{contrib_label(self.node)} is not valid: expected inputs and attributes that fit "
                "each other, found others"
            )
        return shape

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the static shape of input ``number``."""
        return self.shape_of(self.find(number))

    def dtype(self, number: int = 0) -> np.dtype[np.generic]:
        """Return the element type of input ``number``."""
        return dtype_of(self.kinds[self.find(number)].elem_type)

    def is_string(self, number: int) -> bool:
        """Return whether input ``number`` is known to be a string tensor."""
        kind = self.kinds.get(self.find(number))
        return kind is not None and kind.elem_type == TensorProto.STRING

    def value(self, number: int, name: str) -> Array:
        """Return the constant value of input ``number``; messages call this input ``name``.

        Raises:
            UnsupportedError: if the input is not constant.
        """
        found = self.values.get(self.find(number))
        if found is None:
            raise self.refusal(f"input '{name}' has to be constant: make it an initializer")
        return found

    def attribute(self, name: str, default: _T) -> _T:
        """Return the value of attribute ``name``, or ``default`` if the node omits it.

        Raises:
            ModelError: if the value is not of the type of ``default``.
        """
        found = next((a for a in self.node.attribute if a.name == name), None)
        if found is None:
            return default
        value = helper.get_attribute_value(found)
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        self.expect(
            isinstance(value, type(default)), f"{name}: a {type(default).__name__}", repr(value)
        )
        return value  # pyright: ignore[reportReturnType]  # of the default's type

    def required(self, name: str) -> int:
        """Return the value of ``name``, a required attribute that is a positive integer.

        Raises:
            ModelError: if the attribute is missing or not positive.
        """
        value = self.attribute(name, 0)
        if value <= 0:
            raise ModelError(
                f"{contrib_label(self.node)} is not valid: {name}: expected at least 1, found "
                f"{value}"
            )
        return value

    def refusal(self, reason: str) -> UnsupportedError:
        """Return the error that refuses the node for ``reason``."""
        return UnsupportedError(f"not supported: {contrib_label(self.node)}: {reason}")

    def expect(self, condition: bool, expected: str, found: object) -> None:
        """Refuse the node as invalid unless ``condition`` is true.

        Args:
            condition: whether the checked operand or attribute is valid.
            expected: description of a valid value, for the message.
            found: the value that the node has, for the message.

        Raises:
            ModelError: if ``condition`` is false.
        """
        if not condition:
            raise ModelError(
                f"{contrib_label(self.node)} is not valid: expected {expected}, found {found}"
            )

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Emit a node of ``operator`` with a single result; return the result's name."""
        return self.write.node(operator, inputs, **attributes)

    def uses(self, number: int) -> bool:
        """Return whether the node has result ``number``, that is, does not omit it."""
        return number < len(self.node.output) and bool(self.node.output[number])

    def finish(self, value: str, number: int = 0) -> None:
        """Emit an Identity that gives ``value`` the name of the node's result ``number``.

        Nothing is emitted if the result is unused.
        """
        if self.uses(number):
            self.write.named("Identity", [value], [self.node.output[number]])

    def scalar(self, value: float, like: str = "") -> str:
        """Emit a scalar of the dtype of value ``like``, by default of input 0; return its name."""
        kind = self.kinds[like or self.find(0)].elem_type
        return self.write.constant(np.array(value, dtype_of(kind)))

    def cast(self, value: str, kind: int) -> str:
        """Emit a Cast of ``value`` to the ONNX element type ``kind``; return the result's name.

        If ``value`` has this type already, nothing is emitted, and ``value`` is returned.
        """
        return value if self.kinds[value].elem_type == kind else self.op("Cast", value, to=kind)

    def sum(self, *names: str) -> str:
        """Emit the sum of the values ``names``, skipping empty names; return the result's name."""
        first, *rest = filter(None, names)
        for name in rest:
            first = self.op("Add", first, name)
        return first

    def reshape(self, value: str, *shape: int) -> str:
        """Emit a Reshape of ``value`` to ``shape``; return the result's name.

        Size 0 copies a dimension, and -1 is computed from the other sizes.
        """
        return self.op("Reshape", value, self.write.integers(*shape))

    def transpose(self, value: str, *order: int) -> str:
        """Emit a Transpose of ``value`` with permutation ``order``; return the result's name."""
        return self.op("Transpose", value, perm=list(order))

    def mean(self, value: str, axis: int) -> str:
        """Emit the mean of ``value`` over dimension ``axis`` and all later dimensions.

        Returns the result's name. The reduced dimensions are kept with size 1.
        """
        rank = len(self.shape_of(value))
        self.expect(-rank <= axis < rank, f"an axis from {-rank} to {rank - 1}", axis)
        axes = list(range(axis % rank, rank))
        if self.write.opset < AXES_ARE_INPUTS:
            return self.op("ReduceMean", value, axes=axes, keepdims=1)
        return self.op("ReduceMean", value, self.write.integers(*axes), keepdims=1)
