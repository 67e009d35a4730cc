"""Memoizes properties of groups of operations: their parallelism, memory and work.

The properties are computed once for all groups with equal patterns, because a recurrent network has
the same few operations thousands of times. Operations have equal patterns if they have the same
loops, operand types and arithmetic. Groups of operations have equal patterns if, in addition,
values flow between the operations in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from rammer_mlir.bindings import ir
from rammer_mlir.passes.ir.gathers import gathers_of
from rammer_mlir.passes.ir.structured import Structured, body_operations
from rammer_mlir.passes.tiling.space import TileSpace, analyze

_Indices = tuple[tuple[int | None, ...], ...]
"""For each gather in a body, the index of the loop that indexes each dimension, or None."""
_Kind = tuple[ir.Attribute, ir.Attribute, tuple[ir.Type, ...], tuple[str, ...], _Indices]
_Source = tuple[int, int] | None
"""The producer of a value: an operation's index in the group, and the index of its result.

None if no operation of the group produces the value.
"""
_Pattern = tuple[tuple[int, tuple[_Source, ...]], ...]


@dataclass(frozen=True)
class FusedSpace:
    """The parallelism, memory and work of a group of operations that can be tiled together.

    Attributes:
        parallelism: the number of independent rTasks of the finest tiling.
        contractions: the number of contractions among the operations.
        temporary_bytes: the size in bytes of the largest value that one rTask of the finest tiling
            computes, with 4 bytes for each element.
        work: the number of scalar operations of the whole group.
    """

    parallelism: int
    contractions: int
    temporary_bytes: int
    work: int


class FusedSpaces:
    """Computes and memoizes a ``FusedSpace`` for each group of ``linalg.generic`` operations.

    The operations of a group are given in def-before-use order.
    """

    def __init__(self, *, gathers: bool = False) -> None:
        """Start with an empty cache.

        Args:
            gathers: whether an operation's body may gather from values that its group computes.
        """
        self._gathers = gathers
        self._structured: dict[ir.Operation, tuple[int, Structured]] = {}
        self._kinds: dict[_Kind, int] = {}
        self._known: dict[_Pattern, FusedSpace | None] = {}

    def of(self, operations: Sequence[ir.OpView]) -> FusedSpace | None:
        """Return the parallelism, memory and work of a group of operations as a ``FusedSpace``.

        Return None if the loops of the operations cannot be tiled together.
        """
        pattern = self._pattern(operations)
        if pattern not in self._known:
            read = [self._read(op)[1] for op in operations]
            space = analyze(read, gathers=self._gathers)
            self._known[pattern] = None if space is None else _facts(space)
        return self._known[pattern]

    def structured(self, op: ir.OpView) -> Structured:
        """Return the loops, operands and body of an operation as a ``Structured``, memoized."""
        return self._read(op)[1]

    def kind(self, op: ir.OpView) -> int:
        """Return a number that is equal for operations with equal loops, types and arithmetic."""
        return self._read(op)[0]

    def captures(self, op: ir.OpView) -> Sequence[ir.Value]:
        """Return the values that the body of ``op`` uses and that are defined outside of ``op``.

        The result is memoized.
        """
        return self._read(op)[1].captures

    def _pattern(self, operations: Sequence[ir.OpView]) -> _Pattern:
        sources: dict[ir.Value, _Source] = {}
        found: list[tuple[int, tuple[_Source, ...]]] = []
        for number, op in enumerate(operations):
            kind, structured = self._read(op)
            used = [*op.operation.operands, *structured.captures]
            found.append((kind, tuple(sources.get(value) for value in used)))
            for result, value in enumerate(op.operation.results):
                sources[value] = number, result
        return tuple(found)

    def _read(self, op: ir.OpView) -> tuple[int, Structured]:
        """Return an operation's kind and its ``Structured``, both memoized.

        The kind is a number that is equal for operations with equal loops, types and arithmetic.
        """
        operation = op.operation
        if operation not in self._structured:
            structured = Structured(op)
            kind = (
                operation.attributes["indexing_maps"],
                operation.attributes["iterator_types"],
                tuple(value.type for value in operation.operands),
                tuple(inner.operation.name for inner in body_operations(op)),
                tuple(gather.loops for gather in gathers_of(structured)),
            )
            number = self._kinds.setdefault(kind, len(self._kinds))
            self._structured[operation] = number, structured
        return self._structured[operation]


def _facts(space: TileSpace) -> FusedSpace:
    return FusedSpace(
        space.parallelism,
        sum(op.is_contraction for op in space.operations),
        _temporary_bytes(space),
        sum(op.operations for op in space.operations),
    )


def _temporary_bytes(space: TileSpace) -> int:
    tiled = [set(loops.loops.items()) for loops in space.classes]
    largest = 0
    for index, op in enumerate(space.operations):
        dims = op.result_dims(0)
        if dims is None:
            continue
        kept = [d for d in dims if not any((index, d) in loops for loops in tiled)]
        largest = max(largest, prod(op.extents[d] for d in kept) * 4)
    return largest
