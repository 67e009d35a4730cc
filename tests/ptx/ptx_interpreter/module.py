"""What the parser finds in PTX text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """A variable of a state space: its alignment and size in bytes, and what it begins with."""

    name: str
    space: str
    alignment: int
    num_bytes: int
    content: bytes


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        line: where it stands, from 1.
        text: the statement, on one line.
        opcode: with all qualifiers, such as ``ld.global.v4.b32``.
        operands: as they are written.
        guard: the predicate register, None where it always executes.
        is_negated: whether it executes where the guard does not hold.
    """

    line: int
    text: str
    opcode: str
    operands: tuple[str, ...]
    guard: str | None = None
    is_negated: bool = False

    @property
    def name(self) -> str:
        """The opcode without qualifiers."""
        return self.opcode.partition(".")[0]

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """What follows the opcode's name."""
        return tuple(self.opcode.split(".")[1:])

    def __str__(self) -> str:
        """Say which one it is."""
        return f"line {self.line}: '{self.text}'"


@dataclass(frozen=True)
class Kernel:
    """An entry.

    Attributes:
        name: its symbol.
        parameters: in order, of 8 bytes each.
        registers: bits of each register, 1 for predicates; families such as ``%r<9>`` by prefix.
        variables: shared and local ones that it declares.
        instructions: in order.
        labels: number of the instruction that each one stands before.
        targets: labels of each branch table.
    """

    name: str
    parameters: tuple[str, ...]
    registers: Mapping[str, int]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    targets: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class PtxModule:
    """The kernels by name, and the variables of the whole text."""

    kernels: Mapping[str, Kernel]
    variables: tuple[Variable, ...]
