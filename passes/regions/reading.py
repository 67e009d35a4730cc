"""Defines readings: tensor operations, such as a convolution, that are recognized in the IR.

A reading describes the operation independently of its form in the IR.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rammer_mlir.passes.regions.expressions import Expression

Attribute: TypeAlias = (
    bool | int | float | str | tuple[int, ...] | tuple[tuple[int, ...], ...] | Expression
)
"""The value of an attribute of a recognized operation (``Reading``)."""


@dataclass(frozen=True)
class Operand:
    """A tensor or scalar constant that an operation reads or writes.

    Attributes:
        value: the value of the IR, which identifies the operand.
        shape: the shape; empty for scalars.
        element_type: in MLIR's syntax, for example ``f32``.
        is_constant: whether it is a weight, or a constant in the IR.
    """

    value: Hashable
    shape: tuple[int, ...] = ()
    element_type: str = "f32"
    is_constant: bool = False

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Reading:
    """A known tensor operation that was recognized in one or several operations of the IR.

    IR operations can share a reading only if no other operation uses their intermediate results.
    For example, a convolution and the padding of its image share a reading if only the convolution
    reads the padded image. ``docs/ir.md`` lists all kinds with their attributes.

    Attributes:
        kind: for example ``conv2d`` or ``relu``.
        inputs: the inputs in the order of the kind's definition.
        output: the only result.
        attributes: the attributes of the kind, by name.
        operations: the IR operations in order; the last operation computes ``output``.
        macs: count of multiply-accumulates.
    """

    kind: str
    inputs: tuple[Operand, ...]
    output: Operand
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    operations: tuple[Hashable, ...] = ()
    macs: int = 0
