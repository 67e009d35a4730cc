"""A match of a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rammer_mlir.passes.regions.reading import Operand, Reading

Names: TypeAlias = Mapping[str, Operand]
"""Values by the names that a pattern gives them."""


@dataclass(frozen=True)
class Match:
    """An accepted match.

    Attributes:
        readings: in the graph's order; the last one is the root.
        numbers: of the readings in the graph.
        operands: the values that the pattern names.
    """

    readings: tuple[Reading, ...]
    numbers: tuple[int, ...]
    operands: Names

    @property
    def root(self) -> Reading:
        """The reading of the composite's result."""
        return self.readings[-1]

    def __getitem__(self, name: str) -> Operand:
        """Return the value that the pattern gives a name."""
        return self.operands[name]

    def __contains__(self, name: str) -> bool:
        """Whether the part of the pattern that has this name is in the match."""
        return name in self.operands
