"""What an operation of the graph means, in terms that do not depend on how it is written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rammer_mlir.passes.regions.expressions import Expression

Attribute: TypeAlias = (
    bool | int | float | str | tuple[int, ...] | tuple[tuple[int, ...], ...] | Expression
)
"""A property of an operation."""


@dataclass(frozen=True)
class Operand:
    """A tensor, or a scalar constant, that an operation reads or writes.

    Attributes:
        value: identifies it: a value of the IR.
        shape: empty for scalars.
        element_type: as MLIR writes it, for example ``f32``.
        is_constant: whether it is a weight, or written in the IR.
    """

    value: Hashable
    shape: tuple[int, ...] = ()
    element_type: str = "f32"
    is_constant: bool = False

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Reading:
    """The meaning of an operation, and of those that belong to it, as the padding of an image.

    ``docs/ir.md`` lists all kinds with their attributes.

    Attributes:
        kind: for example ``conv2d`` or ``relu``.
        inputs: in the order in which the kind defines them.
        output: the only result.
        attributes: what the kind has besides.
        operations: the operations in the IR's order, the last one computes the output; values
            between them are not used elsewhere.
        macs: multiplications that are added up.
    """

    kind: str
    inputs: tuple[Operand, ...]
    output: Operand
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    operations: tuple[Hashable, ...] = ()
    macs: int = 0
