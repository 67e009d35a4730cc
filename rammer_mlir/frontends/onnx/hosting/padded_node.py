"""A node on open dimensions, as the rules of operators take it."""

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
    """A node, at least one operand of which has an open size.

    Attributes:
        kind: the operator's name.
        attributes: as evaluators take them.
        operands: None for those left out.
        inferred: shapes of its results with static sizes in place of open ones.
        demands: of the part.
    """

    kind: str
    attributes: Mapping[str, Any]  # each of the type that the operator says
    operands: Sequence[PartValue | None]
    inferred: Sequence[tuple[int, ...]]
    demands: Demands

    def find(self, number: int) -> PartValue | None:
        """Return an operand, None if it is left out."""
        return self.operands[number] if number < len(self.operands) else None

    def operand(self, number: int) -> PartValue:
        """Return an operand that has to be given.

        Raises:
            DependentRowsError: if it is left out.
        """
        found = self.find(number)
        if found is None:
            raise DependentRowsError
        return found

    def given(self) -> list[PartValue]:
        """Return all operands that are given."""
        return [value for value in self.operands if value is not None]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value, of the type that the operator says."""
        return self.attributes.get(name, default)

    def axes(self, rank: int, number: int = 1, default: Sequence[int] | None = None) -> list[int]:
        """Return the axes that an attribute or an operand gives, or the default ones.

        Raises:
            DependentRowsError: if they are not known.
        """
        given = self.attribute("axes")
        if given is None:
            value = self.find(number)
            given = value.integers() if value is not None else default
        if given is None:
            raise DependentRowsError
        return [axis % rank if rank else axis for axis in given]

    def require_static_axes(self, shape: Dims, axes: Sequence[int]) -> None:
        """Refuse axes along which rows influence each other, if they are open.

        Raises:
            DependentRowsError: if one is.
        """
        if any(isinstance(shape[axis], Padded) for axis in axes):
            raise DependentRowsError

    def require_static(self, *numbers: int) -> None:
        """Refuse operands that depend on open dimensions.

        Raises:
            DependentRowsError: if one does.
        """
        values = (self.find(number) for number in numbers)
        if not all(value is None or value.is_static for value in values):
            raise DependentRowsError
