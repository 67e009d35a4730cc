"""Defines an accepted match of a pattern: its readings, and the operands bound to names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rammer_mlir.passes.regions.reading import Operand, Reading

Names: TypeAlias = Mapping[str, Operand]
"""The operands that a match binds to a pattern's names, by name."""


@dataclass(frozen=True)
class Match:
    """An accepted match of a pattern in a graph of readings.

    Attributes:
        readings: the readings in the graph's order; the last is the root.
        numbers: the numbers of the readings in the graph.
        operands: the operands bound to the pattern's names, by name.
    """

    readings: tuple[Reading, ...]
    numbers: tuple[int, ...]
    operands: Names

    @property
    def root(self) -> Reading:
        """The reading of the composite's result."""
        return self.readings[-1]

    def __getitem__(self, name: str) -> Operand:
        """Return the operand that the pattern names ``name``."""
        return self.operands[name]

    def __contains__(self, name: str) -> bool:
        """Whether the match includes the part of the pattern that is named ``name``."""
        return name in self.operands
