"""Defines a match of a pattern: the matched operations, and the operands bound to wildcards.

An operation is a reading: IR operations recognized as a known tensor operation, such as a
convolution (``reading.py``). A wildcard is a pattern of any
value, with or without a name. A match binds the name to the operand that the wildcard matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rammer_mlir.passes.regions.reading import Operand, Reading

Names: TypeAlias = Mapping[str, Operand]
"""The operands that a match binds to a pattern's names, by name."""


@dataclass(frozen=True)
class Match:
    """An accepted match of a pattern in a graph of readings (recognized tensor operations).

    Attributes:
        readings: the matched readings in the graph's order; the last reading is the root.
        numbers: the index in the graph of each matched reading.
        operands: the operand that the match binds to each named wildcard, by the wildcard's name.
    """

    readings: tuple[Reading, ...]
    numbers: tuple[int, ...]
    operands: Names

    @property
    def root(self) -> Reading:
        """The last operation of the match, whose output is the result of the matched pattern."""
        return self.readings[-1]

    def __getitem__(self, name: str) -> Operand:
        """Return the operand that the match binds to ``name``, the name of one or more wildcards.

        A wildcard is a pattern of any value.
        """
        return self.operands[name]

    def __contains__(self, name: str) -> bool:
        """Whether the match binds a wildcard (a pattern of any value) named ``name``.

        A wildcard in an alternative that the match does not use is not bound.
        """
        return name in self.operands
