"""Chains of rOperators that can be computed in chunks, grown from the last one backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rammer_mlir.bindings import ir
from rammer_mlir.passes.fusion.grouping import OPERATOR
from rammer_mlir.passes.ir.constant_pad import PAD
from rammer_mlir.passes.ir.structured import shape_of
from rammer_mlir.passes.memory.cut_functions import CutFunctions, Parts
from rammer_mlir.passes.memory.operand_parts import Cut, Needed, operand_cuts
from rammer_mlir.passes.memory.operator_steps import kernel_names


@dataclass(frozen=True)
class Chunk:
    """The work of one chunk of a chain of rOperators that is computed in chunks.

    Attributes:
        parts: for each operation of the chain, the part of each result; None for an unused result.
        needed: for each operation, the part of each operand; None for the whole operand.
    """

    parts: tuple[Parts, ...]
    needed: tuple[tuple[Cut | None, ...], ...]


@dataclass(frozen=True)
class ChunkedChain:
    """A chain of rOperators that is computed in chunks, with the views between them.

    It may branch, but only the results of its last rOperator are used outside of it.

    Attributes:
        nodes: the operations in reverse order of the block; the first computes the results.
        chunks: the chunks in execution order; their parts of the results are consecutive.
    """

    nodes: tuple[ir.OpView, ...]
    chunks: tuple[Chunk, ...]

    @property
    def operators(self) -> list[ir.OpView]:
        """The rOperators of the chain in the order of the block."""
        return [op for op in reversed(self.nodes) if op.operation.name == OPERATOR]


def intervals(size: int, count: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into at most ``count`` intervals, each of begin and end.

    All intervals are equally long except for the last, which may be shorter.
    """
    step = -(-size // count)
    return [(begin, min(begin + step, size)) for begin in range(0, size, step)]


def first_used(op: ir.OpView) -> ir.Value:
    """Return the first result of an rOperator that has a use; without uses, its first result."""
    used = [result for result in op.results if any(True for _ in result.uses)]
    return (used or list(op.results))[0]


def _on_axes(axes: Sequence[int | None], part: tuple[int, int]) -> Parts:
    return tuple(None if axis is None else Cut(axis, *part) for axis in axes)


def _used(op: ir.OpView, parts: Parts) -> list[tuple[ir.Value, Cut]]:
    """Return the results of an operation that have a part, each with its part."""
    return [(r, cut) for r, cut in zip(op.results, parts, strict=True) if cut is not None]


class ChunkedChains:
    """Finds chains of rOperators of an entry block that can be computed in chunks."""

    def __init__(self, block: ir.Block, functions: CutFunctions, fixed: set[ir.Operation]) -> None:
        """Read a block; operations in ``fixed`` belong to no chain."""
        self._functions, self._fixed = functions, fixed
        self._operations = list(block.operations)
        self._place = {op.operation: n for n, op in enumerate(self._operations)}

    def ending_at(self, sink: ir.OpView, axis: int, count: int) -> Iterator[ChunkedChain]:
        """Yield the chains of rOperators to compute in chunks whose last rOperator is ``sink``.

        Smaller sets come first; each has at least one intermediate.

        Args:
            sink: the last rOperator of each set.
            axis: the cut dimension of the first used result of ``sink``; its other results are cut
                along the same loop.
            count: the number of chunks.
        """
        if not self._may_be_cut(sink):
            return
        size = shape_of(first_used(sink))[axis]
        parts = intervals(size, count)
        # A middle part has borders on both sides, so that it shows the general case.
        axes = self._axes(sink, axis, parts[len(parts) // 2])
        if axes is None:
            return
        ends = [_on_axes(axes, part) for part in parts]
        nodes = self._grown(sink, ends[len(ends) // 2])
        for end in _ends(nodes):
            chunks = [self._chunk(nodes[:end], part) for part in ends]
            if None in chunks:
                return
            yield ChunkedChain(tuple(nodes[:end]), tuple(chunk for chunk in chunks if chunk))

    def _axes(
        self, sink: ir.OpView, axis: int, part: tuple[int, int]
    ) -> tuple[int | None, ...] | None:
        """Return the dimension along which each result of ``sink`` is cut, None if it is unused.

        ``axis`` is the dimension of the first used result. Return None if the rOperator cannot be
        computed for the interval ``part`` of these dimensions.
        """
        first = first_used(sink)
        size = shape_of(first)[axis]
        choices: list[list[int | None]] = []
        for result in sink.results:
            if result == first:
                choices.append([axis])
            elif any(True for _ in result.uses):
                alike = [n for n, extent in enumerate(shape_of(result)) if extent == size]
                choices.append([*alike])
            else:
                choices.append([None])
        for axes in product(*choices):
            if self._needed(sink, _on_axes(axes, part)) is not None:
                return axes
        return None

    def _grown(self, sink: ir.OpView, ends: Parts) -> list[ir.OpView]:
        nodes: list[ir.OpView] = []
        parts: dict[ir.Value, Cut | None] = dict(_used(sink, ends))
        inside: set[ir.Operation] = set()
        for place in range(self._place[sink.operation], -1, -1):
            op = self._operations[place]
            if not any(result in parts for result in op.results) or not self._may_be_cut(op):
                continue
            uses = [use for result in op.results for use in result.uses]
            if nodes and any(use.owner.operation not in inside for use in uses):
                continue
            of_results = ends if op == sink else _parts_of_results(op, parts)
            needed = None if of_results is None else self._needed(op, of_results)
            if needed is None:
                if not nodes:
                    return []
                continue
            nodes.append(op)
            inside.add(op.operation)
            _add(parts, op, needed)
        return nodes

    def _may_be_cut(self, op: ir.OpView) -> bool:
        operation = op.operation
        if operation in self._fixed:
            return False
        return operation.name != OPERATOR or len(kernel_names(op)) == 1

    def _chunk(self, nodes: Sequence[ir.OpView], ends: Parts) -> Chunk | None:
        parts: dict[ir.Value, Cut | None] = dict(_used(nodes[0], ends))
        chosen: list[Parts] = []
        found: list[tuple[Cut | None, ...]] = []
        for op in nodes:
            of_results = ends if op == nodes[0] else _parts_of_results(op, parts)
            needed = None if of_results is None else self._needed(op, of_results)
            if of_results is None or needed is None:
                return None
            chosen.append(of_results)
            found.append(tuple(needed))
            _add(parts, op, needed)
        return Chunk(tuple(chosen), tuple(found))

    def _needed(self, op: ir.OpView, parts: Parts) -> Needed | None:
        if op.operation.name == OPERATOR:
            return self._functions.argument_cuts(kernel_names(op)[0], parts)
        (cut,) = parts
        return None if cut is None else operand_cuts(op, 0, cut)


def _parts_of_results(op: ir.OpView, parts: Mapping[ir.Value, Cut | None]) -> Parts | None:
    """Return the part of each result of an operation, None for an unused result.

    If the parts of all used results are along the same dimension, of the same size, they are
    replaced by a part that contains all of them, because the same loops compute the results. Return
    None if no result is used, or one is needed whole.
    """
    used = [result for result in op.results if result in parts]
    cuts = [cut for result in used if (cut := parts[result]) is not None]
    if not cuts or len(cuts) < len(used):
        return None
    sizes = {(cut.axis, shape_of(r)[cut.axis]) for r, cut in zip(used, cuts, strict=True)}
    if len(sizes) == 1:
        hull = Cut(cuts[0].axis, min(c.begin for c in cuts), max(c.end for c in cuts))
        cuts = [hull] * len(cuts)
    chosen = dict(zip(used, cuts, strict=True))
    return tuple(chosen.get(result) for result in op.results)


def _ends(nodes: Sequence[ir.OpView]) -> Iterator[int]:
    """Yield the numbers ``n`` for which the first ``n`` nodes can be computed in chunks together.

    Node ``n - 1`` and at least one node before it have to be rOperators or paddings.
    """
    new = 0
    for end, node in enumerate(nodes, 1):
        is_new = node.operation.name in (OPERATOR, PAD)
        new += is_new
        if is_new and new > 1:
            yield end


def _add(parts: dict[ir.Value, Cut | None], op: ir.OpView, needed: Needed) -> None:
    """Add to ``parts`` the part ``needed`` of each operand of operation ``op``.

    A value that already has a part gets a part that contains both. A value that is needed whole, or
    along two dimensions, gets None.
    """
    for value, cut in zip(op.operation.operands, needed, strict=True):
        before = parts.get(value, cut)
        if cut is None or before is None or before.axis != cut.axis:
            parts[value] = None
        else:
            begin, end = min(before.begin, cut.begin), max(before.end, cut.end)
            parts[value] = Cut(cut.axis, begin, end)
