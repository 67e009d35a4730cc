"""Finds gathers: elements that a ``linalg.generic``'s body reads from captured tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.structured import Structured

EXTRACT = "tensor.extract"
"""The operation that reads an element of a tensor at indices that the body computes."""


@dataclass(frozen=True)
class Gather:
    """A ``tensor.extract`` in the body of a generic.

    Attributes:
        op: the ``tensor.extract``.
        value: the tensor that is read.
        loops: for each dimension of the tensor, the index of the loop that indexes it; None if the
            index is computed, for example from data.
    """

    op: ir.Operation
    value: ir.Value
    loops: tuple[int | None, ...]


def gathers_of(op: Structured) -> list[Gather]:
    """Return the ``tensor.extract`` operations of a body that read captured tensors, in order."""
    captured = set(op.captures)
    return [
        Gather(inner.operation, tensor, tuple(map(_loop, indices)))
        for inner in op.body
        if inner.operation.name == EXTRACT
        for tensor, *indices in [list(inner.operation.operands)]
        if tensor in captured
    ]


def only_gathers(op: Structured, gathers: Sequence[Gather], value: ir.Value) -> bool:
    """Whether ``gathers`` contains all uses of a captured tensor ``value`` in the body."""
    uses = sum(_is_within(use.owner.operation, op.op.operation) for use in value.uses)
    return uses == sum(gather.value == value for gather in gathers)


def _loop(index: ir.Value) -> int | None:
    """Return the index of the loop whose iteration number is ``index``; None for other values.

    The iteration number may have been converted to an integer and back.
    """
    owner = index.owner
    # The index of a loop is converted to an integer and back: an i64 has as many bits.
    while not isinstance(owner, ir.Block) and owner.operation.name == "arith.index_cast":
        owner = owner.operation.operands[0].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "linalg.index":
        return None
    return ir.IntegerAttr(owner.operation.attributes["dim"]).value


def _is_within(inner: ir.Operation, outer: ir.Operation) -> bool:
    """Whether an operation is ``outer`` or nested in it."""
    parent = inner.parent
    while parent is not None and parent.operation != outer:
        parent = parent.operation.parent
    return parent is not None
