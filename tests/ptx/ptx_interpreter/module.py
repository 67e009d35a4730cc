"""The parsed form of PTX text: variables, instructions and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """A PTX variable.

    Attributes:
        name: name of the variable.
        space: state space, such as "shared".
        alignment, num_bytes: alignment and size in bytes.
        content: initial content; empty without an initial value.
    """

    name: str
    space: str
    alignment: int
    num_bytes: int
    content: bytes


@dataclass(frozen=True)
class Instruction:
    """A PTX instruction.

    Attributes:
        line: number of the instruction's line in the text, from 1.
        text: the statement on one line.
        opcode: opcode with all qualifiers, such as ``ld.global.v4.b32``.
        operands: operands as they are written.
        guard: predicate register of the guard; None without a guard.
        is_negated: whether the instruction executes if the guard is false.
    """

    line: int
    text: str
    opcode: str
    operands: tuple[str, ...]
    guard: str | None = None
    is_negated: bool = False

    @property
    def name(self) -> str:
        """The opcode without qualifiers, such as ``ld``."""
        return self.opcode.partition(".")[0]

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The qualifiers of the opcode, such as ``("global", "v4", "b32")``."""
        return tuple(self.opcode.split(".")[1:])

    def __str__(self) -> str:
        """Return the line number and the statement, for messages."""
        return f"line {self.line}: '{self.text}'"


@dataclass(frozen=True)
class Kernel:
    """A kernel, or a function before it is inlined.

    Attributes:
        name: symbol of the kernel.
        parameters: names of the parameters in order, each of 8 bytes.
        registers: number of bits of each register, 1 for predicates; registers declared together,
            such as ``%r<9>``, are under their prefix ``%r``.
        variables: shared and local variables that the kernel declares.
        instructions: instructions in order.
        labels: for each label, the index of the instruction after it.
        targets: for each branch table, its labels.
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
    """A PTX file: its kernels by name, and the variables that are declared outside of kernels."""

    kernels: Mapping[str, Kernel]
    variables: tuple[Variable, ...]
