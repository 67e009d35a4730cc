"""Finds chains of rOperators that can be computed in chunks.

A chunk computes a part of the chain's results, with the intermediates that it needs.

A chain starts with its last rOperator, and is extended by producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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

    A part is an interval of one dimension of a tensor.

    Attributes:
        parts: for each operation of the chain, the computed part of each result; None for an unused
            result.
        needed: for each operation, the part of each operand that it reads; None for the whole
            operand.
    """

    parts: tuple[Parts, ...]
    needed: tuple[tuple[Cut | None, ...], ...]


@dataclass(frozen=True)
class ChunkedChain:
    """A chain of rOperators, and of views between them, that is computed in chunks.

    The chain may branch, but operations outside of the chain use only the results of its last
    rOperator.

    Attributes:
        nodes: the operations in reverse order of the block; the first computes the chain's results.
        chunks: the chunks in execution order; their parts of the results are consecutive.
    """

    nodes: tuple[ir.OpView, ...]
    chunks: tuple[Chunk, ...]

    @property
    def operators(self) -> list[ir.OpView]:
        """The rOperators of the chain in the order of the block."""
        return [op for op in reversed(self.nodes) if op.operation.name == OPERATOR]


def intervals(size: int, count: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into at most ``count`` intervals; return the start and end of each.

    All intervals are equally long except for the last, which may be shorter.
    """
    step = -(-size // count)
    return [(begin, min(begin + step, size)) for begin in range(0, size, step)]


def first_used(op: ir.OpView) -> ir.Value:
    """Return the first result of an rOperator that has a use; its first result if none has."""
    used = [result for result in op.results if any(True for _ in result.uses)]
    return (used or list(op.results))[0]


def _on_axes(axes: Sequence[int | None], part: tuple[int, int]) -> Parts:
    return tuple(None if axis is None else Cut(axis, *part) for axis in axes)


def _used(op: ir.OpView, parts: Parts) -> list[tuple[ir.Value, Cut]]:
    """Return the results of ``op`` whose part in ``parts`` is not None, each with this part."""
    return [(r, cut) for r, cut in zip(op.results, parts, strict=True) if cut is not None]


class ChunkedChains:
    """Finds chains of rOperators of an entry block that can be computed in chunks."""

    def __init__(self, block: ir.Block, functions: CutFunctions, fixed: set[ir.Operation]) -> None:
        """Read a block; operations in ``fixed`` belong to no chain.

        ``functions`` creates the functions that compute chunks.
        """
        self._functions, self._fixed = functions, fixed
        self._operations = list(block.operations)
        self._place = {op.operation: n for n, op in enumerate(self._operations)}

    def ending_at(self, sink: ir.OpView, axis: int, count: int) -> Iterator[ChunkedChain]:
        """Yield the chains, cut into chunks, that end at the rOperator ``sink``.

        Shorter chains come first: each chain adds operations before the first operation of the
        previous chain. A chain has at least one intermediate, and begins with an rOperator or a
        pad.

        Args:
            sink: the last rOperator of each chain.
            axis: the dimension to cut, counted in the first used result of ``sink``; the other
                results of ``sink`` are cut along the same loop.
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
        growing = [_GrowingChunk(self._needed, sink, end) for end in ends]
        nodes: list[ir.OpView] = []
        steps = 0
        for node in self._grown(sink, ends[len(ends) // 2]):
            nodes.append(node)
            if not all(chunk.add(node) for chunk in growing):
                return
            if node.operation.name not in (OPERATOR, PAD):
                continue
            steps += 1
            if steps > 1:
                yield ChunkedChain(tuple(nodes), tuple(chunk.chunk() for chunk in growing))

    def _axes(
        self, sink: ir.OpView, axis: int, part: tuple[int, int]
    ) -> tuple[int | None, ...] | None:
        """Return, for each result of ``sink``, the dimension to cut; None for an unused result.

        ``axis`` is the dimension of the first used result. These dimensions are cut to the interval
        from ``part[0]`` to ``part[1]``. Return None if the rOperator cannot compute only this
        interval.
        """
        first = first_used(sink)
        size = shape_of(first)[axis]
        unused: tuple[int | None, ...] = (None,) * len(sink.results)
        at = next(n for n, result in enumerate(sink.results) if result == first)
        alone = (*unused[:at], axis, *unused[at + 1 :])
        chosen = list(alone)
        for number, result in enumerate(sink.results):
            if number == at or not any(True for _ in result.uses):
                continue
            alike = [n for n, extent in enumerate(shape_of(result)) if extent == size]
            # Each result alone: all combinations would take exponential time.
            pairs = ((*alone[:number], n, *alone[number + 1 :]) for n in alike)
            fitting = (p for p in pairs if self._needed(sink, _on_axes(p, part)) is not None)
            found = next(fitting, None)
            if found is None:
                return None
            chosen[number] = found[number]
        axes = tuple(chosen)
        return None if self._needed(sink, _on_axes(axes, part)) is None else axes

    def _grown(self, sink: ir.OpView, ends: Parts) -> Iterator[ir.OpView]:
        """Yield ``sink`` and the operations before it that can be in the same chain.

        The order is from ``sink`` towards the start of the block. ``ends`` has, for each result of
        ``sink``, the part that a chunk computes.
        """
        chunk = _GrowingChunk(self._needed, sink, ends)
        inside: set[ir.Operation] = set()
        for op in reversed(self._operations[: self._place[sink.operation] + 1]):
            if not chunk.uses(op) or not self._may_be_cut(op):
                continue
            uses = [use for result in op.results for use in result.uses]
            if op != sink and any(use.owner.operation not in inside for use in uses):
                continue
            if chunk.add(op):
                inside.add(op.operation)
                yield op
            elif op == sink:
                return

    def _may_be_cut(self, op: ir.OpView) -> bool:
        operation = op.operation
        if operation in self._fixed:
            return False
        return operation.name != OPERATOR or len(kernel_names(op)) == 1

    def _needed(self, op: ir.OpView, parts: Parts) -> Needed | None:
        if op.operation.name == OPERATOR:
            return self._functions.argument_cuts(kernel_names(op)[0], parts)
        (cut,) = parts
        return None if cut is None else operand_cuts(op, 0, cut)


@dataclass
class _GrowingChunk:
    """A chunk of a chain to which operations are added in reverse order, consumers first.

    A part is an interval of one dimension of a tensor.

    Attributes:
        rule: returns the part of each operand that an operation needs for parts of its results.
        sink: the last operation of the chain.
        ends: the chunk's part of each result of ``sink``.
    """

    rule: Callable[[ir.OpView, Parts], Needed | None]
    sink: ir.OpView
    ends: Parts

    def __post_init__(self) -> None:
        """Create a chunk without operations that needs the parts ``ends`` of ``sink``'s results."""
        self._parts: dict[ir.Value, Cut | None] = dict(_used(self.sink, self.ends))
        self._chosen: list[Parts] = []
        self._needed: list[tuple[Cut | None, ...]] = []

    def uses(self, op: ir.OpView) -> bool:
        """Whether the chunk uses a result of ``op``, or ``op`` is the chain's last operation."""
        return any(result in self._parts for result in op.results)

    def add(self, op: ir.OpView) -> bool:
        """Add an operation; return False, without a change, if it cannot be computed in parts."""
        parts = self.ends if op == self.sink else _parts_of_results(op, self._parts)
        needed = None if parts is None else self.rule(op, parts)
        if parts is None or needed is None:
            return False
        self._chosen.append(parts)
        self._needed.append(tuple(needed))
        _add(self._parts, op, needed)
        return True

    def chunk(self) -> Chunk:
        """Return the chunk of the operations that were added."""
        return Chunk(tuple(self._chosen), tuple(self._needed))


def _parts_of_results(op: ir.OpView, parts: Mapping[ir.Value, Cut | None]) -> Parts | None:
    """Return the part of each result that an operation has to compute; None for an unused result.

    ``parts`` maps values to needed parts. If all needed parts are along the same dimension, and all
    used results have the same size along it, each used result gets the smallest interval that
    contains all parts, because the same loops compute the results. Return None if no result is
    used, or a result is needed whole.
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


def _add(parts: dict[ir.Value, Cut | None], op: ir.OpView, needed: Needed) -> None:
    """Add the parts ``needed`` of the operands of operation ``op`` to ``parts``, one per operand.

    A value that already has a part gets the smallest interval that contains both parts. A value
    that is needed whole, or along two dimensions, gets None.
    """
    for value, cut in zip(op.operation.operands, needed, strict=True):
        before = parts.get(value, cut)
        if cut is None or before is None or before.axis != cut.axis:
            parts[value] = None
        else:
            begin, end = min(before.begin, cut.begin), max(before.end, cut.end)
            parts[value] = Cut(cut.axis, begin, end)
