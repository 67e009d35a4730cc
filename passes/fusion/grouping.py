"""Decides which operations may form an rOperator, independent of the fusion boundary.

The operations together have to be divisible into independent rTasks (see ``tiling/space.py``),
contain at most one contraction and only small temporaries, and have few operands. Section 4 of the
RAMMER paper requires such fusion; here, it is decided on loops instead of operator names.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.spaces import FusedSpace, FusedSpaces
from rammer_mlir.passes.ir.constant_pad import find_constant_pad
from rammer_mlir.passes.ir.structured import (
    Structured,
    captured_values,
    element_bytes,
    is_generic,
    shape_of,
)
from rammer_mlir.passes.tiling.space import is_free

VIEWS = frozenset({"tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"})
"""Reshapes and slices, which change how a tensor is addressed and copy nothing.

They stay between rOperators and cost nothing.
"""

CONCAT = "tensor.concat"
"""The name of concatenations; their operands are computed in the result's buffer."""

OPERATOR = "rtask.operator"
"""The name of rOperators that exist before fusion, such as regions; they are never fused."""

_MOST_OPERANDS = 64
"""Maximum inputs and results of an rOperator; the dialect allows 96 of each."""

_TEMPORARY_BYTES = 256 * 1024
"""Maximum size of an rTask's temporary, about the size of a core's private cache."""


@dataclass(eq=False)
class Group:
    """Operations that become an rOperator.

    Attributes:
        operations: the operations in def-before-use order.
        start: the position in the block of the group's first operation.
        space: the group's parallelism, work and temporaries; None if it cannot be tiled.
    """

    operations: list[ir.OpView]
    start: int
    space: FusedSpace | None

    @property
    def is_opaque(self) -> bool:
        """Whether the group cannot be tiled and becomes a single rTask."""
        return self.space is None


def is_cloned(op: ir.OpView) -> bool:
    """Whether each rOperator that uses an operation contains a clone of it.

    This is so for constants, empty tensors, fills, small ranges and index arithmetic.
    """
    name = op.operation.name
    if name in ("arith.constant", "tensor.empty"):
        return True
    operands = list(op.operation.operands)
    if is_generic(op):
        structured = Structured(op)
        return (
            is_free(structured)
            and not _is_large_sequence(structured)
            and all(_is_cloned_value(value) for value in operands + captured_values(op))
        )
    dialect = name.split(".")[0]
    return dialect in ("arith", "math", "affine") and all(map(_is_cloned_value, operands))


def _is_large_sequence(op: Structured) -> bool:
    """Whether an operation computes large tensors from loop indices alone, as an ``iota`` does.

    Such an operation is not cloned: an rTask that reduces over the whole tensor would need a
    temporary of the tensor's size. (A fill may be large, because a clone fills only the tile of the
    rTask.)
    """
    return op.uses_index and any(
        prod(shape_of(value)) * element_bytes(value.type) > _TEMPORARY_BYTES
        for value in op.op.operation.results
    )


def _is_cloned_value(value: ir.Value) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and is_cloned(owner.opview)


def is_view(op: ir.OpView) -> bool:
    """Whether an operation is a view, a concatenation, or a padding with static parameters.

    Such operations do not become parts of rOperators.
    """
    name = op.operation.name
    is_static = name in VIEWS and len(op.operation.operands) == 1
    return is_static or name == CONCAT or find_constant_pad(op) is not None


def is_computed(op: ir.OpView) -> bool:
    """Whether an operation is to become a part of an rOperator.

    This is so unless the operation is an rOperator, a view, a concatenation or a padding, or is
    cloned for each user.
    """
    return not is_view(op) and op.operation.name != OPERATOR and not is_cloned(op)


class Units:
    """Memoized properties of units: sets of operations that may become an rOperator."""

    def __init__(self, *, gathers: bool) -> None:
        """Start with an empty cache.

        Args:
            gathers: whether an operation's body may gather from values that its unit computes.
        """
        self._spaces = FusedSpaces(gathers=gathers)
        self._used: dict[ir.Operation, list[ir.Value]] = {}

    def structured(self, op: ir.OpView) -> Structured:
        """Return the loops, operands and body of an operation as a ``Structured``, memoized."""
        return self._spaces.structured(op)

    def kind(self, op: ir.OpView) -> int:
        """Return a number that is equal for operations with equal loops, types and bodies."""
        return self._spaces.kind(op)

    def values(self, op: ir.OpView) -> list[ir.Value]:
        """Return the operands and captured values of an operation.

        Values that are cloned for every user, such as constants, are left out.
        """
        if op.operation not in self._used:
            captured = self._spaces.captures(op) if is_generic(op) else captured_values(op)
            self._used[op.operation] = [
                value
                for value in [*op.operation.operands, *captured]
                if not _is_cloned_value(value)
            ]
        return self._used[op.operation]

    def inputs(self, operations: Sequence[ir.OpView]) -> list[ir.Value]:
        """Return the values that a unit (operation set) reads and does not compute, each once."""
        inside = {op.operation for op in operations}
        used = (value for op in operations for value in self.values(op))
        return list(dict.fromkeys(v for v in used if not is_defined_in(v, inside)))

    def space(self, operations: Sequence[ir.OpView]) -> FusedSpace | None:
        """Return the parallelism, work and temporaries of a unit of ``linalg.generic`` operations.

        Return None if the operations may not be fused.
        """
        space = self._spaces.of(operations)
        if space is None or len(operations) == 1:
            return space
        if space.contractions > 1 or space.temporary_bytes > _TEMPORARY_BYTES:
            return None
        few = len(self.inputs(operations)) + len(operations) <= _MOST_OPERANDS
        return space if few else None


def is_defined_in(value: ir.Value, inside: Container[ir.Operation]) -> bool:
    """Whether ``value`` is a result of an operation in ``inside``; False for block arguments."""
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation in inside


def enclosing(user: ir.OpView, top: Container[ir.Operation]) -> ir.Operation:
    """Return the operation in ``top`` that is ``user`` itself, or in which ``user`` is nested.

    If there is none, return the outermost operation around ``user``.
    """
    operation = user.operation
    while operation not in top and operation.parent is not None:
        operation = operation.parent.operation
    return operation
