"""Defines ``PaddedNode``, which describes an ONNX node to the rules that check padding.

A rule belongs to an operator. It decides whether a node stays correct if an open dimension (of
unknown size) is padded to a larger size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rammer_mlir.frontends.onnx.hosting.padded_values import (
    Demands,
    DependentRowsError,
    Dim,
    Padded,
    PartValue,
)

Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class PaddedNode:
    """A node of a part (a subgraph to compile), with an open dimension in at least one operand.

    Attributes:
        kind: name of the operator.
        attributes: values by name, as evaluators expect them.
        operands: facts about the node's operands; None for omitted operands.
        inferred: shapes of the node's results by ONNX's inference, with the size ``STAND_IN`` for
            all open dimensions.
        demands: requirements on the part's inputs that make padding correct; rules add
            requirements.
    """

    kind: str
    attributes: Mapping[str, Any]  # types follow the operator's schema
    operands: Sequence[PartValue | None]
    inferred: Sequence[tuple[int, ...]]
    demands: Demands

    def find(self, number: int) -> PartValue | None:
        """Return the facts about operand ``number``; None if the node omits it."""
        return self.operands[number] if number < len(self.operands) else None

    def operand(self, number: int) -> PartValue:
        """Return the facts about operand ``number``.

        Raises:
            DependentRowsError: if the node omits the operand.
        """
        found = self.find(number)
        if found is None:
            raise DependentRowsError
        return found

    def given(self) -> list[PartValue]:
        """Return the facts about all operands that are not omitted, in order."""
        return [value for value in self.operands if value is not None]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of attribute ``name``; ``default`` if the node omits it.

        The value has the type that ONNX's schema of the operator gives the attribute.
        """
        return self.attributes.get(name, default)

    def axes(self, rank: int, number: int = 1, default: Sequence[int] | None = None) -> list[int]:
        """Return the node's axes, in the range 0 to ``rank - 1``.

        The axes are those of the attribute ``axes``. Without this attribute they are the elements
        of operand ``number``, and without this operand they are ``default``.

        Raises:
            DependentRowsError: if the axes are not known integers, or all three sources are
                missing.
        """
        given = self.attribute("axes")
        if given is None:
            value = self.find(number)
            given = value.integers() if value is not None else default
        if given is None:
            raise DependentRowsError
        return [axis % rank if rank else axis for axis in given]

    def require_static_axes(self, shape: Dims, axes: Sequence[int]) -> None:
        """Refuse a node that mixes elements along ``axes`` if any of these axes is open.

        ``shape`` is the shape of the node's data.

        Raises:
            DependentRowsError: if an axis is an open dimension of ``shape``.
        """
        if any(isinstance(shape[axis], Padded) for axis in axes):
            raise DependentRowsError

    def require_static(self, *numbers: int) -> None:
        """Refuse a node if any of the operands ``numbers`` depends on open dimensions.

        Raises:
            DependentRowsError: if any of these operands depends on open dimensions.
        """
        values = (self.find(number) for number in numbers)
        if not all(value is None or value.is_static for value in values):
            raise DependentRowsError
